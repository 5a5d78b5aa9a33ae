//! Priorities that tasks inherit from the task that spawns or forks them.
//!
//! A worker keeps the priority of what it runs. A fiber has its own, because it comes back without the policy.
//! Only policies with [`Policy::INHERITS_PRIORITY`] have this code.
//!
//! The kept priority is a hint: a task that gets a wrong one runs too early or too late, and that is all.

use super::worker::Worker;
use crate::execution::stack_context;
use warpweft_policy::{Policy, TaskRef, priority};
use warpweft_task::{Runnable, Why};

impl<P: Policy> Worker<P> {
    /// Notes that the worker runs `task` next.
    #[inline]
    pub(super) fn runs(&self, task: &TaskRef) {
        if P::INHERITS_PRIORITY {
            self.worker_ref().class.set(priority::keep(task.policy_word(), 0));
        }
    }

    /// Notes that it runs a fork next that it has just taken: the fork has the priority of what its victim
    /// runs.
    #[inline]
    pub(super) fn runs_fork(&self) {
        if P::INHERITS_PRIORITY {
            let victim = &self.pool().workers[self.seen.victim()];
            self.worker_ref().class.set(victim.worker_ref().class.get());
        }
    }

    /// Gives a task that is spawned or forked here, without a priority, the one of the running task.
    #[inline]
    pub(super) fn inherit(&self, mut task: Runnable, why: Why) -> Runnable {
        if P::INHERITS_PRIORITY
            && matches!(why, Why::Spawned | Why::Forked)
            && priority::of(task.policy_word()).is_none()
        {
            let class = stack_context::here().map_or(0, stack_context::StackContext::class);
            task.set_policy_word(priority::keep(class, task.policy_word()));
        }
        task
    }
}
