//! A latch: an event that a thread sets, and with which at most one waiter registers its runnable.
//!
//! ```text
//!             set                  take
//!   EMPTY ───────────▶ SET ─────────────────▶ EMPTY
//!     │ register(r)     ▲
//!     └──▶ r ───set─────┘  and r is pushed
//! ```
//!
//! A thread that carries a worker does not park for a latch. It gives its worker away and registers
//! its runnable here, until a thread sets the latch.
//!
//! # Invariants
//!
//! - At most one runnable is registered at a time. The thread that sets the latch first takes it and
//!   pushes it, once.
//! - Publish last: between taking the runnable and pushing it, `set` may touch the latch, because the waiter
//!   cannot continue. After a swap that found no runnable it does not touch the latch.

use crate::runnable::{Abandon, Runnable};
use crate::why::Why;
use std::num::NonZeroUsize;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::delay;
use warpweft_queue::Word;

const EMPTY: usize = 0;
/// Means that the latch is set. A runnable is an aligned address, so it is never 1.
const SET: usize = 1;

/// A one-shot event with at most one waiter.
#[derive(Debug)]
pub struct Latch(AtomicUsize);

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

impl Latch {
    /// Makes a latch that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicUsize::new(EMPTY))
    }

    /// Returns true if the latch is set. Then everything done before `set` is visible.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `set`.
        self.0.load(Ordering::Acquire) == SET
    }

    /// Sets the latch and pushes the registered runnable, if there is one. Costs one swap.
    pub fn set(&self) {
        if let Some(runnable) = self.set_and_take() {
            runnable.push(Why::Woken);
        }
    }

    /// Sets the latch and returns the registered runnable. The caller runs or pushes it.
    #[must_use]
    pub fn set_and_take(&self) -> Option<Runnable> {
        // Ordering: Release publishes what happened; Acquire takes the runnable's task.
        let before = self.0.swap(SET, Ordering::AcqRel);
        delay::point("latch.set: swapped");
        runnable(before)
    }

    /// Clears the latch. Returns true if it was set. Only the waiter calls it, while no runnable is
    /// registered.
    pub fn take(&self) -> bool {
        self.0
            .compare_exchange(SET, EMPTY, Ordering::Acquire, Ordering::Acquire)
            .is_ok()
    }

    /// Registers `waiter`, to be pushed when the latch is set.
    ///
    /// # Errors
    ///
    /// The latch is set already: the runnable comes back.
    pub fn register(&self, waiter: Runnable) -> Result<(), Runnable> {
        let word = waiter.into_word();
        // Ordering: Release gives the runnable's task to the thread that takes it; Acquire as in `is_set`.
        match self
            .0
            .compare_exchange(EMPTY, word.get(), Ordering::Release, Ordering::Acquire)
        {
            Ok(_) => Ok(()),
            // SAFETY: the word was made above, and no other thread has it.
            Err(_) => Err(unsafe { Runnable::from_word(word) }),
        }
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        // The latch cannot be set any more. The runnable ends, so that the waiter does not sleep forever.
        if let Some(runnable) = runnable(self.0.load(Ordering::Acquire)) {
            runnable.abandon(Abandon::Dropped);
        }
    }
}

fn runnable(word: usize) -> Option<Runnable> {
    NonZeroUsize::new(word)
        .filter(|&word| word.get() != SET)
        // SAFETY: all other words came from `register`. The thread that swaps or drops the latch takes
        // them out, once.
        .map(|word| unsafe { Runnable::from_word(word) })
}
