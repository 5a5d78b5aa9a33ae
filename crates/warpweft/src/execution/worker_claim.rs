//! The claim of a thread that waits without a worker and needs one, because a fiber of it is ready.

use super::stack_context::{self, StackContext};
use crate::threads::pool_ref::PoolRef;
use crate::threads::thread_handle::ThreadHandle;
use std::panic::Location;
use std::sync::Arc;
use warpweft_task::Why;
use warpweft_task::spawn::{self as tasks, SpawnInfo};

/// Asks `pool`, the thread's own, for a worker, by a task whose body gives away the worker that runs it.
pub(crate) fn send_worker_to(pool: &dyn PoolRef, thread: &Arc<ThreadHandle>) {
    let claim = WorkerClaim(Arc::clone(thread));
    let info = SpawnInfo {
        pool: pool.header(),
        location: Location::caller(),
        name: None,
    };
    // SAFETY: the thread handle, which the claim keeps alive, keeps the pool alive.
    let claim = unsafe { tasks::detached_job(move || claim.run(), info) };
    claim.push(Why::Woken);
}

/// The body of a task that gives its worker to a thread that has a ready fiber.
struct WorkerClaim(Arc<ThreadHandle>);

impl WorkerClaim {
    fn run(&self) {
        if self.0.handoff.is_spare() {
            let withdrawn = |here: &StackContext| here.fibers().pool().core().threads.withdraw(&self.0);
            if stack_context::here().is_some_and(withdrawn) {
                stack_context::give_to(|worker| {
                    self.0.handoff.assign(worker);
                    true
                });
            }
            // Otherwise the thread is reserved: it gets a worker, or is listed again and then asks again.
        } else {
            stack_context::give_to(|worker| self.0.handoff.offer(worker));
        }
    }
}

impl Drop for WorkerClaim {
    fn drop(&mut self) {
        // The claim ended without having run, or the thread needs no worker any more.
        if self.0.pool().is_closing() {
            self.0.handoff.offer(None);
        }
    }
}
