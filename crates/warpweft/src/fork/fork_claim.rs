//! A ticket: a latent fork as a task, for when its owner has to wait and others should run it.
//!
//! Owner and queue share a claim; whoever takes it first has the fork. A ticket that comes too late is stale:
//! it looks at the claim, which it owns a share of, and never at the frame.

use super::stealable_job::{StealableJob, Stolen};
use std::ptr::NonNull;
use warpweft_platform::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct ForkClaim {
    claimed: AtomicBool,
    runnable: NonNull<StealableJob>,
}

// SAFETY: it is reached through `take` only, by the one who gets it, and what it leads to is `Send`.
unsafe impl Send for ForkClaim {}
// SAFETY: as above.
unsafe impl Sync for ForkClaim {}

impl ForkClaim {
    pub(crate) fn new(runnable: NonNull<StealableJob>) -> Self {
        Self {
            claimed: AtomicBool::new(false),
            runnable,
        }
    }

    /// Whether the caller is the first.
    pub(crate) fn take(&self) -> bool {
        // Ordering: Relaxed; the fork came with the ticket, through a queue, or never left its owner.
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    /// The fork, if it has not been claimed: for the task that the ticket is.
    pub(crate) fn steal(&self) -> Option<Stolen> {
        // SAFETY: the first one to claim it has it, and its owner waits for it then.
        self.take().then(|| unsafe { Stolen::new(self.runnable) })
    }
}
