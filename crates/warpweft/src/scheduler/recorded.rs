//! What the flight recorder gets of a worker's steps. Nothing here is called while steps are not recorded,
//! but for wakes of workers, which are rare.

use super::pool::TypedPool;
use super::worker::{Work, Worker};
use crate::execution::stack_context::StackContext;
use crate::execution::thread_fibers::recorded::LineEnd;
use crate::fork::stealable::Stolen;
use crate::observe::recorder::event::{Kind, Push, StepEnd};
use crate::pool::core::worker_word;
use crate::pool::current::{WorkerRef, with_taker};
use crate::threads::pool_ref::PoolRef as _;
use std::ptr::NonNull;
use warpweft_policy::{Policy, Wake};
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Ran, Runnable, TaskRef};

impl<P: Policy> Worker<P> {
    /// Wakes the worker that the policy named.
    /// Contract: as [`call`](Self::call).
    pub(crate) unsafe fn wake(&self, wake: Wake) {
        let core = &self.pool().core;
        if core.wake(wake, Some(self.counters())) {
            let recorder = core.recorder.worker(self.id());
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            unsafe { recorder.note(&core.recorder, Kind::WakeWorker, worker_word(wake)) };
        }
    }

    /// Returns the function that pushes a task that the worker spawns.
    pub(crate) fn spawner(keeps_spawned: bool, recorded: bool) -> unsafe fn(&WorkerRef, Runnable) {
        match (keeps_spawned, recorded) {
            (true, false) => Self::spawned::<true>,
            (false, false) => Self::spawned::<false>,
            (true, true) => Self::spawned_recorded::<true>,
            (false, true) => Self::spawned_recorded::<false>,
        }
    }

    /// Contract: as for [`spawned`](Self::spawned).
    unsafe fn spawned_recorded<const KEPT: bool>(worker_ref: &WorkerRef, task: Runnable) {
        // SAFETY: by contract the reference belongs to a worker of this table, so of this type.
        let worker = unsafe { Self::from_ref(worker_ref) };
        let recorder = &worker.pool().core.recorder;
        // SAFETY: by contract the calling thread carries the worker.
        unsafe {
            recorder
                .worker(worker.id())
                .pushed(recorder, Push::Spawned, &task);
        };
        // SAFETY: by contract this thread carries the worker of the reference, and no hook is on its stack.
        unsafe { Self::spawned::<KEPT>(worker_ref, task) };
    }

    /// Prepares the worker that the thread carries to record its steps, or not to. Returns true if it must.
    pub(crate) fn adapt_to_recorder(pool: &TypedPool<P>, context: &StackContext) -> bool {
        let recorded = pool.core.recorder.mode().is_on();
        if let Some(worker_ref) = context.worker_ref()
            && !pool.core.lifecycle.is_closing()
        {
            let is_fast = P::is_fast_path(pool.shared(), warpweft_task::Why::Spawned);
            worker_ref.set_spawned(Self::spawner(is_fast, recorded));
        }
        recorded
    }

    /// Notes that a step begins.
    /// Contract: as [`call`](Self::call).
    #[inline]
    pub(crate) unsafe fn begin_recorded(&self, pool: &TypedPool<P>, task: &TaskRef) {
        let recorder = &pool.core.recorder;
        // SAFETY: by contract the calling thread carries the worker.
        unsafe { recorder.worker(self.id()).begin(recorder, recorder.mode(), task) };
    }

    /// Notes that a step has ended. `is_same` is false if it began on another worker. `before` are the
    /// task's word, and the end of the line of fibers when it began.
    /// Contract: as [`call`](Self::call), and the thread occupies `context`.
    #[inline]
    pub(crate) unsafe fn end_recorded(
        &self,
        pool: &TypedPool<P>,
        (ran, is_notified): (&Ran, bool),
        is_same: bool,
        context: &StackContext,
        before: (usize, LineEnd),
    ) {
        let fibers = context.fibers();
        let end = match ran {
            // The task of a fiber leaves the worker at its first wait.
            Ran::Ended if fibers.has_no_last() => StepEnd::Ended,
            Ran::Ended => fibers.first_turn_end(before.0),
            Ran::Pending(_) if is_notified => StepEnd::Again,
            Ran::Pending(_) => StepEnd::Waits,
        };
        let recorder = pool.core.recorder.worker(self.id());
        if fibers.line_end() != before.1 {
            // SAFETY: by contract this thread carries the worker, occupies `context`, and is in no hook.
            unsafe { self.woke_recorded(pool, context, before) };
        }
        if is_same {
            recorder.end(end);
        } else {
            // SAFETY: by contract the calling thread carries the worker.
            unsafe { recorder.leave(&pool.core.recorder) };
        }
    }

    /// Records the wakes of this thread's fibers since `before`, by the thread itself: in the step of that
    /// task, or by the driver.
    /// Contract: as [`call`](Self::call), and the thread occupies `context`.
    // Not inlined: its registers would be taken from each step.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn woke_recorded(
        &self,
        pool: &TypedPool<P>,
        context: &StackContext,
        (of, before): (usize, LineEnd),
    ) {
        let recorder = &pool.core.recorder;
        let woken = |see: &mut dyn FnMut(usize)| context.fibers().woken_since(before, of, see);
        // SAFETY: by contract the calling thread carries the worker.
        unsafe { recorder.worker(self.id()).woke(recorder, woken) };
    }

    /// Records the end of the last step.
    /// Contract: as [`call`](Self::call).
    #[inline]
    pub(crate) unsafe fn close_recorded(&self, pool: &TypedPool<P>) {
        let recorder = &pool.core.recorder;
        // SAFETY: by contract the calling thread carries the worker.
        unsafe { recorder.worker(self.id()).close(recorder) };
    }

    /// Waits for work as [`wait`](Self::wait) does. If meanwhile steps came to be recorded, or not to be, it
    /// runs the task that it finds in the new mode: the first one after a sleep is recorded.
    /// Contract: as [`call`](Self::call), and the thread occupies `context`.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn wait_recorded<const RECORDED: bool>(
        &self,
        pool: &TypedPool<P>,
        context: &StackContext,
    ) -> Option<Work> {
        let before = RECORDED.then(|| context.fibers().line_end());
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        let work = unsafe { self.wait(context) };
        if let Some(before) = before
            && context.carries(self.worker_ref())
            && context.fibers().line_end() != before
        {
            // SAFETY: the thread still carries the worker.
            unsafe { self.woke_recorded(pool, context, (0, before)) };
        }
        if pool.core.recorder.mode().is_on() == RECORDED {
            return work;
        }
        match work {
            Some(Work::Task(task)) => {
                Self::adapt_to_recorder(pool, context);
                // SAFETY: by contract this thread carries the worker, occupies `context`, and is in no hook.
                unsafe { self.run_in_other_mode::<RECORDED>(pool, task, context) };
                Some(Work::RecordingChanged)
            }
            Some(Work::Fork(fork)) => {
                // What it spawns is recorded as well.
                Self::adapt_to_recorder(pool, context);
                // SAFETY: by contract this thread carries the worker, occupies `context`, and is in no hook.
                unsafe { self.run_fork_recorded(fork, context) };
                Some(Work::RecordingChanged)
            }
            Some(Work::Fiber | Work::Woken) => Some(Work::RecordingChanged),
            other => other,
        }
    }

    /// Runs a task in the other mode than the loop that has found it.
    /// Contract: as for [`run`](Self::run).
    unsafe fn run_in_other_mode<const RECORDED: bool>(
        &self,
        pool: &TypedPool<P>,
        task: TaskRef,
        context: &StackContext,
    ) {
        if RECORDED {
            // SAFETY: by contract this thread carries the worker, occupies `context`, and is in no hook.
            unsafe { self.run::<false>(pool, task, context) };
        } else {
            // SAFETY: by contract this thread carries the worker, occupies `context`, and is in no hook.
            unsafe { self.run::<true>(pool, task, context) };
        }
    }

    /// Runs a fork of another worker, and records it if steps are recorded.
    /// Contract: as [`call`](Self::call), and the thread occupies `context`.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn run_fork_recorded(&self, fork: Stolen, context: &StackContext) {
        let recorder = &self.pool().core.recorder;
        if !recorder.mode().has_steps() {
            return self.run_fork(fork, context);
        }
        let fibers = context.fibers();
        let before = fibers.line_end();
        // SAFETY: by contract the calling thread carries the worker.
        unsafe {
            recorder
                .worker(self.id())
                .begin_fork(recorder, fork.address().addr(), self.core.seen.victim());
        };
        self.run_fork(fork, context);
        // If the fork's end gave the worker to its owner, who continues there: its slice ends with that step.
        if context.carries(self.worker_ref()) {
            let woken = |see: &mut dyn FnMut(usize)| fibers.woken_since(before, 0, see);
            // SAFETY: the thread still carries the worker.
            unsafe { recorder.worker(self.id()).woke(recorder, woken) };
            // SAFETY: as above.
            unsafe { recorder.worker(self.id()).end_fork(recorder) };
        }
    }

    /// Runs at most `most` turns of fibers, and records each.
    /// Contract: as [`call`](Self::call), and the thread occupies `context`.
    #[inline(never)]
    pub(crate) unsafe fn run_fibers_recorded(
        &self,
        pool: &TypedPool<P>,
        context: &StackContext,
        most: u32,
    ) -> u32 {
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.close_recorded(pool) };
        let recorder = &pool.core.recorder;
        let mut turns = 0;
        while turns < most && context.carries(self.worker_ref()) {
            let mut ran = 0;
            let before = context.fibers().line_end();
            let run = || {
                ran = context.fibers().run_ready(context, self.worker_ref(), 1);
                (ran > 0).then(|| context.fibers().last_turn())
            };
            let is_still = || context.carries(self.worker_ref());
            let fibers = context.fibers();
            let woken = |see: &mut dyn FnMut(usize)| fibers.woken_since(before, fibers.last_task(), see);
            // SAFETY: by contract the calling thread carries the worker.
            unsafe {
                recorder.worker(self.id()).around(recorder, run, is_still, woken);
            }
            if ran == 0 {
                break;
            }
            turns += ran;
        }
        turns
    }
}

impl<P: Policy> TypedPool<P> {
    /// Records the wake as well.
    /// Contract: as for [`woken`](Self::woken).
    pub(super) unsafe fn woken_recorded<const KEPT: bool>(pool: NonNull<PoolHeader>, task: Runnable) {
        // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
        let recorder = &unsafe { pool.cast::<Self>().as_ref() }.core.recorder;
        with_taker(pool, |worker_ref| {
            match worker_ref {
                Some(worker_ref) => {
                    // SAFETY: a reference that takes tasks of the pool whose table this is belongs to one of
                    // its workers, so to this type.
                    let worker = unsafe { Worker::<P>::from_ref(worker_ref) };
                    // SAFETY: the calling thread carries that worker.
                    unsafe {
                        recorder.worker(worker.id()).pushed(recorder, Push::Woken, &task);
                    };
                }
                None => recorder.pushed_outside(Push::Woken, &task),
            }
            // SAFETY: by contract, and the reference is the one that was found for the pool.
            unsafe { Self::woken_on::<KEPT>(worker_ref, pool, task) };
        });
    }

    /// Records that the calling thread wakes the fiber of that task, which is another thread's.
    #[cold]
    pub(super) fn fiber_woken(&self, task: usize) {
        with_taker(self.header(), |worker_ref| {
            let worker = worker_ref.and_then(|taker| taker.worker);
            // SAFETY: the calling thread carries a worker that takes tasks of this pool, so one of its.
            unsafe { self.core.recorder.fiber_woken(worker, task) };
        });
    }
}
