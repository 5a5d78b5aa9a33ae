//! A pool of any policy.

use super::core::PoolCore;
use super::current::WorkerRef;
use super::size::ResizeError;
use crate::observe::PoolCounters;
use crate::threads::pool_ref::PoolRef;
use std::ptr::NonNull;
use warpweft_task::{QueueViewer, Runnable};

/// A pool whose policy the holder does not know. These methods depend on the policy's type; the rest is in
/// its [`PoolCore`].
pub(crate) trait DynPool: PoolRef {
    /// Returns the state that does not depend on the policy.
    fn core(&self) -> &PoolCore;
    /// Returns about how many tasks the policy holds; 0 after the pool's end. O(workers).
    fn runnable(&self) -> usize;
    /// Returns about how many tasks are in the queues that no worker owns, and in each worker's own; `None`
    /// where the policy does not say, or the pool has ended.
    fn depths(&self) -> (Option<usize>, Vec<Option<usize>>);
    /// Returns the counters so far. O(workers).
    fn counters(&self) -> PoolCounters;
    /// Shows the tasks that are in queues to a report, as far as the policy does.
    fn show_queued(&self, viewer: &mut QueueViewer);
    /// Returns a number that changes with each task that the pool is given. O(workers).
    fn pushes(&self) -> u64;
    /// Returns true if no task of the pool exists any more: none was in a queue, ran, waited, or blocked. A
    /// task that the pool was given meanwhile may be overlooked, and changes [`pushes`](Self::pushes).
    /// O(workers).
    fn is_quiet(&self) -> bool;
    /// Returns what free functions find on a thread that carries no worker but has entered this pool.
    fn external(&self) -> WorkerRef;
    fn worker_ref(&self, worker: usize) -> NonNull<WorkerRef>;
    /// Sets whether wakes of tasks are recorded.
    fn set_recorded(&self, on: bool);
    /// Queues a task that only that worker may run.
    fn push_pinned(&self, worker: usize, task: Runnable);
    /// Sets how many workers run, and returns how many did. The pool does not follow the machine any more.
    ///
    /// # Errors
    ///
    /// The number is out of range, the pool has ended, or there is no thread for a worker.
    fn resize(&self, workers: usize) -> Result<usize, ResizeError>;
    /// Lets the calling thread's worker leave without it. The pool closes, and the thread cannot end.
    ///
    /// # Safety
    ///
    /// The calling thread belongs to this pool, and no hook of the policy is on its stack.
    unsafe fn leave_from_here(&self);
}
