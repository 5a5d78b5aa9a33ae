//! What a thief gets: something to run once, and nothing else that it could do with it.

use std::ptr::NonNull;

/// The head of everything that may be taken. `repr(C)` types start with it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct StealableJob {
    /// Runs it, and tells its owner if that is somebody else.
    ///
    /// # Safety
    ///
    /// The caller alone has it, by an offer or a claim or because nobody was told of it, and uses the pointer
    /// no more.
    pub(crate) run: unsafe fn(NonNull<StealableJob>, By),
}

/// Who runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The one who made it, and told nobody.
    Owner,
    /// Whoever took it; or its owner, who took it back after others were told.
    Taker,
}

/// The right to run what was taken from its owner. It is to be run.
#[derive(Debug)]
#[must_use = "its owner waits for it"]
pub(crate) struct Stolen(NonNull<StealableJob>);

// SAFETY: what it leads to is `Send` (forks and jobs of scopes demand it), and in this thread's hands alone.
unsafe impl Send for Stolen {}

impl Stolen {
    /// # Safety
    ///
    /// It was taken from its owner by the caller, once, by an offer or a claim.
    pub(crate) unsafe fn new(taken: NonNull<StealableJob>) -> Self {
        Self(taken)
    }

    /// Runs it and tells its owner. A panic is its owner's.
    pub(crate) fn run(self) {
        // SAFETY: the owner waits until it is done.
        let run = unsafe { self.0.as_ref() }.run;
        // SAFETY: by the contract of `new` it is run once, and not by its owner.
        unsafe { run(self.0, By::Taker) };
    }
}
