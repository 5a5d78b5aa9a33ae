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
    use std::io;

    /// A word of a set. A kernel for more than 1024 CPUs refuses to fill a `cpu_set_t`.
    type Word = libc::c_ulong;
    const BITS: usize = Word::BITS as usize;
    /// The sets that are tried, in words: 1024 CPUs at first.
    const FIRST: usize = 1024 / BITS;
    const MOST: usize = (1 << 16) / BITS;

    pub(super) fn allowed() -> Option<Vec<usize>> {
        let mut set: Vec<Word> = vec![0; FIRST];
        loop {
            let bytes = size_of_val(&*set);
            // SAFETY: the kernel writes at most as many bytes as the set has, and only during the call.
            // Thread 0 is the caller.
            match unsafe { libc::sched_getaffinity(0, bytes, set.as_mut_ptr().cast()) } {
                0 => break,
                _ if set.len() < MOST && is_too_small() => set.resize(2 * set.len(), 0),
                _ => return None,
            }
        }
        let is_in = |&cpu: &usize| set[cpu / BITS] >> (cpu % BITS) & 1 != 0;
        Some((0..set.len() * BITS).filter(is_in).collect())
    }

    fn is_too_small() -> bool {
        io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
    }

    pub(super) fn pin(cpus: &[usize]) -> io::Result<()> {
        let mut set: Vec<Word> = vec![0; FIRST];
        for &cpu in cpus.iter().filter(|&&cpu| cpu < MOST * BITS) {
            let word = cpu / BITS;
            if word >= set.len() {
                set.resize(word + 1, 0);
            }
            set[word] |= 1 << (cpu % BITS);
        }
        let bytes = size_of_val(&*set);
        // SAFETY: the kernel reads as many bytes as the set has, and only during the call. Thread 0 is the
        // caller.
        match unsafe { libc::sched_setaffinity(0, bytes, set.as_ptr().cast()) } {
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
