//! Where a runnable task goes: into the policy's queue of this worker or of all, and which worker is woken
//! for it. And how a task that waits falls asleep. Wakers reach it by the table in `pool.rs`.
//!
//! Most pushed tasks go into the policy's `Local` and nowhere else, and most waiting tasks fall asleep at
//! once. The rest is out of line, and comes last, so that no registers are saved for it in the common case.

use super::pool::TypedPool;
use super::worker::Worker;
use crate::execution::stack_context::{self, StackContext};
use crate::pool::current::{GaveWay, WorkerRef, with_taker};
use std::ptr::NonNull;
use warpweft_policy::{Count, Cx, Policy, Wake, YieldTo};
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Abandon, Pending, Ran, Runnable, Suspended, TaskRef, Why};

impl<P: Policy> Worker<P> {
    /// Pushes a task for this worker, on its own thread.
    /// Contract: as [`Worker::call`].
    #[inline]
    pub(crate) unsafe fn push_in(&self, pool: &TypedPool<P>, task: Runnable, why: Why) {
        let task = self.inherit(task, why);
        self.counters().pushed(why);
        let push = |shared: &P::Shared, local: &mut P::Local, _: &Cx<'_>| {
            if P::is_fast_path(shared, why) {
                P::push_local(local, task.into_task_ref())
            } else {
                Err(task.into_task_ref())
            }
        };
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        let kept = unsafe { self.call_in(pool, push) };
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.follow_up(pool, kept, why) };
    }

    /// Does the same where the policy [keeps](Policy::is_fast_path) the task. The rest is out of line, and
    /// comes last, so that no registers are saved for it in the common case.
    /// Contract: as [`Worker::call`].
    #[inline]
    pub(crate) unsafe fn push_local(&self, pool: &TypedPool<P>, task: Runnable, why: Why) {
        let task = self.inherit(task, why);
        self.counters().pushed(why);
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        let kept = unsafe { self.call_in(pool, |_, local, _| P::push_local(local, task.into_task_ref())) };
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.follow_up(pool, kept, why) };
    }

    /// Handles the answer of the policy: it has kept the task in the worker's own half, or has not.
    /// Contract: as [`Worker::call`].
    #[inline]
    unsafe fn follow_up(&self, pool: &TypedPool<P>, kept: Result<(), TaskRef>, why: Why) {
        match kept {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            Ok(()) if pool.core.idle.is_wanted() => unsafe { self.wake_one() },
            Ok(()) => {}
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            Err(task) => unsafe { self.push_anyhow(task, why) },
        }
    }

    /// Contract: as [`Worker::call`].
    #[inline(never)]
    pub(crate) unsafe fn push_anyhow(&self, task: TaskRef, why: Why) {
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        let wake = unsafe { self.call(|shared, local, cx| P::push(shared, Some(local), task, why, cx)) };
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.wake(wake) };
    }

    /// Contract: as [`Worker::call`].
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn wake_one(&self) {
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.wake(Wake::Any) };
    }

    /// Pushes a task that has yielded and said where it wants to wait.
    /// Contract: as [`Worker::call`].
    #[cold]
    unsafe fn push_yielded(&self, task: Runnable, to: YieldTo) {
        if !self.shares() {
            // The standby poller is for what is over soon. This one stays behind others, so it may be long.
            // It counts as one that came from outside.
            return self.pool().push_from_outside(task, Why::Yielded);
        }
        self.counters().add(Count::Yields, 1);
        let task = self.pool().lend(task);
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        let wake =
            unsafe { self.call(|shared, local, cx| P::yielded(shared, local, task.into_task_ref(), to, cx)) };
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.wake(wake) };
    }

    /// Contract: as [`WorkerVtable::push`](crate::pool::current::WorkerVtable::push).
    pub(crate) unsafe fn push_by_ref(worker_ref: &WorkerRef, task: Runnable, why: Why) {
        // SAFETY: by contract the reference belongs to a worker of this table, so of this type.
        let worker = unsafe { Self::from_ref(worker_ref) };
        if worker_ref.is_in_policy() {
            return worker.pool().push_from_outside(task, why);
        }
        // SAFETY: by contract the calling thread carries the worker, and no hook is on its stack.
        unsafe { worker.push_in(worker.pool(), task, why) };
    }

    /// Pushes a spawned task. With `KEPT` the policy keeps spawned tasks.
    /// Contract: as [`WorkerVtable::push`](crate::pool::current::WorkerVtable::push), and no hook of the
    /// policy is on the thread's stack.
    pub(crate) unsafe fn spawned<const KEPT: bool>(worker_ref: &WorkerRef, task: Runnable) {
        // SAFETY: by contract the reference belongs to a worker of this table, so of this type.
        let worker = unsafe { Self::from_ref(worker_ref) };
        if KEPT {
            // SAFETY: by contract the calling thread carries the worker, and no hook is on its stack.
            unsafe { worker.push_local(worker.pool(), task, Why::Spawned) };
        } else {
            // SAFETY: as above.
            unsafe { worker.push_in(worker.pool(), task, Why::Spawned) };
        }
    }

    /// Handles a task that its step left pending: it sleeps, or goes back if `is_notified` says that it was
    /// woken meanwhile.
    /// Contract: as [`Worker::call`].
    #[allow(clippy::inline_always, reason = "as `run`, whose part it is")]
    #[inline(always)]
    pub(crate) unsafe fn suspend(&self, pool: &TypedPool<P>, mut pending: Pending, is_notified: bool) {
        if is_notified {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            return unsafe { self.go_on(pending) };
        }
        // A task that yielded was woken by that.
        self.worker_ref().yielding.set(GaveWay::No);
        self.counters().add(Count::Suspensions, 1);
        // As in `completed`.
        if pool.watches_waits && self.worker_ref().takes().is_some() {
            let tell = |shared: &P::Shared, local: &mut P::Local, cx: &Cx<'_>| {
                P::suspended(shared, local, pending.task(), cx);
            };
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            unsafe { self.call_in(pool, tell) };
        }
        if !pending.is_registered() {
            pool.core.owned_tasks.enter(self.id(), &mut pending);
        }
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        let again = |task| unsafe { self.push_woken(task) };
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.fall_asleep(pending, again) };
    }

    /// Handles a task that was woken in the step that just ended: it yielded, goes to another pool, or goes
    /// back to a queue.
    /// Contract: as [`Worker::call`].
    // Not inlined: its registers would be taken from the loop for each task.
    #[inline(never)]
    unsafe fn go_on(&self, mut pending: Pending) {
        let gave_way = self.worker_ref().yielding.replace(GaveWay::No);
        if let Some(transfer) = self.worker_ref().transfer_request.take() {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            match unsafe { self.grant(pending, transfer) } {
                Some(stays) => pending = stays,
                None => return,
            }
        }
        // A policy whose hook has panicked below this task is not called any more.
        let cut_short = self.worker_ref().takes().is_none();
        let again = |task: Runnable| match gave_way {
            _ if cut_short => task.abandon(Abandon::Shutdown),
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            GaveWay::No => unsafe { self.push_in(self.pool(), task, Why::Woken) },
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            GaveWay::AsUsual => unsafe { self.push_in(self.pool(), task, Why::Yielded) },
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            GaveWay::To(to) => unsafe { self.push_yielded(task, to) },
        };
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.fall_asleep(pending, again) };
    }

    /// Lets a task fall asleep. If it was woken before it slept, `again` takes it.
    /// Contract: as [`Worker::call`].
    #[inline]
    unsafe fn fall_asleep(&self, mut pending: Pending, again: impl FnOnce(Runnable)) {
        let word = if P::WATCHES_COMPLETIONS {
            pending.task().policy_word()
        } else {
            0
        };
        match pending.suspend() {
            Suspended::Asleep => {}
            // SAFETY: by contract no hook is on the stack of this thread.
            Suspended::Cancelled => unsafe { self.end_orphan(word) },
            Suspended::Again(task) => again(task),
        }
    }

    /// Handles a task that ended instead of falling asleep, because nothing was left that could wake or join
    /// it. What it held may have waited in its `Drop`, so the thread may carry another worker now, or none.
    ///
    /// # Safety
    ///
    /// No hook of the policy is on the thread's stack.
    #[cold]
    #[inline(never)]
    unsafe fn end_orphan(&self, policy_word: u64) {
        match stack_context::here().and_then(StackContext::worker_ref) {
            Some(worker_ref) => {
                // SAFETY: the thread's worker references are its pool's workers, and this one belongs to that
                // pool.
                let worker = unsafe { Self::from_ref(worker_ref) };
                // SAFETY: the calling thread carries it; by contract no hook is on its stack.
                unsafe { worker.completed(policy_word) };
            }
            None => self.pool().core.detached(Ran::Ended, policy_word),
        }
    }

    /// Pushes a task that was woken while it was about to fall asleep.
    /// Contract: as [`Worker::call`].
    #[inline(never)]
    unsafe fn push_woken(&self, task: Runnable) {
        self.pool().core.recorder.worker(self.id()).goes_again();
        if self.worker_ref().takes().is_none() {
            // As in `go_on`.
            return task.abandon(Abandon::Shutdown);
        }
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.push_in(self.pool(), task, Why::Woken) };
    }
}

impl<P: Policy> TypedPool<P> {
    /// Contract: as [`woken`](warpweft_task::pool::PoolVtable::woken). With `KEPT` the policy keeps woken
    /// tasks.
    pub(super) unsafe fn woken<const KEPT: bool>(pool: NonNull<PoolHeader>, task: Runnable) {
        // SAFETY: by contract the header belongs to a live pool of this table.
        with_taker(pool, |worker_ref| unsafe {
            Self::woken_on::<KEPT>(worker_ref, pool, task);
        });
    }

    /// # Safety
    ///
    /// As [`woken`](Self::woken). `worker_ref` is the one that this thread carries, if it takes tasks of the
    /// pool.
    #[inline(always)]
    pub(super) unsafe fn woken_on<const KEPT: bool>(
        worker_ref: Option<&WorkerRef>,
        pool: NonNull<PoolHeader>,
        task: Runnable,
    ) {
        match worker_ref {
            Some(worker_ref) => {
                // SAFETY: a reference that takes tasks of the pool whose table this is belongs to one of its
                // workers, so to this type.
                let worker = unsafe { Worker::<P>::from_ref(worker_ref) };
                // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
                let pool = unsafe { pool.cast::<Self>().as_ref() };
                if KEPT {
                    // SAFETY: the calling thread carries the worker; as it takes tasks, no hook is on the
                    // stack.
                    unsafe { worker.push_local(pool, task, Why::Woken) };
                } else {
                    // SAFETY: as above.
                    unsafe { worker.push_in(pool, task, Why::Woken) };
                }
            }
            // SAFETY: by contract the header belongs to a live pool of this table.
            None => unsafe { Self::push_any(pool, task, Why::Woken) },
        }
    }
}
