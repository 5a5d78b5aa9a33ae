//! The size of a pool changes while it runs: how a worker comes to rest, and how it continues.
//!
//! A worker that rests is like a compensating worker that is not needed: no thread carries it, and its half
//! of the policy is empty. Its thread is a spare one. See `docs/decisions/0088-resize.md`.
//!
//! # Invariants
//!
//! - `Lifecycle` counts a worker from before the end of its rest until after the beginning of the next one.
//! - While a worker rests that has had a thread, there is a spare thread for it: see `ThreadSet`.
//! - A task that is pinned to a worker ends its rest. The worker runs such tasks, and rests again.

use super::pool::TypedPool;
use super::worker::Worker;
use crate::execution::stack_context;
use crate::pool::draining::refuses_caller;
use crate::pool::dyn_pool::DynPool;
use crate::pool::size::ResizeError;
use crate::threads::pool_ref::PoolRef;
use std::io;
use std::sync::Arc;
use warpweft_platform::clock;
use warpweft_policy::{Count, Policy, WorkerId};
use warpweft_task::{Abandon, Runnable, Why};

/// The most tasks that a worker gives back before it runs some of them itself.
const GIVEN_BACK: usize = 1024;

/// The cause of a new size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Program,
    /// The process may use more CPUs than before, or fewer.
    Machine,
}

impl<P: Policy> Worker<P> {
    /// Returns true if the pool has become smaller, and this worker is one too many.
    #[inline]
    pub(crate) fn must_rest(&self, pool: &TypedPool<P>) -> bool {
        pool.core.size.policy.rests(WorkerId(self.id()))
    }

    /// Gives the tasks of this worker, which is about to rest, to the others. Returns true if it has none
    /// left. It does not give all at once: a policy's `drain` may draw on what all workers share, and never
    /// end.
    /// Contract: as [`call`](Self::call).
    pub(crate) unsafe fn give_back(&self) -> bool {
        // First all, so that none is drained again that went back to this worker.
        let mut drained = Vec::new();
        while drained.len() < GIVEN_BACK {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            let Some(task) = (unsafe { self.call(P::drain) }) else {
                break;
            };
            drained.push(self.pool().core.take(task));
        }
        let is_empty = drained.len() < GIVEN_BACK;
        for task in drained {
            self.counters().add(Count::GivenBack, 1);
            stack_context::with_worker_kept(|| self.pool().push_from_outside(task, Why::Woken));
        }
        is_empty
    }
}

impl dyn DynPool + '_ {
    /// Sets how many workers run, and returns how many did. The pool does not follow the machine any more.
    ///
    /// # Errors
    ///
    /// The number is out of range, the pool has ended, or there is no thread for a worker.
    pub(crate) fn resize(&self, workers: usize) -> Result<usize, ResizeError> {
        if workers == 0 {
            return Err(ResizeError::Zero);
        }
        if workers > self.core().asked {
            return Err(ResizeError::AboveMaximum {
                asked: workers,
                most: self.core().asked,
            });
        }
        if self.core().is_in_forked_child() {
            return Err(ResizeError::Forked);
        }
        self.change_size(workers, Cause::Program)
    }

    fn change_size(&self, workers: usize, cause: Cause) -> Result<usize, ResizeError> {
        let size = &self.core().size;
        let _lock = size.lock();
        if self.core().lifecycle.is_closing() {
            return Err(ResizeError::Closed);
        }
        match cause {
            Cause::Program => size.stop_following(),
            // The program was faster.
            Cause::Machine if size.follow().is_none() => return Ok(size.now()),
            Cause::Machine => {}
        }
        let before = size.now();
        // Before any worker is woken, or continued.
        size.set(workers);
        for worker in workers..before {
            self.core().idle.wake_to_stop(worker);
        }
        for worker in before..workers {
            if let Err(source) = self.end_rest(worker) {
                size.set(worker);
                return Err(ResizeError::Thread {
                    workers: worker,
                    asked: workers,
                    source,
                });
            }
            size.set_started(worker);
        }
        Ok(before)
    }

    /// Follows the number of CPUs that the process may use, if it is time to look. `looked_ns` is the time of
    /// the last look.
    pub(super) fn follow_machine(&self, looked_ns: &mut u64) {
        let Some(follow) = self.core().size.follow() else {
            return;
        };
        let now_ns = clock::now_ns();
        if u128::from(now_ns.saturating_sub(*looked_ns)) < follow.every.as_nanos() {
            return;
        }
        *looked_ns = now_ns;
        let cpus = (follow.cpus)().clamp(1, self.core().asked);
        if cpus != self.core().size.now() {
            // If the system gives no thread, the next look tries again.
            let _ = self.change_size(cpus, Cause::Machine);
        }
    }

    /// Ends the rest of a worker, if it rests: a thread continues it. The caller has made visible why.
    ///
    /// # Errors
    ///
    /// There is no thread for it. The worker rests.
    pub(super) fn end_rest(&self, worker: usize) -> io::Result<()> {
        // After the end of the pool, which ends the tasks that are pinned to it.
        if !self.core().lifecycle.enter() {
            return Ok(());
        }
        if !self.core().idle.end_rest(worker) {
            self.leave(1);
            return Ok(());
        }
        let Some(pool) = self.keep() else {
            unreachable!("the caller has a share of the pool")
        };
        let pool: Arc<dyn PoolRef> = pool;
        let had_thread = worker < self.core().size.started();
        match self.core().threads.reserve_for_worker(&pool, had_thread) {
            Ok(spare) => {
                spare.handoff.assign(Some(worker));
                Ok(())
            }
            Err(error) => {
                self.core().idle.rest(worker);
                self.leave(1);
                Err(error)
            }
        }
    }

    /// Queues a task that only that worker may run.
    pub(crate) fn push_pinned(&self, worker: usize, task: Runnable) {
        let core = self.core();
        if core.is_in_forked_child() {
            return task.abandon(Abandon::Forked);
        }
        let mut access = core.lifecycle.access();
        if !access.is_open() || refuses_caller(core) {
            return self.end_late(task, access);
        }
        access.hand_over();
        self.worker(worker).pinned.push(task.into_task_ref());
        core.wake_worker(worker);
        // The end of the pool waits for accesses, and what follows may be that end.
        drop(access);
        // After the barrier of that wake.
        if worker < core.asked && core.idle.is_resting(worker) {
            // A worker to which tasks are pinned has had a thread, so there is one for it.
            let _ = self.end_rest(worker);
        }
    }

    /// Begins the rest of a worker that the calling thread has released. Its half of the policy is empty, and
    /// the thread is among the spares.
    pub(super) fn rest(&self, worker: usize) {
        let recorder = &self.core().recorder;
        // SAFETY: no other thread carries the worker before its rest has begun.
        unsafe { recorder.worker(worker).park(recorder) };
        self.core().idle.rest(worker);
        let rests = self.core().size.policy.rests(WorkerId(worker));
        if !rests || !self.worker(worker).pinned.is_empty() {
            // There is a spare thread: this one, if no other.
            let _ = self.end_rest(worker);
        }
        // The worker may have pushed tasks that it said it would find itself. And a push for it may have
        // found it awake.
        self.core().idle.wake_one();
        self.leave(1);
    }
}
