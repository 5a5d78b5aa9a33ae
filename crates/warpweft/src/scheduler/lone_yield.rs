//! A worker whose only ready task yields again and again looks for other tasks, and runs them in between.

use super::worker::Worker;
use warpweft_policy::Policy;
use warpweft_task::Why;

impl<P: Policy> Worker<P> {
    /// Takes tasks from behind another worker that is in a task that takes long. Returns true if there were
    /// any.
    /// Contract: as [`call`](Self::call).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn help(&self) -> bool {
        let core = &self.pool().core;
        let steps_of = |id| {
            core.idle
                .is_awake(id)
                .then(|| self.pool().workers[id].core.steps())
        };
        if !self
            .neighbour
            .is_stuck_beside_one(self.id(), core.asked, steps_of)
        {
            return false;
        }
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        let Some(task) = (unsafe { self.call(P::steal_from_stuck) }) else {
            return false;
        };
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.push_anyhow(task, Why::Woken) };
        true
    }
}
