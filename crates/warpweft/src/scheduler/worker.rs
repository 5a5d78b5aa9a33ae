//! A worker: its half of the policy, and the steps of its tasks.
//!
//! # Invariants
//!
//! - The policy's `Local` is touched only by the thread that carries the worker, and only while the worker's
//!   reference takes tasks of its pool. If a hook spawns or wakes, against the rules, it reaches the policy
//!   as an external thread would, and not through a second `&mut`.

use super::neighbour::Neighbour;
use super::poll_interval::{YieldInterval, hand_out, look};
use super::pool::TypedPool;
use super::search::{self, SearchHook};
use crate::driver::core::Driver;
use crate::driver::standby;
use crate::execution::stack_context::{self, StackContext};
use crate::fork::stealable::Stolen;
use crate::pool::current::{WorkerRef, WorkerVtable};
use crate::pool::worker_core::WorkerCore;
use crate::threads::pool_ref::PoolRef as _;
use crate::threads::thread_handle::{Rests, ThreadHandle};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::mem::ManuallyDrop;
use std::{ptr::NonNull, sync::Arc};
use warpweft_platform::panics::contain;
use warpweft_platform::{clock, hook, random::Rng};
use warpweft_policy::{Clock, Count, Counters, Cx, Policy};
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Ran, Runnable, TaskRef, apart_from_job, cancellations};

/// `repr(C)`: a pointer to the reference is a pointer to the worker.
#[repr(C)]
pub(crate) struct Worker<P: Policy> {
    pub(crate) core: WorkerCore,
    workers: usize,
    /// The policy's half of this worker; dropped when its thread leaves.
    local: UnsafeCell<ManuallyDrop<P::Local>>,
    random: RefCell<Rng>,
    pub(super) neighbour: Neighbour,
    pub(super) yield_interval: YieldInterval,
    /// The worker's steps when it last searched its queues for tasks that were lent a priority.
    pub(super) raised_at: Cell<u64>,
    /// True if it makes up for workers that are stuck.
    pub(crate) is_compensating: bool,
    /// The number of cancelled tasks of this process when the worker was created, and when the policy was
    /// last told.
    pub(crate) cancellations: (u64, Cell<u64>),
}

// SAFETY: everything but atomics, `core.pinned`, `core.id`, `is_compensating` and the plain fields of the
// reference is touched only by the thread that carries the worker. Threads take turns at that by `Handoff`,
// which hands over what was done, or by the start of a thread.
unsafe impl<P: Policy> Sync for Worker<P> {}
// SAFETY: `P::Local: Send`, and the rest is plain data; the pool pointer is an address until it is used on a
// worker.
unsafe impl<P: Policy> Send for Worker<P> {}

impl<P: Policy> Worker<P> {
    const OPS: &'static WorkerVtable = &WorkerVtable {
        push: Self::push_by_ref,
        is_only_ready: Self::is_only_ready_of_ref,
        step: Self::step_of_ref,
        has_own: Self::has_own_of_ref,
        fetch: Self::fetch_of_ref,
        driver: Self::driver_of_ref,
        keep: TypedPool::<P>::keep,
    };

    pub(crate) fn new(
        pool: NonNull<PoolHeader>,
        id: usize,
        workers: usize,
        is_compensating: bool,
        keeps_spawned: bool,
        local: P::Local,
    ) -> Self {
        let cancelled = cancellations();
        let worker_ref = WorkerRef::new(pool, Self::OPS, Self::spawner(keeps_spawned, false), Some(id));
        Self {
            core: WorkerCore::new(worker_ref, id),
            workers,
            local: UnsafeCell::new(ManuallyDrop::new(local)),
            random: RefCell::new(Rng::seeded(0x9e37_79b9_7f4a_7c15 ^ id as u64)),
            neighbour: Neighbour::default(),
            yield_interval: YieldInterval::default(),
            raised_at: Cell::new(0),
            is_compensating,
            cancellations: (cancelled, Cell::new(cancelled)),
        }
    }

    pub(crate) fn worker_ref(&self) -> &WorkerRef {
        &self.core.worker_ref
    }

    pub(crate) fn id(&self) -> usize {
        self.core.id.0
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.core.counters()
    }

    /// Returns true if it takes tasks that all workers share. The standby poller does not: it would not be
    /// back in the poller soon. Others that compensate do so only while a worker is stuck.
    #[inline]
    pub(crate) fn shares(&self) -> bool {
        if !self.is_compensating {
            return true;
        }
        let core = &self.pool().core;
        core.monitor.is_any_stuck() && !core.driver.standby.is(self.id())
    }

    /// Returns work for a compensating worker, from any place, on the thread of `thread_handle`. It waits
    /// only if it is the standby poller.
    /// Contract: as [`call`](Self::call).
    #[cold]
    pub(crate) unsafe fn find_work(&self, thread_handle: &ThreadHandle) -> Option<Work> {
        let pool = self.pool();
        let _rests = Rests::of(thread_handle);
        while !pool.core.monitor.has_one_too_many() {
            if thread_handle.mailbox().is_ready() {
                return Some(Work::Fiber);
            }
            if self.shares() {
                // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
                if let Some(found) = unsafe { self.call(P::scan) } {
                    return Some(Work::Task(found));
                }
            }
            let (driver, idle) = (&pool.core.driver, &pool.core.idle);
            let must_wake = || pool.core.lifecycle.is_closing() || thread_handle.mailbox().is_ready();
            let (id, slice_ns) = (self.id(), standby::slice_ns(P::INHERITS_PRIORITY));
            let happened = look(driver, idle) || driver.poll_standby(id, slice_ns, idle, must_wake, hand_out);
            if !happened && !thread_handle.mailbox().is_ready() {
                return None;
            }
            // The tasks that the poller woke were pushed by this worker.
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            if let Some(woken) = unsafe { self.call(P::next) } {
                return Some(Work::Task(woken));
            }
        }
        None
    }

    pub(crate) fn pool(&self) -> &TypedPool<P> {
        // SAFETY: the pool owns its workers, so it is alive, and `new` was given its header.
        unsafe { self.worker_ref().pool.cast::<TypedPool<P>>().as_ref() }
    }

    /// Calls a hook of the policy with this worker's `Local`.
    ///
    /// # Safety
    ///
    /// The calling thread carries the worker, and no hook of the policy is on its stack.
    #[inline]
    pub(crate) unsafe fn call<R>(&self, hook: impl FnOnce(&P::Shared, &mut P::Local, &Cx<'_>) -> R) -> R {
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.call_in(self.pool(), hook) }
    }

    /// Does the same where the worker's pool is known and need not be read once more.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    #[allow(
        clippy::inline_always,
        reason = "out of line it costs a yield 20 instructions"
    )]
    #[inline(always)]
    pub(crate) unsafe fn call_in<R>(
        &self,
        pool: &TypedPool<P>,
        hook: impl FnOnce(&P::Shared, &mut P::Local, &Cx<'_>) -> R,
    ) -> R {
        // After a hook has panicked in code whose panics are caught elsewhere, such as a waker, the loop may
        // call one more.
        debug_assert!(self.worker_ref().takes().is_some() || pool.core.lifecycle.is_closing());
        self.worker_ref().begin_hook();
        // SAFETY: by contract this thread alone touches the worker, and with no hook on its stack there is no
        // other borrow. The reference takes no tasks until the hook returns, which prevents another one.
        let local = unsafe { &mut *self.local.get() };
        let cx = Cx::for_worker(
            self.core.id,
            self.workers,
            self.counters(),
            &self.random,
            Clock::Machine,
        )
        .with_size(&pool.core.size.policy);
        // Unwind: a hook called by a task's step (`push`, `is_only_ready`) unwinds through the task, and
        // would look like its panic. The pool closes here, and the reference takes no tasks any more, so that
        // `Local` is not used again.
        let cut_short = CloseOnUnwind(pool);
        let _within = hook::enter(&hook);
        let result = hook(pool.shared(), local, &cx);
        std::mem::forget(cut_short);
        self.worker_ref().end_hook(pool.header());
        result
    }

    /// Contract: as [`WorkerVtable::is_only_ready`].
    unsafe fn is_only_ready_of_ref(worker_ref: &WorkerRef) -> bool {
        // SAFETY: by contract the reference belongs to a worker of this table, so of this type.
        let worker = unsafe { Self::from_ref(worker_ref) };
        let core = &worker.pool().core;
        // Work that the policy does not know: the yielding task would keep the worker from it. A compensating
        // worker has other workers' work.
        if worker_ref.is_in_policy()
            || worker.is_compensating
            || !worker.core.pinned.is_empty()
            || core.lifecycle.is_closing()
            || core.monitor.is_any_long()
            || stack_context::has_ready_fibers()
        {
            return false;
        }
        // What the poller wakes is ready, too.
        worker.yield_interval.look_if_due(&core.driver, &core.idle);
        // SAFETY: by contract the calling thread carries the worker, and no hook is on its stack.
        let is_only_ready = unsafe { worker.call(|shared, local, _| P::is_only_ready(shared, local)) };
        // SAFETY: as above.
        is_only_ready && !(worker.neighbour.is_due() && unsafe { worker.help() })
    }

    /// Contract: as [`WorkerVtable::step`].
    unsafe fn step_of_ref(worker_ref: &WorkerRef) -> bool {
        // SAFETY: by contract the reference belongs to a worker of this table, so of this type.
        let worker = unsafe { Self::from_ref(worker_ref) };
        if let Some(task) = worker.pool().core.take_lost() {
            // The thread may carry another worker afterwards: a waiting frame looks again.
            worker.pool().core.end_one_lost(task);
            return true;
        }
        // SAFETY: by contract the calling thread carries the worker, and tasks are not run inside hooks.
        let task = unsafe { worker.call(P::next) }
            // SAFETY: as above.
            .or_else(|| unsafe { worker.call(P::poll_global) })
            // SAFETY: as above.
            .or_else(|| unsafe { worker.call(P::scan) })
            .or_else(|| worker.core.pinned.pop());
        let Some(task) = task else {
            let pool = worker.pool();
            return look(&pool.core.driver, &pool.core.idle);
        };
        worker.counters().add(Count::Stacked, 1);
        let run = |context: &StackContext| {
            // SAFETY: as above.
            let step = || unsafe { worker.run::<false>(worker.pool(), task, context) };
            // SAFETY: a frame that works meanwhile is on the thread's own stack, or on that of a fiber that
            // must not switch.
            unsafe { apart_from_job(|| context.keep_class(step)) };
        };
        stack_context::with_stack_context(|context| context.map(run));
        true
    }

    /// Contract: as [`WorkerVtable::driver`].
    unsafe fn driver_of_ref(worker_ref: &WorkerRef) -> io::Result<Arc<Driver>> {
        // SAFETY: by contract the reference belongs to a worker of this table, so of this type.
        unsafe { Self::from_ref(worker_ref) }.pool().core.driver()
    }

    /// # Safety
    ///
    /// The reference belongs to a worker of this type.
    pub(crate) unsafe fn from_ref(worker_ref: &WorkerRef) -> &Self {
        // SAFETY: `repr(C)` puts the reference first, and by contract it is inside such a worker.
        unsafe { NonNull::from(worker_ref).cast::<Self>().as_ref() }
    }

    /// Drops the policy's half.
    ///
    /// # Safety
    ///
    /// No other code touches the worker, now or later.
    pub(crate) unsafe fn retire(&self) {
        self.forget_raised();
        // A panic in the policy's `Drop` must not keep the pool from ending.
        contain(|| {
            // SAFETY: by contract.
            unsafe { self.local.get().cast::<P::Local>().drop_in_place() };
        });
    }

    /// Returns the next work; sleeps until there is some. Returns `None` if the pool closes.
    /// Contract: as [`call`](Self::call).
    #[cold]
    pub(crate) unsafe fn wait(&self, context: &StackContext) -> Option<Work> {
        let call = |hook| match hook {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            SearchHook::Next => unsafe { self.call(P::next) },
            // SAFETY: as above.
            SearchHook::Search => unsafe { self.call(P::search) },
            // SAFETY: as above.
            SearchHook::Scan => unsafe { self.call(P::scan) },
        };
        // SAFETY: by contract this thread carries the worker.
        unsafe { search::wait(&self.core, &self.pool().core, context.thread_handle(), &call) }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn run_fork(&self, fork: Stolen, context: &StackContext) {
        self.counters().add(Count::ForksTaken, 1);
        self.runs_fork();
        let start = clock::now_ns();
        context.forks().run_stolen(fork);
        if context.carries(self.worker_ref()) {
            self.core.seen.learn(start);
        }
    }

    /// Runs a step of `task`, and records it if `RECORDED` is true. Afterwards the worker puts the task where
    /// it belongs; another worker may do so, if the task waited.
    /// Contract: as [`call`](Self::call), and the thread occupies `context`.
    #[allow(clippy::inline_always, reason = "out of line it costs 5 %")]
    #[inline(always)]
    pub(crate) unsafe fn run<const RECORDED: bool>(
        &self,
        pool: &TypedPool<P>,
        task: TaskRef,
        context: &StackContext,
    ) {
        let mut task = pool.core.take(task);
        // Known at compile time where nothing is recorded.
        let before = RECORDED.then(|| (task.id_word(), context.fibers().line_end()));
        if RECORDED {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            unsafe { self.begin_recorded(pool, &task) };
        }
        self.counters().add(Count::Ran, 1);
        self.worker_ref().running.set(task.id_word(), task.origin_word());
        // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
        unsafe { self.runs(&mut task) };
        let word = if P::WATCHES_COMPLETIONS {
            task.policy_word()
        } else {
            0
        };
        let ran = task.run();
        let Some(worker_ref) = context.worker_ref() else {
            return pool.core.detached(ran, word);
        };
        // SAFETY: the stack context's worker references are its pool's workers, so of this type.
        let worker = unsafe { Self::from_ref(worker_ref) };
        // One look for both, or a wake in between would be in no record.
        let is_notified = matches!(&ran, Ran::Pending(pending) if pending.is_notified());
        if let Some(before) = before {
            let same = std::ptr::eq(worker, self);
            // SAFETY: the stack context says that this thread carries the worker.
            unsafe { worker.end_recorded(pool, (&ran, is_notified), same, context, before) };
        }
        match ran {
            // SAFETY: the stack context says that this thread carries the worker, and no hook is on its
            // stack.
            Ran::Ended => unsafe { worker.completed(word) },
            // SAFETY: as above.
            Ran::Pending(pending) => unsafe { worker.suspend(pool, pending, is_notified) },
        }
    }

    /// Handles the end of a task on this worker.
    /// Contract: as [`call`](Self::call).
    #[inline]
    pub(crate) unsafe fn completed(&self, policy_word: u64) {
        // A policy whose hook has panicked below this task is not called any more.
        if P::WATCHES_COMPLETIONS && self.worker_ref().takes().is_some() {
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            unsafe { self.call(|shared, local, _| P::completed(shared, local, policy_word)) };
            if !self.pool().core.ended_detached.is_empty() {
                // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
                unsafe { self.completed_elsewhere() };
            }
        }
    }

    /// Reports to the policy the tasks that ended where no worker was.
    /// Contract: as [`call`](Self::call).
    // Not inlined: with two calls of the hook the loop would make them through a register.
    #[cold]
    #[inline(never)]
    unsafe fn completed_elsewhere(&self) {
        while let Some(word) = self.pool().core.ended_detached.pop() {
            let word = word.get() as u64;
            // SAFETY: by contract this thread carries the worker, and no hook is on its stack.
            unsafe { self.call(|shared, local, _| P::completed(shared, local, word)) };
        }
    }
}

/// What a worker without own tasks finds.
pub(crate) enum Work {
    Task(TaskRef),
    /// A task that the policy dropped, and that must be ended.
    Lost(Runnable),
    /// A fork that was on offer.
    Fork(Stolen),
    /// A fiber of this thread is ready.
    Fiber,
    /// Its own queues may have tasks: sockets or timers have woken some.
    Woken,
    /// Steps are recorded from now on, or not any more.
    RecordingChanged,
}

/// Closes the worker's pool if a hook of its policy panics.
struct CloseOnUnwind<'a, P: Policy>(&'a TypedPool<P>);

impl<P: Policy> Drop for CloseOnUnwind<'_, P> {
    fn drop(&mut self) {
        self.0.core.close_for(&"a hook of its policy panicked");
    }
}
