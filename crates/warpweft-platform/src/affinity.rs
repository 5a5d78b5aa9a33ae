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

#[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]
mod imp {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::io;

    pub(super) fn allowed() -> Option<Vec<usize>> {
        let set = sched_getaffinity(None).ok()?;
        Some((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
    }

    pub(super) fn pin(cpus: &[usize]) -> io::Result<()> {
        let mut set = CpuSet::new();
        cpus.iter()
            .filter(|&&cpu| cpu < CpuSet::MAX_CPU)
            .for_each(|&cpu| set.set(cpu));
        Ok(sched_setaffinity(None, &set)?)
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

#[cfg(not(any(target_os = "linux", warpweft_loom, warpweft_shuttle)))]
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
