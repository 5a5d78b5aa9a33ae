//! The monitor's sleep while everybody sleeps, and the ring of who wakes up.
//!
//! ```text
//!   the monitor                          a worker
//!   says that it dozes                   is awake
//!   ─── heavy barrier ───                ─── light barrier ───
//!   looks whether anybody is awake       looks whether the monitor dozes
//! ```
//!
//! # Invariant
//!
//! Not both miss the other (Dekker): a monitor that lies down is rung for by whoever woke up unseen.

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

    /// Who calls is awake, and whoever looks after this sees it. Whether the monitor has to be rung for.
    #[inline]
    pub(crate) fn is_to_be_rung(&self) -> bool {
        self.barrier.light();
        self.lies()
    }

    /// Whether it dozes.
    #[inline]
    pub(crate) fn lies(&self) -> bool {
        // Ordering: Relaxed. What orders is the barrier, and for who holds the monitor's lock that lock.
        self.is_asleep.load(Ordering::Relaxed)
    }

    /// Lies down if it may, by a look before and one after it has said so. Whether it did.
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

    /// It is up again.
    pub(crate) fn wake(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }
}
