//! The lookout: a stand-in that sleeps in the poller while every worker is in a task that takes long.
//!
//! ```text
//!   worker 0   ──a sort──────────a sort──────────a sort─────────▶   no look at the poller for milliseconds
//!   worker 1   ─────a sort──────────a sort──────────a sort──────▶
//!   lookout    ┈┈┈┈┈┈┈┈┈┈task┈┈┈┈┈┈┈┈task─task┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈▶   asleep in the poller; what it wakes it runs
//! ```
//!
//! A worker whose tasks take long wants one (`Pace`), the monitor sends it, and it stays for as long as it is wanted. It is one
//! thread more than there are workers, but sleeps most of the time, and so the system lets it run soon after it wakes up.
//!
//! # Invariants
//!
//! - A worker that goes to sleep and finds the lookout in the poller relieves it: whoever sleeps anyway should sleep there.
//! - The lookout's sleep has no end but an event, a timer, relief, a fiber of its thread that goes on, or the pool's end. No sleeping worker is
//!   announced for it: who has something for its thread alone looks whether it is in the poller.

use warpweft_platform::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};

/// For how many ticks of the monitor a lookout is wanted after somebody has said so.
const TICKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    50
};

/// So long is a tick while one is wanted.
pub(super) const TICK_NS: u64 = 1_000_000;

const NOBODY: usize = usize::MAX;

#[derive(Debug)]
pub(crate) struct Lookout {
    /// Ticks for which it is wanted.
    ticks: AtomicU32,
    /// The stand-in that is it.
    worker: AtomicUsize,
    /// It is in the poller, or about to be.
    in_bed: AtomicBool,
}

impl Lookout {
    pub(super) fn new() -> Self {
        Self {
            ticks: AtomicU32::new(0),
            worker: AtomicUsize::new(NOBODY),
            in_bed: AtomicBool::new(false),
        }
    }

    /// Tasks take long. Whether nobody had said so of late.
    pub(super) fn want(&self) -> bool {
        let ticks = self.ticks.load(Ordering::Relaxed);
        if ticks < TICKS {
            self.ticks.store(TICKS, Ordering::Relaxed);
        }
        ticks == 0
    }

    /// There is none to be had: the workers look themselves.
    pub(super) fn give_up(&self) {
        self.ticks.store(0, Ordering::Relaxed);
    }

    /// Whether it is wanted.
    pub(super) fn is_wanted(&self) -> bool {
        self.ticks.load(Ordering::Relaxed) > 0
    }

    /// A tick of the monitor is over. A wish that comes at the same moment may be lost: whose tasks take long says so again.
    pub(super) fn tick(&self) {
        let ticks = self.ticks.load(Ordering::Relaxed);
        self.ticks.store(ticks.saturating_sub(1), Ordering::Relaxed);
    }

    /// Whether there is one, in the poller or in a task.
    pub(super) fn is_there(&self) -> bool {
        self.worker.load(Ordering::Relaxed) != NOBODY
    }

    /// Whether this stand-in sleeps in the poller.
    pub(super) fn sleeps(&self, worker: usize) -> bool {
        self.worker.load(Ordering::Relaxed) == worker && self.is_in_bed()
    }

    pub(super) fn is_in_bed(&self) -> bool {
        self.in_bed.load(Ordering::Relaxed)
    }

    /// That stand-in is it, if there is no other. Whether it is.
    pub(super) fn enlist(&self, worker: usize) -> bool {
        // Ordering: Relaxed. It guards nothing: two in the poller are kept apart by the role.
        let before = self
            .worker
            .compare_exchange(NOBODY, worker, Ordering::Relaxed, Ordering::Relaxed);
        before.is_ok() || before == Err(worker)
    }

    /// That stand-in stands down.
    pub(super) fn discharge(&self, worker: usize) {
        // If it was another one, or nobody, nothing changes.
        let _ = self
            .worker
            .compare_exchange(worker, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// It goes to bed, and looks afterwards whether anything is there for it.
    pub(super) fn lie_down(&self) {
        self.in_bed.store(true, Ordering::Relaxed);
        // Pairs with the fence in `has_to_rise`: either it sees what was made ready for it, or who did so sees that it lies down.
        fence(Ordering::SeqCst);
    }

    /// It has risen.
    pub(super) fn rise(&self) {
        self.in_bed.store(false, Ordering::Relaxed);
    }

    /// Something was made ready that only this stand-in's thread can do: whether it has to be roused for it.
    pub(super) fn has_to_rise(&self, worker: usize) -> bool {
        // Pairs with the fence in `lie_down`.
        fence(Ordering::SeqCst);
        self.sleeps(worker)
    }
}
