//! Finds out if a pool has nothing left to do, without a count of its tasks. Such a count would cost each
//! spawn and each end.
//!
//! ```text
//!   pushes ── nothing queued ── all workers asleep ── nothing waits or blocks ── pushes: the same? ──▶ quiet
//! ```
//!
//! # Why this order is enough
//!
//! Say that a task runs when the looks are over, and no task was pushed during them. It was in a queue
//! before the first look. A worker has taken it since, after it was seen asleep, so the look at the queues,
//! which came before, has found the task there. A task that ran for the last time before its worker was seen
//! asleep, and did not end, is among the ones that wait, where the last look finds it. What waits continues
//! by a push, but for a fiber, which is among the fibers until it ends.
//!
//! It depends on one thing elsewhere: a task counts as taken when it begins to run (`Count::Ran`), and its
//! worker is awake by then. A worker that looks a last time before its sleep may hold a task while it is
//! announced as asleep; the task still counts as queued.
//!
//! The looks read counters and words that workers write without fences. A process-wide barrier behind each
//! look gives them their order. Where the kernel has no such barrier, only processors that keep the order of
//! stores do: elsewhere a task that ends at that moment may be overlooked, and is dropped.

use crate::pool::dyn_pool::DynPool;
use warpweft_platform::barrier::Asymmetric;

impl dyn DynPool + '_ {
    /// Returns a number that changes with each task that the pool is given. O(workers).
    pub(crate) fn pushes(&self) -> u64 {
        let pushed = self.handed_in();
        pushed.wrapping_add(self.core().threads.blocking().admitted())
    }

    /// Returns true if no task of the pool exists any more: none was in a queue, ran, waited, or blocked. A
    /// task that the pool was given meanwhile may be overlooked, and changes [`pushes`](Self::pushes).
    /// O(workers).
    pub(crate) fn is_quiet(&self) -> bool {
        // Without a barrier, and only so that a busy pool does not issue those below: each of them interrupts
        // all CPUs on which the process runs.
        if !self.everybody_sleeps() {
            return false;
        }
        let core = self.core();
        let barrier = Asymmetric::new();
        barrier.heavy();
        if core.ledger.remaining(self.handed_out()) != 0 || !core.lost.is_empty() {
            return false;
        }
        barrier.heavy();
        if !self.everybody_sleeps() {
            return false;
        }
        barrier.heavy();
        let mut waiting = core.owned_tasks.len() + core.stacks.live();
        // A frame is registered while it waits or blocks. A closure that has blocked is still counted while
        // its thread asks for a worker.
        waiting += core.threads.snapshot().blocked;
        core.threads.frames().for_each(|_| waiting += 1);
        let nothing = waiting == 0 && core.threads.blocking().is_idle();
        barrier.heavy();
        nothing
    }
}
