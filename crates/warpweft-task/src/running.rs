//! Lets code in a task find out whether that task was cancelled.
//!
//! # Invariants
//!
//! - A thread's word is null, or the header of a task whose closure is on the thread's stack: so it is alive.
//! - For a closure on another stack the [`StackRunner`](crate::StackRunner) remembers the task: see
//!   [`StackRunner::runs`](crate::StackRunner::runs).

use crate::header::Header;
use std::ptr::{self, NonNull};
use warpweft_platform::thread_word;

thread_word!(static JOB: *const Header = ptr::null());

/// A task whose closure runs.
#[derive(Debug, Clone, Copy)]
pub struct Running(NonNull<Header>);

impl Running {
    /// # Safety
    ///
    /// The task is alive until its closure has ended.
    pub(crate) unsafe fn new(header: NonNull<Header>) -> Self {
        Self(header)
    }

    /// Returns true if its cancellation was requested.
    ///
    /// # Safety
    ///
    /// Its closure has not ended.
    #[must_use]
    pub unsafe fn is_cancelled(self) -> bool {
        // SAFETY: by contract, and by that of `new`.
        unsafe { self.0.as_ref() }.state.is_cancelled()
    }

    /// Returns the word that belongs to the policy, as it was when the closure began.
    ///
    /// # Safety
    ///
    /// Its closure has not ended.
    #[must_use]
    pub unsafe fn policy_word(self) -> u64 {
        // SAFETY: by contract, and by that of `new`. While the closure runs no policy has the task, so no
        // code writes the word.
        unsafe { self.0.as_ref() }.policy.with(|word| unsafe { *word })
    }
}

/// Marks that a job's closure runs on this stack, until the value is dropped. Costs two stores.
pub(crate) struct JobRuns(());

impl JobRuns {
    /// # Safety
    ///
    /// The task is alive for as long as the value, which is dropped on this thread and not leaked.
    #[inline]
    pub(crate) unsafe fn new(header: NonNull<Header>) -> Self {
        JOB.with(|job| job.set(header.as_ptr()));
        Self(())
    }
}

impl Drop for JobRuns {
    #[inline]
    fn drop(&mut self) {
        // Null, not the job below, if there is one: that job can no longer be stopped, and its word was not
        // kept.
        JOB.with(|job| job.set(ptr::null()));
    }
}

/// Returns the job whose closure is on this thread's own stack; null if there is none, or it has no handle.
pub(crate) fn job() -> *const Header {
    JOB.with(std::cell::Cell::get)
}

/// Returns whether the job that runs on this thread's own stack was cancelled. `None`: there is no such job,
/// or it has no handle.
#[must_use]
pub fn is_job_cancelled() -> Option<bool> {
    let job = JOB.with(std::cell::Cell::get);
    // SAFETY: null, or a task whose closure is on this thread's stack. The caller of its step holds its
    // runnable.
    unsafe { job.as_ref() }.map(|header| header.state.is_cancelled())
}

/// Calls `f` as code that is not part of the job that runs here.
///
/// # Safety
///
/// `f` returns on the stack on which it was called, before the job that runs there ends.
pub unsafe fn apart_from_job<T>(f: impl FnOnce() -> T) -> T {
    struct Back(*const Header);
    impl Drop for Back {
        fn drop(&mut self) {
            JOB.with(|job| job.set(self.0));
        }
    }
    let _back = Back(JOB.with(|job| job.replace(ptr::null())));
    f()
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{JobRuns, apart_from_job, is_job_cancelled};
    use crate::test_tasks::TestTasks;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_job_is_known_while_its_closure_runs() {
        let task = TestTasks::new(1).task(0);
        // SAFETY: the test alone runs or ends the tasks of a `TestTasks`.
        let task = unsafe { task.into_runnable() }.into_header();
        assert_eq!(is_job_cancelled(), None);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the task is there until the end of this test.
            let _runs = unsafe { JobRuns::new(task) };
            assert_eq!(is_job_cancelled(), Some(false));
            // SAFETY: it switches to no other stack.
            unsafe { apart_from_job(|| assert_eq!(is_job_cancelled(), None)) };
            // SAFETY: the runnable is ours.
            unsafe { task.as_ref() }.state.cancel();
            assert_eq!(is_job_cancelled(), Some(true));
            std::panic::resume_unwind(Box::new("closures may panic"));
        }));
        assert!(ran.is_err());
        assert_eq!(is_job_cancelled(), None);
        // SAFETY: it is the runnable of the task, which no other thread has.
        drop(unsafe { crate::Runnable::from_header(task) });
    }
}
