//! Parking: one thread waits for a permit that any thread may leave.
//!
//! ```text
//!            unpark                park
//!   EMPTY ───────────▶ NOTIFIED ─────────▶ EMPTY        (park returns at once)
//!   EMPTY ──park─────▶ PARKED ──unpark───▶ NOTIFIED     (the sleeper takes the permit, EMPTY again)
//!   EMPTY ──leave────▶ ELSEWHERE ─unpark─▶ NOTIFIED     (and the waker also wakes the sleeper elsewhere)
//!                      ELSEWHERE ─return─▶ EMPTY
//! ```
//!
//! # Invariants
//!
//! - A permit is never lost and never counted twice: `unpark` before, during or after `park` lets exactly one
//!   `park` return. There is no time-out that could hide a lost one.
//! - Everything before `unpark` happens before the return of the `park` that took its permit.
//! - A `Parker` belongs to a *slot*, not to a thread: the next thread that takes the slot may park there.

use crate::atomic::{AtomicU32, Ordering};
use crate::process;
use crate::sync::{Condvar, Mutex};

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;
const ELSEWHERE: u32 = 3;

/// How often, in nanoseconds, a sleeper in a forked child checks whether it is the only thread.
const ALONE_NS: u64 = 50_000_000;

/// A parker, on which one thread at a time sleeps until [`unpark`](Parker::unpark).
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
    /// Makes a parker without a permit.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(EMPTY),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Takes the permit; sleeps until there is one.
    ///
    /// At most one thread parks here at a time.
    pub fn park(&self) {
        if self.take() {
            return;
        }
        let mut guard = self.lock.lock();
        // Release is not needed, because the sleeper publishes nothing. Acquire on failure pairs with
        // `unpark`'s swap.
        if self
            .state
            .compare_exchange(EMPTY, PARKED, Ordering::Relaxed, Ordering::Acquire)
            .is_err()
        {
            // A swap, not a store: a second `unpark` may have come in between, and what it published counts
            // too.
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

    /// As [`park`](Self::park), in a forked child. Returns `false` if the process has no other thread, so
    /// there will be no permit.
    #[must_use]
    pub fn park_unless_alone(&self) -> bool {
        let mut ns = 0;
        while !self.wait_for(ns) {
            // In this order: a thread may leave a permit, and end.
            if process::is_alone() && !self.wait_for(0) {
                return false;
            }
            ns = ALONE_NS;
        }
        self.park();
        true
    }

    /// Sleeps until there is a permit, which it leaves, or until about `ns` nanoseconds have passed. Returns
    /// true if there is a permit.
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
            // A permit that came after all stays: `park` takes it, and acquires what came with it.
            let _ = self
                .state
                .compare_exchange(PARKED, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
        }
        is_notified()
    }

    /// Records that the thread is about to sleep elsewhere, in a poller. From now on
    /// [`unpark_or`](Self::unpark_or) wakes it there. Returns `false` if there is a permit already; then the
    /// thread should not sleep.
    #[must_use]
    pub fn leave(&self) -> bool {
        // Ordering: Relaxed. The sleeper publishes nothing, and `park` acquires what comes with a permit.
        self.state
            .compare_exchange(EMPTY, ELSEWHERE, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Records that the thread no longer sleeps elsewhere. Returns true if there is a permit, which stays for
    /// [`park`](Self::park).
    #[must_use]
    pub fn come_back(&self) -> bool {
        // Ordering: Relaxed, as in `leave`.
        self.state
            .compare_exchange(ELSEWHERE, EMPTY, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
    }

    /// Leaves a permit, and wakes the sleeper if there is one. For sleepers that do not sleep elsewhere.
    ///
    /// Costs one atomic swap when no thread sleeps, a system call otherwise.
    pub fn unpark(&self) {
        self.unpark_or(|| debug_assert!(false, "there is no way to wake a sleeper elsewhere"));
    }

    /// As [`unpark`](Self::unpark), but `wake_elsewhere` wakes a sleeper that sleeps elsewhere.
    /// `wake_elsewhere` must also end a sleep that begins a moment later.
    pub fn unpark_or(&self, wake_elsewhere: impl FnOnce()) {
        // Release publishes what the caller did before. Acquire is not needed, because the caller reads
        // nothing.
        match self.state.swap(NOTIFIED, Ordering::Release) {
            PARKED => {
                // The sleeper holds the lock from before PARKED until it waits. So after this thread has held
                // it once, the sleeper either waits, or has not yet read the state. In a forked child the
                // sleeper may have stayed in the parent, with the lock: then there is nothing to wake.
                drop(self.lock.lock_unless_lost());
                self.wake.notify_one();
            }
            ELSEWHERE => wake_elsewhere(),
            _ => {}
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
    fn a_sleeper_elsewhere_is_woken_there() {
        let parker = Parker::new();
        assert!(parker.leave());
        assert!(!parker.come_back(), "no thread left a permit");
        assert!(parker.leave());
        let mut woken = 0;
        parker.unpark_or(|| woken += 1);
        parker.unpark_or(|| woken += 1);
        assert_eq!(woken, 1);
        assert!(parker.come_back());
        assert!(!parker.leave(), "the permit is still there");
        parker.park();
        assert!(parker.leave());
    }

    #[test]
    fn a_wait_ends_without_a_permit_and_leaves_one_that_came() {
        let parker = Arc::new(Parker::new());
        assert!(!parker.wait_for(1_000));
        parker.unpark();
        assert!(parker.wait_for(u64::MAX));
        assert!(parker.wait_for(0));
        // The permit is still there, once.
        parker.park();
        assert!(!parker.wait_for(0));
        let other = Arc::clone(&parker);
        let waker = std::thread::spawn(move || other.unpark());
        while !parker.wait_for(1_000_000) {}
        parker.park();
        waker.join().expect("no panic");
    }
}
