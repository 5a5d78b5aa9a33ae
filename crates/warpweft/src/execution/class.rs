//! The priority of the task that runs on a stack, where tasks inherit it.

use super::stack_context::StackContext;
use warpweft_policy::priority;

impl StackContext {
    /// Returns the priority of the task that runs here, as a policy word; 0 if it has none, or if nobody keeps
    /// it.
    pub(crate) fn class(&self) -> u64 {
        match (self.fiber().and_then(|fiber| fiber.task()), self.worker_ref()) {
            // SAFETY: a fiber has a task only while its closure is on the fiber's stack, which is this one.
            (Some(task), _) => priority::keep(unsafe { task.policy_word() }, 0),
            (None, Some(worker_ref)) => worker_ref.class.get(),
            (None, None) => 0,
        }
    }

    /// Calls `f`, which may run other tasks here, or wait and come back with another worker. Afterwards the
    /// task that runs here has the priority that it had before.
    #[inline]
    pub(crate) fn keep_class<R>(&self, f: impl FnOnce() -> R) -> R {
        let class = self.worker_ref().map(|worker_ref| worker_ref.class.get());
        let result = f();
        if let (Some(class), Some(worker_ref)) = (class, self.worker_ref()) {
            worker_ref.class.set(class);
        }
        result
    }
}
