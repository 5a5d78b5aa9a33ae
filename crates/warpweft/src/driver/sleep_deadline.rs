//! Until when the poller sleeps: whoever sets an earlier timer wakes it.
//!
//! ```text
//!   sleeper: alarm = for ever ─ fence ─ look at the timers ─ alarm = the first of them ─ sleep until then
//!   setter:  set a timer ────── fence ─ look at the alarm ── wake, if it is later than the timer
//! ```
//!
//! # Invariants
//!
//! - The sleeper announces before it looks, the setter looks after it set: with a fence on both sides one of
//!   them sees the other.
//! - It is 0 while nobody sleeps: no timer is earlier.

use warpweft_platform::atomic::{AtomicU64, Ordering, fence};
use warpweft_platform::delay;

/// Sleeps for ever.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct SleepDeadline(AtomicU64);

impl SleepDeadline {
    /// Nobody sleeps.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The caller is about to sleep: until `first`, which looks at the timers. It is called when those who
    /// set timers know.
    pub(crate) fn set(&self, first: impl FnOnce() -> u64) -> u64 {
        // "For ever", until it is known better: whoever sets a timer from here on wakes this sleeper.
        self.0.store(NEVER, Ordering::Relaxed);
        // Pairs with the fence in `is_late_for`.
        fence(Ordering::SeqCst);
        delay::point("alarm.set: announced");
        let until = first();
        // Ordering: Relaxed. A value that is out of date wakes once too often.
        self.0.store(until, Ordering::Relaxed);
        until
    }

    /// The caller is awake.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether somebody sleeps for longer than until `deadline`. For who has set a timer, which a sleeper has
    /// seen otherwise.
    pub(crate) fn is_late_for(&self, deadline: u64) -> bool {
        // Pairs with the fence in `set`: either the sleeper sees the timer, or this sees that it sleeps.
        fence(Ordering::SeqCst);
        deadline < self.0.load(Ordering::Relaxed)
    }
}
