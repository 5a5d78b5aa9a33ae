//! The standby poller: a compensating worker that sleeps in the poller while every worker is in a task that
//! takes long.
//!
//! ```text
//!   worker 0   ──a sort──────────a sort──────────a sort─────────▶   no look at the poller for milliseconds
//!   worker 1   ─────a sort──────────a sort──────────a sort──────▶
//!   standby poller    ┈┈┈┈┈┈┈┈┈┈task┈┈┈┈┈┈┈┈task─task┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈▶ in the poller; runs what it wakes
//! ```
//!
//! A worker whose tasks take long wants one (`PollInterval`), the monitor sends it, and it stays while it is
//! wanted. It is one thread more than there are workers. It sleeps most of the time, so the system lets it
//! run soon after it wakes up. See `threads/MONITOR.md`.
//!
//! # Invariants
//!
//! - A worker that goes to sleep and finds the standby poller in the poller takes its place.
//! - The standby poller's sleep ends only by an event, a timer, a worker that takes its place, a ready fiber
//!   of its thread, or the pool's end. It is not announced as a sleeping worker: a thread that has something
//!   for its thread alone looks whether it is in the poller.

use warpweft_platform::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use warpweft_platform::thread::SHORTEST_SLICE_NS;

/// The number of the monitor's ticks for which a standby poller is wanted after a request.
const TICKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    50
};

/// The length of a tick while one is wanted.
pub(crate) const TICK_NS: u64 = 1_000_000;

/// Returns how long the slices of CPU time are that the standby poller asks the system for.
///
/// The shorter its slices, the sooner it runs after it was woken. But the system may take the CPU from it
/// after a slice, for a worker, which then has a millisecond. With priorities what the poller woke may be
/// more urgent than what the workers compute, and the system does not know it. See
/// `docs/decisions/0080-the-slice-of-the-standby-poller.md`.
pub(crate) const fn slice_ns(by_priority: bool) -> u64 {
    if by_priority { 1_000_000 } else { SHORTEST_SLICE_NS }
}

const NO_WORKER: usize = usize::MAX;
/// The monitor is about to take the role from a worker.
const MOVING: usize = usize::MAX - 1;

#[derive(Debug)]
pub(crate) struct StandbyPoller {
    /// The remaining ticks for which it is wanted.
    ticks: AtomicU32,
    /// The compensating worker that is the standby poller.
    worker: AtomicUsize,
    /// True if it is in the poller, or about to be.
    in_poller: AtomicBool,
}

impl StandbyPoller {
    pub(crate) fn new() -> Self {
        Self {
            ticks: AtomicU32::new(0),
            worker: AtomicUsize::new(NO_WORKER),
            in_poller: AtomicBool::new(false),
        }
    }

    /// Requests a standby poller because tasks take long. Returns true if there was no recent request.
    pub(crate) fn want(&self) -> bool {
        let ticks = self.ticks.load(Ordering::Relaxed);
        if ticks < TICKS {
            self.ticks.store(TICKS, Ordering::Relaxed);
        }
        ticks == 0
    }

    /// Withdraws the request, because there is no thread for it: the workers look themselves.
    pub(crate) fn give_up(&self) {
        self.ticks.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.ticks.load(Ordering::Relaxed) > 0
    }

    /// Counts a tick of the monitor. A request at the same moment may be lost: a worker whose tasks take long
    /// repeats it.
    pub(crate) fn tick(&self) {
        let ticks = self.ticks.load(Ordering::Relaxed);
        self.ticks.store(ticks.saturating_sub(1), Ordering::Relaxed);
    }

    /// Returns true if there is one, in the poller or in a task.
    pub(crate) fn is_there(&self) -> bool {
        self.worker.load(Ordering::Relaxed) != NO_WORKER
    }

    /// Returns true if it is this compensating worker, in the poller or in a task.
    pub(crate) fn is(&self, worker: usize) -> bool {
        self.worker.load(Ordering::Relaxed) == worker
    }

    /// Returns true if this compensating worker sleeps in the poller.
    pub(crate) fn sleeps(&self, worker: usize) -> bool {
        self.is(worker) && self.is_parked()
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.in_poller.load(Ordering::Relaxed)
    }

    /// Makes that compensating worker the standby poller, if there is none. Returns true if it is.
    pub(crate) fn enlist(&self, worker: usize) -> bool {
        // Ordering: Relaxed. It guards nothing: the role keeps two threads out of the poller.
        let before = self
            .worker
            .compare_exchange(NO_WORKER, worker, Ordering::Relaxed, Ordering::Relaxed);
        before.is_ok() || before == Err(worker)
    }

    /// Notes that the compensating worker retires.
    pub(crate) fn discharge(&self, worker: usize) {
        // Pairs with the fence in `dismiss`.
        fence(Ordering::SeqCst);
        // If it was not the standby poller, nothing changes.
        let _ = self
            .worker
            .compare_exchange(worker, NO_WORKER, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes the role from a compensating worker that was found in a long task, so that another one gets it.
    pub(crate) fn dismiss(&self, worker: usize) {
        // No other one gets the role before it is known whether this one loses it.
        let moving = self
            .worker
            .compare_exchange(worker, MOVING, Ordering::Relaxed, Ordering::Relaxed);
        if moving.is_err() {
            return;
        }
        // Pairs with the fence in `try_sleep`: either the worker sees that it has no role any more, or it is
        // seen here that its task has ended.
        fence(Ordering::SeqCst);
        if self.is_parked() {
            self.worker.store(worker, Ordering::Relaxed);
            // Pairs with the fence in `discharge`: either the worker finds the role and gives it up, or it is
            // seen here that it did not sleep.
            fence(Ordering::SeqCst);
            if !self.is_parked() {
                self.discharge(worker);
            }
        } else {
            self.worker.store(NO_WORKER, Ordering::Relaxed);
        }
    }

    /// Announces sleep in the poller. Returns true if the compensating worker is still the standby poller.
    /// Afterwards the caller looks whether anything is ready for it.
    pub(crate) fn try_sleep(&self, worker: usize) -> bool {
        self.in_poller.store(true, Ordering::Relaxed);
        // Pairs with the fence in `must_wake`: either the standby poller sees what was made ready for it, or
        // the other thread sees that it sleeps. Likewise in `dismiss`.
        fence(Ordering::SeqCst);
        let is_it = self.is(worker);
        if !is_it {
            self.wake();
        }
        is_it
    }

    pub(crate) fn wake(&self) {
        self.in_poller.store(false, Ordering::Relaxed);
    }

    /// Returns true if this compensating worker must be woken. The caller has made something ready that only
    /// its thread can do.
    pub(crate) fn must_wake(&self, worker: usize) -> bool {
        // Pairs with the fence in `try_sleep`.
        fence(Ordering::SeqCst);
        self.sleeps(worker)
    }
}
