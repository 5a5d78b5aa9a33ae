//! The worker and its loop.
//!
//! ```text
//!   ┌─▶ overdue (every INTERVAL tasks) ─▶ next ─▶ overdue ─▶ search … scan, sleep ─┐
//!   └──────────── suspended / pushed again / ended ◀── run ◀──────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - The policy's `Local` is touched only by the thread that carries the worker, and only while `in_policy` is clear:
//!   a hook that spawns or wakes, against the rules, reaches the policy as an outsider and not through a second `&mut`.
//! - The loop makes one indirect call per task: the task's body.

use super::context::{Carry, Front, FrontOps};
use super::pool::Pool;
use crate::idle::Waited;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use warpweft_platform::random::Rng;
use warpweft_policy::{Clock, Count, Counters, Cx, Policy, WorkerId};
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Pending, Ran, Suspended, TaskRef, Why};

/// `repr(C)`: a pointer to the front is a pointer to the worker.
#[repr(C)]
pub(crate) struct Worker<P: Policy> {
    front: Front,
    id: WorkerId,
    workers: usize,
    /// The policy's half of this worker; dropped when its thread leaves.
    local: UnsafeCell<ManuallyDrop<P::Local>>,
    /// A hook of the policy is on this thread's stack.
    in_policy: Cell<bool>,
    random: RefCell<Rng>,
    counters: Counters,
}

// SAFETY: everything but `counters`, `id` and `front`'s plain fields is touched only by the thread that carries the
// worker; threads take turns at that by being joined or by the start of a thread.
unsafe impl<P: Policy> Sync for Worker<P> {}
// SAFETY: `P::Local: Send`, and the rest is plain data; the pool pointer is an address until it is used on a worker.
unsafe impl<P: Policy> Send for Worker<P> {}

impl<P: Policy> Worker<P> {
    const OPS: &'static FrontOps = &FrontOps {
        push: Self::push_front,
        alone: Self::alone_front,
    };

    pub(crate) fn new(pool: NonNull<PoolHeader>, id: usize, workers: usize, local: P::Local) -> Self {
        Self {
            front: Front::new(pool, Self::OPS, true),
            id: WorkerId(id),
            workers,
            local: UnsafeCell::new(ManuallyDrop::new(local)),
            in_policy: Cell::new(false),
            random: RefCell::new(Rng::seeded(0x9e37_79b9_7f4a_7c15 ^ id as u64)),
            counters: Counters::default(),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    fn pool(&self) -> &Pool<P> {
        // SAFETY: the pool owns its workers, so it is alive, and `new` was given its header.
        unsafe { self.front.pool.cast::<Pool<P>>().as_ref() }
    }

    /// Calls a hook of the policy with this worker's `Local`.
    ///
    /// # Safety
    ///
    /// The calling thread carries the worker, and no hook of the policy is on its stack.
    #[inline]
    unsafe fn call<R>(&self, hook: impl FnOnce(&P::Shared, &mut P::Local, &Cx<'_>) -> R) -> R {
        debug_assert!(!self.in_policy.get());
        self.in_policy.set(true);
        // SAFETY: by contract this thread alone touches the worker, and with no hook on its stack there is no other
        // borrow; `in_policy` keeps others away until the hook returns.
        let local = unsafe { &mut *self.local.get() };
        let cx = Cx::for_worker(
            self.id,
            self.workers,
            &self.counters,
            &self.random,
            Clock::Machine,
        );
        let pool = self.pool();
        // Unwind: a hook called by a task's step (`push`, `alone`) unwinds through the task, whose panic it would seem to
        // be. The pool closes here, and `in_policy` stays set, so that nobody uses `Local` again.
        let cut_short = CloseOnUnwind(pool);
        let result = hook(pool.shared(), local, &cx);
        std::mem::forget(cut_short);
        self.in_policy.set(false);
        result
    }

    #[inline]
    fn push(&self, task: TaskRef, why: Why) {
        match why {
            Why::Spawned => self.counters.add(Count::Spawned, 1),
            Why::Woken => self.counters.add(Count::Resumptions, 1),
            Why::Yielded => self.counters.add(Count::Yields, 1),
            Why::Forked | Why::Injected => {}
        }
        if self.in_policy.get() {
            return self.pool().push_from_outside(task, why);
        }
        // SAFETY: workers are pushed to by the thread that carries them, and no hook is on its stack.
        let wake = unsafe { self.call(|shared, local, cx| P::push(shared, Some(local), task, why, cx)) };
        self.pool().wake(wake, Some(&self.counters));
    }

    /// # Safety
    ///
    /// As [`FrontOps::push`].
    #[inline]
    pub(super) unsafe fn push_front(front: &Front, task: TaskRef, why: Why) {
        // SAFETY: by contract the front is a worker's of this table, so of this type.
        unsafe { Self::from_front(front) }.push(task, why);
    }

    /// # Safety
    ///
    /// As [`FrontOps::alone`].
    unsafe fn alone_front(front: &Front) -> bool {
        // SAFETY: by contract the front is a worker's of this table, so of this type.
        let worker = unsafe { Self::from_front(front) };
        if worker.in_policy.get() {
            return false;
        }
        // SAFETY: by contract the calling thread carries the worker, and no hook is on its stack.
        unsafe { worker.call(|shared, local, _| P::alone(shared, local)) }
    }

    /// # Safety
    ///
    /// The front is a worker's of this type.
    unsafe fn from_front(front: &Front) -> &Self {
        // SAFETY: `repr(C)` puts the front first, and by contract it is inside such a worker.
        unsafe { NonNull::from(front).cast::<Self>().as_ref() }
    }

    /// Drops the policy's half.
    ///
    /// # Safety
    ///
    /// Nobody else touches the worker, and nobody will.
    pub(crate) unsafe fn retire(&self) {
        // Unwind: what the policy's `Drop` does wrong must not keep the pool from ending.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: by contract.
            unsafe { self.local.get().cast::<P::Local>().drop_in_place() };
        }));
    }

    /// The next task; sleeps until there is one. `None`: the pool closes.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    #[cold]
    unsafe fn wait(&self) -> Option<TaskRef> {
        let pool = self.pool();
        self.counters.add(Count::Searches, 1);
        let waited = pool.idle.wait(
            self.id.0,
            // SAFETY: by contract, and `wait` calls one closure after another.
            || unsafe { self.call(P::search) },
            || {
                pool.end_lost();
                // SAFETY: as above.
                unsafe { self.call(P::scan) }
            },
            || pool.life.is_closing(),
            || self.counters.add(Count::Parks, 1),
        );
        match waited {
            Waited::Found(task) => Some(task),
            Waited::Stop => None,
        }
    }

    /// A task ended on this worker.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    #[inline]
    unsafe fn retired(&self, policy_word: u64) {
        if P::WATCHES_ENDS {
            // SAFETY: by contract.
            unsafe { self.call(|shared, local, _| P::retired(shared, local, policy_word)) };
        }
    }

    /// The step left the task pending: it sleeps, or goes back if it was woken meanwhile.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    unsafe fn suspend(&self, mut pending: Pending) {
        let yielded = self.front.yielding.replace(false);
        if !pending.is_notified() {
            self.counters.add(Count::Suspensions, 1);
            // SAFETY: by contract.
            unsafe { self.call(|shared, local, cx| P::suspended(shared, local, pending.task(), cx)) };
            if !pending.is_registered() {
                self.pool().register.enter(self.id.0, &mut pending);
            }
        }
        let word = if P::WATCHES_ENDS {
            pending.task().policy_word()
        } else {
            0
        };
        match pending.suspend() {
            Suspended::Asleep => {}
            // SAFETY: by contract.
            Suspended::Cancelled => unsafe { self.retired(word) },
            Suspended::Again(task) => self.push(task, if yielded { Why::Yielded } else { Why::Woken }),
        }
    }
}

/// Closes the pool if a hook of its policy panics.
struct CloseOnUnwind<'a, P: Policy>(&'a Pool<P>);

impl<P: Policy> Drop for CloseOnUnwind<'_, P> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Takes tasks and runs them until the pool closes.
///
/// # Safety
///
/// The calling thread carries the worker, and no hook of the policy is on its stack.
// Not inlined, so that its one indirect call can be counted in the assembly.
#[inline(never)]
unsafe fn run_loop<P: Policy>(pool: &Pool<P>, worker: &Worker<P>) {
    let mut until_overdue = P::INTERVAL.max(1);
    while !pool.life.is_closing() {
        until_overdue -= 1;
        let mut task = None;
        if until_overdue == 0 {
            until_overdue = P::INTERVAL.max(1);
            pool.end_lost();
            // SAFETY: by contract; here and below, tasks and hooks return before the next hook is called.
            task = unsafe { worker.call(P::overdue) };
            worker.counters.add(Count::Overdue, u64::from(task.is_some()));
        }
        if task.is_none() {
            // SAFETY: as above.
            task = unsafe { worker.call(P::next) };
            worker.counters.add(Count::LocalPops, u64::from(task.is_some()));
        }
        if task.is_none() {
            // SAFETY: as above.
            task = unsafe { worker.call(P::overdue) };
            worker.counters.add(Count::Overdue, u64::from(task.is_some()));
        }
        // SAFETY: as above.
        let Some(task) = task.or_else(|| unsafe { worker.wait() }) else {
            return;
        };
        worker.counters.add(Count::Ran, 1);
        let word = if P::WATCHES_ENDS { task.policy_word() } else { 0 };
        match task.run() {
            // SAFETY: as above.
            Ran::Ended => unsafe { worker.retired(word) },
            // SAFETY: as above.
            Ran::Pending(pending) => unsafe { worker.suspend(pending) },
        }
    }
}

/// The body of a worker's thread.
pub(crate) fn carry<P: Policy>(pool: &Pool<P>, id: usize) {
    let worker = &pool.workers[id];
    {
        // SAFETY: the builder starts one thread per worker, and this block ends on it.
        let _carry = unsafe { Carry::new(&worker.front) };
        // Unwind: tasks keep their panics to themselves, so this one is the policy's: the pool closes.
        // SAFETY: this thread carries the worker, and nothing of the policy is on its stack.
        if catch_unwind(AssertUnwindSafe(|| unsafe { run_loop(pool, worker) })).is_err() {
            pool.close();
        }
    }
    // The thread carries the worker no longer: what the tasks' and the policy's `Drop` spawn or wake comes from outside.
    // SAFETY: this thread alone touches the worker, no hook is on its stack, and this is its last use.
    unsafe { worker.retire() };
    pool.leave(1);
}
