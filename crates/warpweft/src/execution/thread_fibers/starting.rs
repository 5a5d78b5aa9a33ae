//! Fibers that are to start on this thread.

use super::ThreadFibers;
use warpweft_task::Runnable;

impl ThreadFibers {
    /// A fiber that has not started belongs to this thread, which carries a worker.
    pub(crate) fn adopt(&self, task: Runnable) {
        self.beside.push(task);
        self.count_live(1);
        // Until it was taken.
        self.thread_handle.set_ready_here();
    }

    /// Starts one of those, on this thread's own stack.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin(&self, task: Runnable) {
        // It counts again when it waits.
        self.count_live(-1);
        // Its step is over when it waits, or has ended: there is nothing to be done about either.
        let _ = task.run();
    }
}
