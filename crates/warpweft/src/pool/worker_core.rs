//! The state of a worker that does not depend on its pool's policy.

use super::current::WorkerRef;
use crate::fork::offer_board::OfferView;
use crate::idle::SleepHistory;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_policy::{Count, Counters, WorkerId};
use warpweft_queue::Locked;
use warpweft_task::{TaskRef, Told};

/// See the [module](self). `repr(C)`: a pointer to the reference is a pointer to the core, which is the first
/// field of a worker.
#[repr(C)]
pub(crate) struct WorkerCore {
    pub(crate) worker_ref: WorkerRef,
    pub(crate) id: WorkerId,
    /// What this worker saw of other workers' forks.
    pub(crate) seen: OfferView,
    pub(crate) sleep_history: SleepHistory,
    /// Tasks that only this worker may run.
    pub(crate) pinned: Locked<TaskRef>,
    /// For a compensating worker: true if a thread carries it.
    carried: AtomicBool,
}

impl WorkerCore {
    pub(crate) fn new(worker_ref: WorkerRef, id: usize) -> Self {
        Self {
            worker_ref,
            id: WorkerId(id),
            seen: OfferView::default(),
            sleep_history: SleepHistory::default(),
            pinned: Locked::new(),
            carried: AtomicBool::new(false),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.worker_ref.counters
    }

    /// Returns the number of its steps of tasks, turns of fibers and stolen forks included.
    pub(crate) fn steps(&self) -> u64 {
        self.worker_ref.steps()
    }

    /// Returns how many of its steps were turns of fibers.
    pub(crate) fn fiber_turns(&self) -> u64 {
        self.counters().get(Count::FiberTurns)
    }

    /// Returns true if its last step was a fork that it took. A hint.
    pub(crate) fn has_no_task(&self) -> bool {
        self.worker_ref.running.get().origin.is_null()
    }

    /// Returns name, spawn site and kind of the task of its last step. A hint.
    pub(crate) fn running(&self) -> Option<Told> {
        self.worker_ref.running.told()
    }

    /// Returns true if a thread carries this compensating worker.
    pub(crate) fn is_carried(&self) -> bool {
        self.carried.load(Ordering::Relaxed)
    }

    pub(crate) fn set_carried(&self, carried: bool) {
        self.carried.store(carried, Ordering::Relaxed);
    }
}
