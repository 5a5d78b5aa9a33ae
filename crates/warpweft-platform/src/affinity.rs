//! The CPUs on which a thread may run.

use std::io;

/// Returns the CPUs that the calling thread may use, in ascending order; `None` if the system does not report
/// them.
#[must_use]
pub fn allowed() -> Option<Vec<usize>> {
    imp::allowed()
}

/// Pins the calling thread, and those that it starts, to these CPUs. Costs one system call, about a
/// microsecond if the thread can stay where it is; a move to another CPU costs more.
///
/// Under the checkers it does nothing.
///
/// # Errors
///
/// The system's error: none of them may be used, or pinning is not supported.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    imp::pin(cpus)
}

#[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
mod imp {
    use libc::{CPU_ISSET, CPU_SET, CPU_SETSIZE, cpu_set_t};
    use std::{io, mem};

    /// As many CPUs as a set has room for.
    const MOST: usize = CPU_SETSIZE as usize;

    fn none() -> cpu_set_t {
        // SAFETY: a set is an array of integers, and zeros are the empty one.
        unsafe { mem::zeroed() }
    }

    pub(super) fn allowed() -> Option<Vec<usize>> {
        let mut set = none();
        // SAFETY: the kernel writes at most as many bytes as the set has, and only during the call. Thread 0
        // is the caller.
        let result = unsafe { libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut set) };
        if result != 0 {
            return None;
        }
        // SAFETY: `cpu` is within the set.
        let is_in = |&cpu: &usize| unsafe { CPU_ISSET(cpu, &set) };
        Some((0..MOST).filter(is_in).collect())
    }

    pub(super) fn pin(cpus: &[usize]) -> io::Result<()> {
        let mut set = none();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < MOST) {
            // SAFETY: `cpu` is within the set.
            unsafe { CPU_SET(cpu, &mut set) };
        }
        // SAFETY: the kernel reads as many bytes as the set has, and only during the call. Thread 0 is the
        // caller.
        match unsafe { libc::sched_setaffinity(0, size_of::<cpu_set_t>(), &raw const set) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(any(warpweft_loom, warpweft_shuttle))]
mod imp {
    pub(super) fn allowed() -> Option<Vec<usize>> {
        Some(vec![0, 1])
    }

    pub(super) fn pin(_cpus: &[usize]) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(warpweft_sim)]
mod imp {
    pub(super) fn allowed() -> Option<Vec<usize>> {
        Some(warpweft_sim::allowed()).filter(|allowed| !allowed.is_empty())
    }

    pub(super) fn pin(cpus: &[usize]) -> std::io::Result<()> {
        if warpweft_sim::pin(cpus) {
            return Ok(());
        }
        Err(std::io::ErrorKind::InvalidInput.into())
    }
}

#[cfg(not(any(target_os = "linux", warpweft_loom, warpweft_shuttle, warpweft_sim)))]
mod imp {
    pub(super) fn allowed() -> Option<Vec<usize>> {
        None
    }

    pub(super) fn pin(_cpus: &[usize]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{allowed, pin};

    #[test]
    fn a_thread_is_pinned_alone() {
        let before = allowed().expect("Linux tells");
        let last = *before.last().expect("at least one");
        let pinned = std::thread::spawn(move || {
            pin(&[last]).expect("it is allowed");
            let here = allowed();
            // None of these may be used: the thread stays where it was.
            let error = pin(&[usize::MAX]).expect_err("no such CPU");
            assert_eq!(allowed(), here);
            (here, error.kind())
        });
        let (pinned, error) = pinned.join().expect("no panic");
        assert_eq!(pinned, Some(vec![last]));
        assert_eq!(error, std::io::ErrorKind::InvalidInput);
        assert_eq!(allowed(), Some(before));
    }
}
