//! A claim settles which thread runs a latent fork that became a task.
//!
//! An owner that has to wait turns its latent forks into stealable jobs. The owner and the queue share a
//! claim; the first to take it runs the fork. A job whose claim is taken is stale. Its holder looks at the
//! claim, of which it owns a share, and never at the frame.

use super::stealable::{Stealable, Stolen};
use std::ptr::NonNull;
use warpweft_platform::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct ForkClaim {
    claimed: AtomicBool,
    fork: NonNull<Stealable>,
}

// SAFETY: only the thread that wins `take` reaches the pointer, and what it leads to is `Send`.
unsafe impl Send for ForkClaim {}
// SAFETY: as above.
unsafe impl Sync for ForkClaim {}

impl ForkClaim {
    pub(crate) fn new(fork: NonNull<Stealable>) -> Self {
        Self {
            claimed: AtomicBool::new(false),
            fork,
        }
    }

    /// Takes the claim. Returns true if the caller is the first.
    pub(crate) fn take(&self) -> bool {
        // Ordering: Relaxed; the fork came with the claim, through a queue, or never left its owner.
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    /// Returns the fork if it has not been claimed. The fork's task calls this.
    pub(crate) fn steal(&self) -> Option<Stolen> {
        // SAFETY: the first thread to claim it has it, and its owner waits for it then.
        self.take().then(|| unsafe { Stolen::new(self.fork) })
    }
}
