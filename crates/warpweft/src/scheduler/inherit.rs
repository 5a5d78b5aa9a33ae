//! Priorities that a task has from another one: from the one that spawned or forked it, and from those that
//! wait for it.
//!
//! A worker keeps the priority of what it runs. A fiber has its own, since it comes back without the policy.
//! Only policies with [`Policy::INHERITS_PRIORITY`] have this code. [`lending`] knows which tasks wait.
//!
//! The kept priority is a hint: a task that gets a wrong one runs too early or too late, and that is all.

use super::pool::TypedPool;
use super::worker::Worker;
use crate::execution::stack_context::{self, StackContext};
use crate::pool::lending::{self, Borrowers};
use std::ptr::NonNull;
use warpweft_platform::atomic::Ordering;
use warpweft_policy::{Policy, TaskRef, WorkerId, priority};
use warpweft_task::{Runnable, Why};

/// Between two looks, queues of this length are searched for tasks that were lent a priority.
const RAISED_FROM: u64 = 256;
/// And queues that are longer by this number for each task that has run since the last search.
const RAISED_EACH: u64 = 4;

impl<P: Policy> TypedPool<P> {
    fn levels(&self) -> usize {
        self.core.info.priorities.into()
    }

    /// Gives a task that is about to be pushed the priority that is lent to it.
    #[inline]
    pub(super) fn lend(&self, mut task: Runnable) -> Runnable {
        if P::INHERITS_PRIORITY {
            let level = priority::level(task.policy_word(), self.levels());
            // Ordering: Relaxed; a hint. A worker that misses a level here finds it at its next look.
            if level > self.core.least_urgent.load(Ordering::Relaxed) {
                self.core.least_urgent.fetch_max(level, Ordering::Relaxed);
            }
            if lending::lends_above(level)
                && let Some(word) = lending::raised(&task, NonNull::from(self).cast(), self.levels())
            {
                task.set_policy_word(word);
            }
        }
        task
    }

    /// Returns true if a task of the pool may be less urgent than one that lends its priority.
    #[inline]
    fn may_have_borrowers(&self) -> bool {
        lending::lends_above(self.core.least_urgent.load(Ordering::Relaxed))
    }
}

/// Gives a task that was taken from its queue its own priority back, if it was lent another one.
#[inline]
pub(super) fn restore(task: &mut Runnable) {
    if lending::has_raised()
        && let Some(word) = lending::restored(task)
    {
        task.set_policy_word(word);
    }
}

impl<P: Policy> Worker<P> {
    /// Notes that the worker runs `task` next.
    /// Contract: as [`call`](Self::call).
    #[inline]
    pub(super) unsafe fn runs(&self, task: &mut Runnable) {
        if P::INHERITS_PRIORITY {
            restore(task);
            if self.may_raise() {
                // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
                unsafe { self.raise_soon() };
            }
            self.worker_ref().class.set(priority::keep(task.policy_word(), 0));
        }
    }

    /// Notes that it runs a fork next that it has just taken: the fork has the priority of what its victim
    /// runs.
    #[inline]
    pub(super) fn runs_fork(&self) {
        if P::INHERITS_PRIORITY {
            let victim = &self.pool().workers[self.core.seen.victim()];
            self.worker_ref().class.set(victim.worker_ref().class.get());
        }
    }

    /// Gives a task that is spawned or forked here, without a priority, the one of the running task; and any
    /// task the one that is lent to it.
    #[inline]
    pub(super) fn inherit(&self, mut task: Runnable, why: Why) -> Runnable {
        if P::INHERITS_PRIORITY
            && matches!(why, Why::Spawned | Why::Forked)
            && priority::of(task.policy_word()).is_none()
        {
            let class = stack_context::here().map_or(0, StackContext::class);
            task.set_policy_word(priority::keep(class, task.policy_word()));
        }
        self.pool().lend(task)
    }

    #[inline]
    fn may_raise(&self) -> bool {
        self.pool().may_have_borrowers() && Borrowers::may_have_changed(&self.worker_ref().waits_seen)
    }

    /// Takes tasks out of the queues to which a priority has been lent since the last time, and pushes them
    /// again.
    /// Contract: as [`call`](Self::call).
    #[inline]
    pub(super) unsafe fn raise_queued(&self) {
        if P::INHERITS_PRIORITY
            && self.may_raise()
            && let Some(borrowers) = Borrowers::changed(&self.worker_ref().waits_seen, self.worker_ref().pool)
        {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            unsafe { self.raise_all(&borrowers) };
        }
    }

    /// Does the same between two looks, if that costs little for each task: a task that is lent a priority is
    /// the next one then.
    /// Contract: as [`call`](Self::call).
    #[cold]
    unsafe fn raise_soon(&self) {
        let since = self.core.steps().wrapping_sub(self.raised_at.get());
        let own = P::queued(self.pool().shared(), WorkerId(self.id()));
        let shared = P::queued_shared(self.pool().shared());
        let queued = own.unwrap_or(0).saturating_add(shared.unwrap_or(0)) as u64;
        if queued <= RAISED_FROM + RAISED_EACH * since {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            unsafe { self.raise_queued() };
        }
    }

    /// Contract: as [`call`](Self::call).
    #[cold]
    unsafe fn raise_all(&self, borrowers: &Borrowers) {
        self.raised_at.set(self.core.steps());
        let levels = self.pool().levels();
        let wanted = |task: &TaskRef| borrowers.has(task, levels);
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        let tasks = unsafe { self.call(|shared, local, cx| P::extract(shared, local, &wanted, cx)) };
        for mut task in tasks {
            if let Some(word) = lending::raised(&task, self.worker_ref().pool, levels) {
                task.set_policy_word(word);
            }
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            unsafe { self.push_anyhow(task, Why::Woken) };
        }
        // While the policy looked for them, other workers may have found its queues empty and gone to sleep.
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.wake_one() };
    }

    /// Forgets which tasks of the pool were raised: it ends.
    pub(super) fn forget_raised(&self) {
        if P::INHERITS_PRIORITY {
            lending::forget(self.worker_ref().pool);
        }
    }
}
