//! Cancelled tasks leave their queues before their turn: see `docs/decisions/0022-eviction.md`.

use super::worker::Worker;
use crate::execution::forked::abandon;
use warpweft_policy::{Count, Policy, Wake};
use warpweft_task::{Abandon, cancellations};

impl<P: Policy> Worker<P> {
    /// Ends tasks that were cancelled while they lay in queues, if there may be any.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    #[inline]
    pub(crate) unsafe fn evict(&self) {
        let now = cancellations();
        let (first, last) = &self.cancellations;
        if last.replace(now) != now {
            // SAFETY: by contract.
            unsafe { self.evict_all(now.wrapping_sub(*first)) };
        }
    }

    /// # Safety
    ///
    /// As [`call`](Self::call).
    #[cold]
    unsafe fn evict_all(&self, cancellations: u64) {
        // SAFETY: by contract.
        let cancelled = unsafe { self.call(|shared, local, cx| P::evict(shared, local, cancellations, cx)) };
        // While the policy looked for them, others may have found its queues empty and gone to sleep.
        self.pool().core.wake(Wake::Any, Some(self.counters()));
        // The hook has returned: what their `Drop` spawns goes the usual way.
        let take = |task| {
            let task = self.pool().take(task);
            self.counters().add(Count::Evicted, 1);
            task
        };
        // All of them before the first one ends: as it goes it may wait, and then the thread has this worker
        // no more.
        let cancelled: Vec<_> = cancelled.into_iter().map(take).collect();
        for task in cancelled {
            abandon(self.pool(), task, Abandon::Cancelled);
        }
    }
}
