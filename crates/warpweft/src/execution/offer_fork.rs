//! How a stack offers its oldest fork to the other workers, and makes tasks of forks.

use super::stack_context::StackContext;
use crate::fork::fork_claim::ForkClaim;
use crate::fork::jobs::Jobs;
use crate::pool::current::{self, WorkerRef};
use std::sync::Arc;
use warpweft_platform::panics::contain;
use warpweft_platform::thread::panicking;
use warpweft_policy::Wake;
use warpweft_task::Why;

impl StackContext {
    /// Puts the oldest latent fork on offer, if there is one, and makes sure that a worker notices it.
    /// Returns true if the stack must unwind instead, because its token is cancelled.
    // Out of line, and small: the outermost fork of each tree comes here.
    #[inline(never)]
    pub(crate) fn offer_fork(&self) -> bool {
        if self.forks().is_unusual() {
            return self.offer_unusually();
        }
        if self.forks().offer() && self.offer_board().is_unwatched() {
            self.wake_for_offer();
        }
        false
    }

    /// Does the same in a scope, or under a token, or in a waker. There each fork comes here.
    #[inline(never)]
    fn offer_unusually(&self) -> bool {
        if self.keeps_worker() {
            return false;
        }
        if self.is_stopped_at_fork() {
            return true;
        }
        let may_unwind = !panicking() && !self.is_uncooperative();
        if self.forks().offer_unusually(may_unwind) && self.offer_board().is_unwatched() {
            self.wake_for_offer();
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn wake_for_offer(&self) {
        let _ = self.fibers().pool().core().wake(Wake::Any, None);
    }

    /// Makes a task of a fork that was promoted.
    pub(super) fn push_claim(&self, worker_ref: &WorkerRef, claim: Arc<ForkClaim>) {
        let job = self.job(self.class(), move || {
            if let Some(fork) = claim.steal() {
                fork.run();
            }
        });
        // A policy that panics closes the pool, and its worker's `Local` is not touched any more. Frames
        // below wait for other threads, and must not be unwound.
        contain(|| worker_ref.push(job, Why::Forked));
    }

    /// Makes tasks of the oldest latent jobs of a scope of this stack, which has other things to do first.
    #[cold]
    pub(crate) fn promote_jobs(&self, jobs: &Jobs, most: usize) {
        let worker_ref = self.worker_ref().unwrap_or(self.fibers().detached());
        let found = current::get();
        current::set(worker_ref);
        jobs.promote(most, &mut |claim| self.push_claim(worker_ref, claim));
        current::set(found);
    }
}
