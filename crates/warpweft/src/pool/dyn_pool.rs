//! A pool of any policy.

use super::core::PoolCore;
use super::current::WorkerRef;
use super::worker_core::WorkerCore;
use crate::observe::PoolCounters;
use crate::threads::pool_ref::PoolRef;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::QueueViewer;

/// A pool whose policy the holder does not know. These methods depend on the policy's type, and are compiled
/// for each. What is rare is compiled once: it is in the [`PoolCore`], or in `impl dyn DynPool`.
pub(crate) trait DynPool: PoolRef {
    /// Returns the state that does not depend on the policy.
    fn core(&self) -> &PoolCore;
    /// Returns a share of the pool, unless its last one is gone.
    fn keep(&self) -> Option<Arc<dyn DynPool>>;
    /// Returns the part of a worker that does not depend on the policy.
    fn worker(&self, worker: usize) -> &WorkerCore;
    /// Returns about how many tasks are in that worker's queue; `None` if the policy does not say, or the
    /// pool has ended.
    fn queued(&self, worker: usize) -> Option<usize>;
    /// Returns the same of the queues that no worker owns.
    fn queued_shared(&self) -> Option<usize>;
    /// Shows the tasks that are in the policy's queues to a report, as far as the policy does.
    fn show_queued(&self, viewer: &mut QueueViewer);
    /// Returns what free functions find on a thread that carries no worker but has entered this pool.
    fn external(&self) -> WorkerRef;
    /// Returns the reference of a worker. The pointer is valid for access to the whole worker.
    fn worker_ref(&self, worker: usize) -> NonNull<WorkerRef>;
    /// Sets whether wakes of tasks are recorded.
    fn set_recorded(&self, on: bool);
    /// Drops the policy's half of a worker.
    ///
    /// # Safety
    ///
    /// No other code touches the worker, now or later.
    unsafe fn retire_worker(&self, worker: usize);
    /// Drops what the workers share of the policy.
    ///
    /// # Safety
    ///
    /// No other code touches it, now or later.
    unsafe fn drop_shared(&self);
}

impl dyn DynPool + '_ {
    /// Returns all workers, the compensating ones last.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &WorkerCore> {
        (0..self.core().info.slots).map(|worker| self.worker(worker))
    }

    /// Returns about how many tasks are in the queues that no worker owns, and in each worker's own; `None`
    /// where the policy does not say, or the pool has ended.
    pub(crate) fn depths(&self) -> (Option<usize>, Vec<Option<usize>>) {
        let local = (0..self.core().asked).map(|worker| self.queued(worker));
        (self.queued_shared(), local.collect())
    }

    /// Returns the counters so far. O(workers).
    pub(crate) fn counters(&self) -> PoolCounters {
        let mut workers: Vec<_> = self
            .workers()
            .map(|worker| worker.counters().snapshot())
            .collect();
        PoolCounters {
            compensating: workers.split_off(self.core().asked),
            workers,
            outside: self.core().outside.snapshot(),
        }
    }
}
