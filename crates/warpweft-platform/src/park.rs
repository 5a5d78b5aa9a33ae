//! Parking: one thread waits for a token that any thread may leave.
//!
//! ```text
//!            unpark                park
//!   EMPTY ───────────▶ NOTIFIED ─────────▶ EMPTY        (park returns at once)
//!   EMPTY ──park─────▶ PARKED ──unpark───▶ NOTIFIED     (the sleeper takes the token, EMPTY again)
//! ```
//!
//! # Invariants
//!
//! - A token is never lost and never counted twice: `unpark` before, during or after `park` lets exactly one
//!   `park` return. There is no time-out that could hide a lost one.
//! - Everything before `unpark` happens before the return of the `park` that took its token.
//! - A `Parker` belongs to a *place*, not to a thread: whoever carries that place next may park there.

use crate::atomic::{AtomicU32, Ordering};
use crate::sync::{Condvar, Mutex};

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// A place where one thread at a time sleeps until [`unpark`](Parker::unpark).
#[derive(Debug)]
pub struct Parker {
    state: AtomicU32,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker {
    /// A place without a token.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(EMPTY),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Takes the token; sleeps until there is one.
    ///
    /// At most one thread parks here at a time.
    pub fn park(&self) {
        if self.take() {
            return;
        }
        let mut guard = self.lock.lock();
        // Release is not needed: the sleeper publishes nothing. Acquire on failure pairs with `unpark`'s swap.
        if self
            .state
            .compare_exchange(EMPTY, PARKED, Ordering::Relaxed, Ordering::Acquire)
            .is_err()
        {
            // A swap, not a store: a second `unpark` may have come in between, and what it published counts too.
            self.state.swap(EMPTY, Ordering::Acquire);
            return;
        }
        loop {
            guard = self.wake.wait(guard);
            if self.take() {
                return;
            }
        }
    }

    /// Sleeps until there is a token, which it leaves, or until about `ns` nanoseconds have passed. Whether there is one.
    ///
    /// Under the checkers, where no time passes, it does not sleep.
    #[must_use]
    pub fn wait_for(&self, ns: u64) -> bool {
        let is_notified = || self.state.load(Ordering::Relaxed) == NOTIFIED;
        if cfg!(any(warpweft_loom, warpweft_shuttle)) || is_notified() {
            return is_notified();
        }
        let guard = self.lock.lock();
        if self
            .state
            .compare_exchange(EMPTY, PARKED, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            drop(self.wake.wait_for(guard, ns));
            // If a token came after all, it stays: `park` takes it, and acquires what came with it.
            let _ = self
                .state
                .compare_exchange(PARKED, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
        }
        is_notified()
    }

    /// Leaves a token, and wakes the sleeper if there is one.
    ///
    /// Costs one atomic swap when nobody sleeps, a system call otherwise.
    pub fn unpark(&self) {
        // Release publishes what the caller did before; Acquire is not needed, the caller reads nothing.
        if self.state.swap(NOTIFIED, Ordering::Release) == PARKED {
            // The sleeper holds the lock from before PARKED until it waits: taking it once means that the
            // sleeper either waits by now, or has not looked at the state yet.
            drop(self.lock.lock());
            self.wake.notify_one();
        }
    }

    fn take(&self) -> bool {
        // Acquire pairs with the Release of `unpark`.
        self.state
            .compare_exchange(NOTIFIED, EMPTY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Parker;
    use std::sync::Arc;

    #[test]
    fn a_wait_ends_without_a_token_and_leaves_one_that_came() {
        let parker = Arc::new(Parker::new());
        assert!(!parker.wait_for(1_000));
        parker.unpark();
        assert!(parker.wait_for(u64::MAX));
        assert!(parker.wait_for(0));
        // The token is still there, once.
        parker.park();
        assert!(!parker.wait_for(0));
        let other = Arc::clone(&parker);
        let waker = std::thread::spawn(move || other.unpark());
        while !parker.wait_for(1_000_000) {}
        parker.park();
        waker.join().expect("no panic");
    }
}
