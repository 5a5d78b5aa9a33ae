//! The guard of a thread that enters a pool without being one of its threads.

use super::bodies;
use crate::pool::current::{self, WorkerRef};

/// A thread is inside a pool: free functions find that pool while the value lives.
#[derive(Debug)]
pub(crate) struct EnterGuard<'a> {
    worker_ref: &'a WorkerRef,
    /// The pool that the thread was in before; `None` if there was none.
    before: Option<*const WorkerRef>,
}

impl<'a> EnterGuard<'a> {
    /// # Safety
    ///
    /// The pool of `worker_ref` stays alive. The value is dropped on this thread, several in reverse order,
    /// and not leaked.
    pub(crate) unsafe fn new(worker_ref: &'a WorkerRef) -> Self {
        let before = current::get();
        let had_entered = before != bodies::found_here();
        current::set(worker_ref);
        Self {
            worker_ref,
            before: had_entered.then_some(before),
        }
    }
}

impl Drop for EnterGuard<'_> {
    fn drop(&mut self) {
        debug_assert!(current::is(self.worker_ref));
        // The thread may carry another worker than when it entered: it waited.
        current::set(self.before.unwrap_or_else(bodies::found_here));
    }
}
