//! The time until which the poller sleeps. A thread that sets an earlier timer wakes it.
//!
//! ```text
//!   sleeper: deadline = never ─ fence ─ look at the timers ─ deadline = the first of them ─ sleep until then
//!   setter:  set a timer ────── fence ─ look at the deadline ── wake, if it is later than the timer
//! ```
//!
//! # Invariants
//!
//! - The sleeper announces before it looks, and the setter looks after it set. With a fence on both sides,
//!   one of them sees the other.
//! - The deadline is 0 while no thread sleeps: no timer is earlier.

use warpweft_platform::atomic::{AtomicU64, Ordering, fence};
use warpweft_platform::delay;

/// The sleeper sleeps for ever.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct SleepDeadline(AtomicU64);

impl SleepDeadline {
    /// No thread sleeps yet.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Announces that the caller is about to sleep, and returns until when. `first` looks at the timers. It
    /// is called after threads that set timers can see the announcement.
    pub(crate) fn set(&self, first: impl FnOnce() -> u64) -> u64 {
        // "For ever", until it is known better: a thread that sets a timer from here on wakes this sleeper.
        self.0.store(NEVER, Ordering::Relaxed);
        // Pairs with the fence in `is_late_for`.
        fence(Ordering::SeqCst);
        delay::point("sleep deadline.set: announced");
        let until = first();
        // Ordering: Relaxed. A value that is out of date wakes once too often.
        self.0.store(until, Ordering::Relaxed);
        until
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns true if a thread sleeps beyond `deadline`. The caller has set a timer. Otherwise the sleeper
    /// has seen that timer, or will.
    pub(crate) fn is_late_for(&self, deadline: u64) -> bool {
        // Pairs with the fence in `set`: either the sleeper sees the timer, or this sees that it sleeps.
        fence(Ordering::SeqCst);
        deadline < self.0.load(Ordering::Relaxed)
    }
}
