//! The standby poller: a compensating worker that sleeps in the poller while every worker is in a task that
//! takes long.
//!
//! ```text
//!   worker 0   ──a sort──────────a sort──────────a sort─────────▶   no look at the poller for milliseconds
//!   worker 1   ─────a sort──────────a sort──────────a sort──────▶
//!   standby poller    ┈┈┈┈┈┈┈┈┈┈task┈┈┈┈┈┈┈┈task─task┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈▶   asleep in the poller; what it wakes it runs
//! ```
//!
//! A worker whose tasks take long wants one (`PollInterval`), the monitor sends it, and it stays for as long
//! as it is wanted. It is one thread more than there are workers, but sleeps most of the time, and so the
//! system lets it run soon after it wakes up.
//!
//! # Invariants
//!
//! - A worker that goes to sleep and finds the standby poller in the poller relieves it: whoever sleeps
//!   anyway should sleep there.
//! - The standby poller's sleep has no end but an event, a timer, relief, a fiber of its thread that goes on,
//!   or the pool's end. No sleeping worker is announced for it: who has something for its thread alone looks
//!   whether it is in the poller.

use warpweft_platform::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};

/// For how many ticks of the monitor a standby poller is wanted after somebody has said so.
const TICKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    50
};

/// So long is a tick while one is wanted.
pub(crate) const TICK_NS: u64 = 1_000_000;

const NO_WORKER: usize = usize::MAX;

#[derive(Debug)]
pub(crate) struct StandbyPoller {
    /// Ticks for which it is wanted.
    ticks: AtomicU32,
    /// The compensating worker that is it.
    worker: AtomicUsize,
    /// It is in the poller, or about to be.
    in_bed: AtomicBool,
}

impl StandbyPoller {
    pub(crate) fn new() -> Self {
        Self {
            ticks: AtomicU32::new(0),
            worker: AtomicUsize::new(NO_WORKER),
            in_bed: AtomicBool::new(false),
        }
    }

    /// Tasks take long. Whether nobody had said so of late.
    pub(crate) fn want(&self) -> bool {
        let ticks = self.ticks.load(Ordering::Relaxed);
        if ticks < TICKS {
            self.ticks.store(TICKS, Ordering::Relaxed);
        }
        ticks == 0
    }

    /// There is none to be had: the workers look themselves.
    pub(crate) fn give_up(&self) {
        self.ticks.store(0, Ordering::Relaxed);
    }

    /// Whether it is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.ticks.load(Ordering::Relaxed) > 0
    }

    /// A tick of the monitor is over. A wish that comes at the same moment may be lost: whose tasks take long
    /// says so again.
    pub(crate) fn tick(&self) {
        let ticks = self.ticks.load(Ordering::Relaxed);
        self.ticks.store(ticks.saturating_sub(1), Ordering::Relaxed);
    }

    /// Whether there is one, in the poller or in a task.
    pub(crate) fn is_there(&self) -> bool {
        self.worker.load(Ordering::Relaxed) != NO_WORKER
    }

    /// Whether this compensating worker sleeps in the poller.
    pub(crate) fn sleeps(&self, worker: usize) -> bool {
        self.worker.load(Ordering::Relaxed) == worker && self.is_parked()
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.in_bed.load(Ordering::Relaxed)
    }

    /// That compensating worker is it, if there is no other. Whether it is.
    pub(crate) fn enlist(&self, worker: usize) -> bool {
        // Ordering: Relaxed. It guards nothing: two in the poller are kept apart by the role.
        let before = self
            .worker
            .compare_exchange(NO_WORKER, worker, Ordering::Relaxed, Ordering::Relaxed);
        before.is_ok() || before == Err(worker)
    }

    /// That compensating worker retires.
    pub(crate) fn discharge(&self, worker: usize) {
        // If it was another one, or nobody, nothing changes.
        let _ = self
            .worker
            .compare_exchange(worker, NO_WORKER, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// It goes to bed, and looks afterwards whether anything is there for it.
    pub(crate) fn try_sleep(&self) {
        self.in_bed.store(true, Ordering::Relaxed);
        // Pairs with the fence in `must_wake`: either it sees what was made ready for it, or who did so sees
        // that it lies down.
        fence(Ordering::SeqCst);
    }

    /// It has risen.
    pub(crate) fn wake(&self) {
        self.in_bed.store(false, Ordering::Relaxed);
    }

    /// Something was made ready that only this compensating worker's thread can do: whether it has to be
    /// woken for it.
    pub(crate) fn must_wake(&self, worker: usize) -> bool {
        // Pairs with the fence in `try_sleep`.
        fence(Ordering::SeqCst);
        self.sleeps(worker)
    }
}
