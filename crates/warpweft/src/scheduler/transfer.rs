//! The worker's part of a transfer, by which a task continues in another pool. See
//! `pool/transfer_request.rs`.

use super::worker::Worker;
use crate::execution::stack_context::with_worker_kept;
use crate::observe::recorder::event::{Kind, task_word};
use crate::pool::transfer_request::Transfer;
use warpweft_platform::process::end_child_if;
use warpweft_policy::{Count, Policy};
use warpweft_task::{Pending, Suspended, Why};

impl<P: Policy> Worker<P> {
    /// Moves the task to the other pool, if it made the request itself; otherwise returns it.
    /// Contract: as [`call`](Self::call).
    // Not inlined: the loop that calls this must have one indirect call.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn grant(&self, pending: Pending, transfer: Transfer) -> Option<Pending> {
        if !transfer.is_of(&pending) {
            return Some(pending);
        }
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.transfer(pending, transfer) };
        None
    }

    /// Moves the task to the other pool. For this pool's policy it has ended.
    /// Contract: as [`call`](Self::call).
    unsafe fn transfer(&self, mut pending: Pending, transfer: Transfer) {
        self.counters().add(Count::Transfers, 1);
        let word = pending.task().policy_word();
        let (recorder, task) = (&self.pool().core.recorder, task_word(pending.task().id_word(), 0));
        // SAFETY: by contract the calling thread carries the worker.
        unsafe { recorder.worker(self.id()).note(recorder, Kind::Transfer, task) };
        // A task that waits for its place is woken.
        with_worker_kept(|| pending.unregister());
        // The call has given the task's place back and woken another task, by code that may have forked.
        end_child_if(self.pool().core.is_in_forked_child());
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.completed(word) };
        let destination = transfer.into_destination();
        // SAFETY: it was removed above. A runtime's pool ends its tasks before itself.
        unsafe { pending.move_to(destination.header()) };
        // This keeps the pool until the runnable is pushed.
        let _pool = destination.settle(&mut pending);
        // The request for the transfer woke the task, so it does not fall asleep.
        if let Suspended::Again(task) = pending.suspend() {
            task.push(Why::Injected);
        }
    }
}
