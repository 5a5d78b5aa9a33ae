//! The flag with which the monitor sleeps while all workers sleep, and with which a waking worker wakes it.
//!
//! The protocol is drawn in `MONITOR.md` beside this file.
//!
//! # Invariant
//!
//! They do not both miss each other (Dekker): a worker that the monitor did not see awake wakes the monitor.

use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::barrier::Asymmetric;

#[derive(Debug)]
pub(crate) struct SleepFlag {
    is_asleep: AtomicBool,
    barrier: Asymmetric,
}

impl SleepFlag {
    pub(crate) fn new() -> Self {
        Self {
            is_asleep: AtomicBool::new(false),
            barrier: Asymmetric::new(),
        }
    }

    /// Returns true if the monitor sleeps and must be woken. Call this only after publishing that the caller
    /// is awake.
    #[inline]
    pub(crate) fn must_wake(&self) -> bool {
        self.barrier.light();
        self.is_sleeping()
    }

    #[inline]
    pub(crate) fn is_sleeping(&self) -> bool {
        // Ordering: Relaxed. The barrier orders it; for a holder of the monitor's lock, that lock does.
        self.is_asleep.load(Ordering::Relaxed)
    }

    /// Goes to sleep if `may` returns true both before and after the announcement. Returns true if it sleeps.
    pub(crate) fn try_sleep(&self, may: impl Fn() -> bool) -> bool {
        // The first look spares the workers a barrier at each tick.
        if !may() {
            return false;
        }
        self.is_asleep.store(true, Ordering::Relaxed);
        self.barrier.heavy();
        let may = may();
        if !may {
            self.wake();
        }
        may
    }

    pub(crate) fn wake(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }
}
