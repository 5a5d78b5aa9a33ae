//! A pool of any policy.

use super::core::PoolCore;
use super::current::WorkerRef;
use crate::observe::PoolCounters;
use crate::threads::pool_ref::PoolRef;
use std::ptr::NonNull;
use warpweft_task::Runnable;

/// A pool whose policy the holder does not know: what depends on the policy's type. The rest is in its
/// [`PoolCore`].
pub(crate) trait DynPool: PoolRef {
    /// What does not depend on the policy.
    fn core(&self) -> &PoolCore;
    /// What was counted so far. O(workers).
    fn counters(&self) -> PoolCounters;
    /// What free functions are to find on a thread that carries no worker but has entered this pool.
    fn external(&self) -> WorkerRef;
    /// The reference of a worker.
    fn worker_ref(&self, worker: usize) -> NonNull<WorkerRef>;
    /// Queues a task that only that worker may run.
    fn push_pinned(&self, worker: usize, task: Runnable);
    /// The pool closes, and the calling thread cannot end: its worker leaves without it.
    ///
    /// # Safety
    ///
    /// The calling thread is one of this pool, and no hook of the policy is on its stack.
    unsafe fn leave_from_here(&self);
}
