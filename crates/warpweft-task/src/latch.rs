//! A flag that a waiter may hang its token on.
//!
//! ```text
//!             set                  take
//!   EMPTY ───────────▶ SET ─────────────────▶ EMPTY
//!     │ hang(token)     ▲
//!     └──▶ token ──set──┘  and the token is pushed
//! ```
//!
//! A thread that carries a worker does not park on a flag: it gives its worker away, and its way back is a
//! task, whose token hangs here until somebody sets the flag.
//!
//! # Invariants
//!
//! - A token hangs here at most once at a time; whoever sets the flag first has it and pushes it, once.
//! - Publish last: after `set` has taken a token and before it is pushed the waiter cannot go on, so the flag
//!   is still there; after the swap that found no token the flag is not touched.

use crate::runnable::{Abandon, Runnable};
use crate::why::Why;
use std::num::NonZeroUsize;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::delay;
use warpweft_queue::Word;

const EMPTY: usize = 0;
/// No token: tokens are addresses, and aligned.
const SET: usize = 1;

/// Something that happens, and at most one waiter for it.
#[derive(Debug)]
pub struct Latch(AtomicUsize);

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

impl Latch {
    /// A flag that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicUsize::new(EMPTY))
    }

    /// Whether it is set. What was done before `set` is visible then.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `set`.
        self.0.load(Ordering::Acquire) == SET
    }

    /// Sets it, and makes the token that hangs here runnable. Costs one swap.
    pub fn set(&self) {
        if let Some(token) = self.set_and_take() {
            token.push(Why::Woken);
        }
    }

    /// Sets it, and gives the token that hangs here to the caller, who runs or pushes it.
    #[must_use]
    pub fn set_and_take(&self) -> Option<Runnable> {
        // Ordering: Release publishes what happened; Acquire takes the token's task.
        let before = self.0.swap(SET, Ordering::AcqRel);
        delay::point("signal.set: said");
        token(before)
    }

    /// Clears it; whether it was set. For the waiter, whose token does not hang here.
    pub fn take(&self) -> bool {
        self.0
            .compare_exchange(SET, EMPTY, Ordering::Acquire, Ordering::Acquire)
            .is_ok()
    }

    /// Hangs `token` here, to be pushed when the flag is set.
    ///
    /// # Errors
    ///
    /// It is set already: the token comes back.
    pub fn register(&self, waiter: Runnable) -> Result<(), Runnable> {
        let word = waiter.into_word();
        // Ordering: Release gives the token's task to whoever takes it; Acquire as in `is_set`.
        match self
            .0
            .compare_exchange(EMPTY, word.get(), Ordering::Release, Ordering::Acquire)
        {
            Ok(_) => Ok(()),
            // SAFETY: the word was made above, and it is in nobody else's hands.
            Err(_) => Err(unsafe { Runnable::from_word(word) }),
        }
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        // It cannot be set any more: the token ends, so that the waiter does not sleep for ever.
        if let Some(token) = token(self.0.load(Ordering::Acquire)) {
            token.abandon(Abandon::Dropped);
        }
    }
}

fn token(word: usize) -> Option<Runnable> {
    NonZeroUsize::new(word)
        .filter(|&word| word.get() != SET)
        // SAFETY: all other words came from `register`, and who swaps or drops the flag takes them out, once.
        .map(|word| unsafe { Runnable::from_word(word) })
}
