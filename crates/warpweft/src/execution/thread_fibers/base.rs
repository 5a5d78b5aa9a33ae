//! What is known of the thread's own stack.

use super::ThreadFibers;
use warpweft_task::frame::Who;

impl ThreadFibers {
    /// Returns what ran on the thread's own stack when the thread gave its worker away.
    pub(crate) fn left(&self) -> Who {
        self.left.get()
    }

    pub(crate) fn set_left(&self, who: Who) {
        self.left.set(who);
    }

    /// Counts the begin or the end of a call of foreign code that must not give the worker away.
    pub(crate) fn keep_worker(&self, begins: bool) {
        let calls = self.keeps_worker.get();
        self.keeps_worker.set(if begins { calls + 1 } else { calls - 1 });
    }

    /// Returns true if such a call is on the stack.
    pub(crate) fn keeps_worker(&self) -> bool {
        self.keeps_worker.get() > 0
    }
}
