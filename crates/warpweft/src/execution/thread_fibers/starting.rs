//! Fibers that will start on this thread.

use super::ThreadFibers;
use warpweft_task::Runnable;

impl ThreadFibers {
    /// Adopts a fiber that has not started. The thread carries a worker.
    pub(crate) fn adopt(&self, task: Runnable) {
        self.local_spawns.push(task);
        self.count_live(1);
        // The flag stays until the fiber was taken.
        self.mailbox.set_ready();
    }

    /// Starts an adopted fiber, on this thread's own stack.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin(&self, task: Runnable) {
        // It counts again when it waits.
        self.count_live(-1);
        // Its step is over when it waits or has ended. Neither needs an action here.
        let _ = task.run();
    }
}
