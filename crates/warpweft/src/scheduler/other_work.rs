//! What a worker has to run beside its present step, and what it fetches from other workers for a frame that
//! yields.

use super::worker::Worker;
use crate::execution::stack_context;
use crate::pool::current::WorkerRef;
use warpweft_policy::{Policy, WorkerId};
use warpweft_task::Why;

impl<P: Policy> Worker<P> {
    /// Contract: as [`WorkerVtable::has_own`](crate::pool::current::WorkerVtable::has_own).
    pub(crate) unsafe fn has_own_of_ref(worker_ref: &WorkerRef) -> bool {
        // SAFETY: by contract the reference belongs to a worker of this table, so of this type.
        let worker = unsafe { Self::from_ref(worker_ref) };
        if !worker.core.pinned.is_empty() || stack_context::has_ready_fibers() {
            return true;
        }
        let pool = worker.pool();
        let queued = pool.ask_policy(|shared| P::queued(shared, WorkerId(worker.id())));
        match queued.flatten() {
            Some(tasks) => tasks > 0,
            None if pool.core.lifecycle.is_closing() => false,
            None if worker_ref.is_in_policy() => false,
            // SAFETY: by contract the calling thread carries the worker, and no hook is on its stack.
            None => unsafe { worker.call(|shared, local, _| !P::is_only_ready(shared, local)) },
        }
    }

    /// Contract: as [`WorkerVtable::fetch`](crate::pool::current::WorkerVtable::fetch).
    pub(crate) unsafe fn fetch_of_ref(worker_ref: &WorkerRef) -> bool {
        // SAFETY: by contract the reference belongs to a worker of this table, so of this type.
        let worker = unsafe { Self::from_ref(worker_ref) };
        if worker_ref.is_in_policy() || worker.pool().core.lifecycle.is_closing() {
            return false;
        }
        // SAFETY: by contract the calling thread carries the worker, and no hook is on its stack.
        let task = unsafe { worker.call(P::poll_global) }
            // SAFETY: as above.
            .or_else(|| unsafe { worker.call(P::scan) });
        let Some(task) = task else { return false };
        // SAFETY: as above.
        unsafe { worker.push_anyhow(task, Why::Woken) };
        true
    }
}
