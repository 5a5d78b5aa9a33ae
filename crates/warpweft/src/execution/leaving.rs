//! Where a thread that has entered a pool may leave it.

use super::stack_context::{StackContext, here};

impl StackContext {
    /// Returns true if the calling thread, to whose own stack this belongs, may leave its pool: no frame
    /// here, and no stack on top, relies on a worker of the pool afterwards.
    ///
    /// A fiber and a handled body run on top, with the worker. So does a task, or a part of another thread's
    /// fork, that this stack runs while it waits. A frame in `blocking` gets its worker back, and a hook of
    /// the policy or a waker is called by it.
    pub(crate) fn may_leave_pool(&self) -> bool {
        here().is_some_and(|here| std::ptr::eq(here, self))
            && !self.is_away.get()
            && !self.is_under_task.get()
            && !self.keeps_worker()
            && !self.forks().runs_stolen()
            && self.covered.get().is_null()
    }
}
