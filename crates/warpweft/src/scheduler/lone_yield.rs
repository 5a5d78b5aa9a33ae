//! A yield of the task that is the only ready one: it goes on at once, without a step of its worker.
//!
//! So what its worker does between two steps is done here, now and then: a look at the poller, and at a
//! worker that is stuck in a task.

use super::worker::Worker;
use crate::execution::stack_context;
use crate::pool::current::WorkerRef;
use warpweft_policy::Policy;
use warpweft_task::Why;

impl<P: Policy> Worker<P> {
    /// # Safety
    ///
    /// As [`WorkerVtable::is_only_ready`](crate::pool::current::WorkerVtable::is_only_ready).
    pub(super) unsafe fn alone_of_ref(worker_ref: &WorkerRef) -> bool {
        // SAFETY: by contract the reference belongs to a worker of this table, so of this type.
        let worker = unsafe { Self::from_ref(worker_ref) };
        let core = &worker.pool().core;
        // Work that the policy does not know: the yielding task would keep the worker from it. A compensating
        // worker has other workers' work.
        if worker.worker_ref().is_in_policy()
            || worker.is_compensating
            || !worker.pinned.is_empty()
            || core.lifecycle.is_closing()
            || core.monitor.is_any_long()
            || stack_context::has_ready_fibers()
        {
            return false;
        }
        // What the poller wakes is ready, too.
        worker.yield_interval.look_if_due(&core.driver, &core.idle);
        // SAFETY: by contract the calling thread carries the worker, and no hook is on its stack.
        let is_only_ready = unsafe { worker.call(|shared, local, _| P::is_only_ready(shared, local)) };
        // SAFETY: as above.
        is_only_ready && !(worker.is_alone_beside_a_stuck_one() && unsafe { worker.help() })
    }

    /// Returns true if another worker is in a task that takes long, while the task that runs here yields and
    /// is the only ready one.
    #[inline]
    fn is_alone_beside_a_stuck_one(&self) -> bool {
        let core = &self.pool().core;
        let steps_of = |id| core.idle.is_awake(id).then(|| self.pool().workers[id].steps());
        self.neighbour
            .is_stuck_beside_one(self.id(), core.asked, steps_of)
    }

    /// Takes tasks from behind a worker that is stuck. Returns true if there were any.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    #[cold]
    unsafe fn help(&self) -> bool {
        // SAFETY: by contract.
        let Some(task) = (unsafe { self.call(P::steal_from_stuck) }) else {
            return false;
        };
        // SAFETY: by contract.
        unsafe { self.push_anyhow(task, Why::Woken) };
        true
    }
}
