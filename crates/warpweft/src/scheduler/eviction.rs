//! The eviction of cancelled tasks: they leave their queues before their turn. See
//! `docs/decisions/0022-eviction.md`.

use super::inherit::restore;
use super::worker::Worker;
use crate::execution::forked_child::abandon;
use warpweft_policy::{Count, Policy};
use warpweft_task::{Abandon, cancellations};

impl<P: Policy> Worker<P> {
    /// Ends tasks that were cancelled while they were in queues, if there may be any. Before that it
    /// [raises](Self::raise_queued) others.
    /// Contract: as [`call`](Self::call).
    #[inline]
    pub(crate) unsafe fn evict(&self) {
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.raise_queued() };
        let now = cancellations();
        let (first, last) = &self.cancellations;
        if last.replace(now) != now {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            unsafe { self.evict_all(now.wrapping_sub(*first)) };
        }
    }

    /// Contract: as [`call`](Self::call).
    #[cold]
    unsafe fn evict_all(&self, cancellations: u64) {
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        let cancelled = unsafe { self.call(|shared, local, cx| P::evict(shared, local, cancellations, cx)) };
        // While the policy looked for them, other workers may have found its queues empty and gone to sleep.
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.wake_one() };
        // The hook has returned: spawns in the `Drop` of these tasks take the usual way.
        let take = |task| {
            let mut task = self.pool().core.take(task);
            restore(&mut task);
            self.counters().add(Count::Evicted, 1);
            task
        };
        // Take all of them before the first one ends: its end may wait, and then the thread does not have
        // this worker any more.
        let cancelled: Vec<_> = cancelled.into_iter().map(take).collect();
        for task in cancelled {
            abandon(&self.pool().core, task, Abandon::Cancelled);
        }
    }
}
