//! A task goes on in another pool: the worker's part. See `compose/transfer.rs`.

use super::worker::Worker;
use crate::execution::stack_context::with_worker_kept;
use crate::pool::transfer_request::Transfer;
use warpweft_platform::process::end_child_if;
use warpweft_policy::{Count, Policy};
use warpweft_task::{Pending, Suspended, Why};

impl<P: Policy> Worker<P> {
    /// The task goes on in another pool, if the wish is its own; otherwise it comes back.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    // Not inlined: the loop that calls this is to have one indirect call.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn grant(&self, pending: Pending, transfer: Transfer) -> Option<Pending> {
        if !transfer.is_of(&pending) {
            return Some(pending);
        }
        // SAFETY: by contract.
        unsafe { self.transfer(pending, transfer) };
        None
    }

    /// The task goes on in another pool. For this one's policy it has ended.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    unsafe fn transfer(&self, mut pending: Pending, transfer: Transfer) {
        self.counters().add(Count::Transfers, 1);
        let word = pending.task().policy_word();
        // Who waits for its place hears of it.
        with_worker_kept(|| pending.unregister());
        // That has given its place back, and woken another: by code that may have forked.
        end_child_if(self.pool().core.is_forked());
        // SAFETY: by contract.
        unsafe { self.completed(word) };
        let destination = transfer.into_destination();
        // SAFETY: it was struck off above. A runtime's pool ends its tasks before itself.
        unsafe { pending.move_to(destination.header()) };
        // Until its token is pushed, the pool is kept by this.
        let _pool = destination.settle(&mut pending);
        // It was woken by who asked for the transfer, so it does not fall asleep.
        if let Suspended::Again(task) = pending.suspend() {
            task.push(Why::Injected);
        }
    }
}
