//! What a thief may take, and the right to run once what it has taken. It can do nothing else with it.

use std::ptr::NonNull;

/// The head of each structure that a thief may take. `repr(C)` types start with it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Stealable {
    /// Runs the job, and reports its end to the owner if another thread ran it.
    ///
    /// # Safety
    ///
    /// The caller alone has the job: by an offer, by a claim, or because no other thread knew of it. The
    /// caller does not use the pointer afterwards.
    pub(crate) run: unsafe fn(NonNull<Stealable>, By),
}

/// The thread that runs a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The thread that made it; no other thread knew of it.
    Owner,
    /// The thread that took it, or the owner that took it back after other threads knew of it.
    Taker,
}

/// The right to run a job that was taken from its owner. The holder must run it.
#[derive(Debug)]
#[must_use = "its owner waits for it"]
pub(crate) struct Stolen(NonNull<Stealable>);

// SAFETY: what it leads to is `Send` (forks and jobs of scopes demand it), and only this thread reaches it.
unsafe impl Send for Stolen {}

impl Stolen {
    /// # Safety
    ///
    /// The caller took the job from its owner, once, by an offer or a claim.
    pub(crate) unsafe fn new(taken: NonNull<Stealable>) -> Self {
        Self(taken)
    }

    /// Returns its address, which its owner knows.
    pub(crate) fn address(&self) -> *const Stealable {
        self.0.as_ptr()
    }

    /// Runs the job and reports its end to the owner, which also receives a panic.
    pub(crate) fn run(self) {
        // SAFETY: the owner waits until the job is done.
        let run = unsafe { self.0.as_ref() }.run;
        // SAFETY: by the contract of `new` it is run once, and not by its owner.
        unsafe { run(self.0, By::Taker) };
    }
}
