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

use super::context::{Front, FrontOps};
use super::engine::Pace;
use super::pool::{AnyPool as _, Pool};
use super::seat::{self, Seat};
use crate::fork::{Seen, Stolen};
use crate::idle::Waited;
use crate::io::Driver;
use std::cell::{RefCell, UnsafeCell};
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::atomic::spin_loop;
use warpweft_platform::clock;
use warpweft_platform::random::Rng;
use warpweft_policy::{Clock, Count, Counters, Cx, Policy, WorkerId};
use warpweft_queue::Locked;
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Abandon, Pending, Ran, Suspended, TaskRef, Why};

/// `repr(C)`: a pointer to the front is a pointer to the worker.
#[repr(C)]
pub(crate) struct Worker<P: Policy> {
    front: Front,
    id: WorkerId,
    workers: usize,
    /// The policy's half of this worker; dropped when its thread leaves.
    local: UnsafeCell<ManuallyDrop<P::Local>>,
    random: RefCell<Rng>,
    counters: Counters,
    /// Tasks that only this worker may run.
    pub(crate) errands: Locked<TaskRef>,
    /// What it saw of others' forks.
    seen: Seen,
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
        step: Self::step_front,
        driver: Self::driver_front,
        keep: Pool::<P>::keep,
    };

    pub(crate) fn new(pool: NonNull<PoolHeader>, id: usize, workers: usize, local: P::Local) -> Self {
        Self {
            front: Front::new(pool, Self::OPS, Some(id)),
            id: WorkerId(id),
            workers,
            local: UnsafeCell::new(ManuallyDrop::new(local)),
            random: RefCell::new(Rng::seeded(0x9e37_79b9_7f4a_7c15 ^ id as u64)),
            counters: Counters::default(),
            errands: Locked::new(),
            seen: Seen::default(),
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
        debug_assert!(!self.front.in_policy.get());
        self.front.in_policy.set(true);
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
        self.front.in_policy.set(false);
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
        if self.front.in_policy.get() {
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
        // What the policy does not know of: the task would keep the worker from it.
        if worker.front.in_policy.get()
            || !worker.errands.is_empty()
            || worker.pool().life.is_closing()
            || seat::has_ready_fibers()
        {
            return false;
        }
        // SAFETY: by contract the calling thread carries the worker, and no hook is on its stack.
        unsafe { worker.call(|shared, local, _| P::alone(shared, local)) }
    }

    /// # Safety
    ///
    /// As [`FrontOps::step`].
    unsafe fn step_front(front: &Front) -> bool {
        // SAFETY: by contract the front is a worker's of this table, so of this type.
        let worker = unsafe { Self::from_front(front) };
        // SAFETY: by contract the calling thread carries the worker, and tasks are not run inside hooks.
        let task = unsafe { worker.call(P::next) }
            // SAFETY: as above.
            .or_else(|| unsafe { worker.call(P::overdue) })
            // SAFETY: as above.
            .or_else(|| unsafe { worker.call(P::scan) });
        let Some(task) = task else {
            let pool = worker.pool();
            return pool.engine.look(&pool.idle);
        };
        worker.counters.add(Count::Stacked, 1);
        // SAFETY: as above.
        seat::with_seat(|seat| seat.map(|seat| unsafe { worker.run(task, seat) }));
        true
    }

    /// # Safety
    ///
    /// As [`FrontOps::driver`].
    unsafe fn driver_front(front: &Front) -> io::Result<Arc<Driver>> {
        // SAFETY: by contract the front is a worker's of this table, so of this type.
        unsafe { Self::from_front(front) }.pool().driver()
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

    /// The next work; sleeps until there is some. `None`: the pool closes.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call).
    #[cold]
    unsafe fn wait(&self, seat: &Seat) -> Option<Work> {
        let pool = self.pool();
        let berth = seat.berth();
        if berth.may_be_ready() {
            return Some(Work::Fiber);
        }
        self.counters.add(Count::Searches, 1);
        let waited = pool.idle.wait(
            self.id.0,
            // SAFETY: by contract, and `wait` calls one closure after another.
            || {
                // SAFETY: as above.
                let task = unsafe { self.call(P::search) }.map(Work::Task);
                let fiber = || berth.may_be_ready().then_some(Work::Fiber);
                let mut work = task.or_else(fiber).or_else(|| self.rob());
                if work.is_none() && pool.engine.look(&pool.idle) {
                    // SAFETY: as above.
                    work = unsafe { self.call(P::next) }.map(Work::Task);
                }
                self.found(work)
            },
            || {
                pool.end_lost();
                // SAFETY: as above.
                let task = unsafe { self.call(P::scan) };
                let task = task.or_else(|| self.errands.pop()).map(Work::Task);
                let fiber = || berth.may_be_ready().then_some(Work::Fiber);
                self.found(task.or_else(fiber).or_else(|| self.rob()))
            },
            || pool.life.is_closing(),
            || self.counters.add(Count::Parks, 1),
            || pool.market.nap_ns(&self.seen),
            || pool.engine.bed(),
            || pool.engine.is_polled(),
        );
        match waited {
            Waited::Found(work) => Some(work),
            Waited::Roused => Some(Work::Woken),
            Waited::Stop => None,
        }
    }

    fn found(&self, work: Option<Work>) -> Option<Work> {
        if work.is_some() {
            self.pool().market.stop_watching(&self.seen);
        }
        work
    }

    /// Takes a fork that another worker offers.
    fn rob(&self) -> Option<Work> {
        let market = &self.pool().market;
        loop {
            let fork = market.rob(self.id.0, &self.seen);
            if fork.is_some() || !market.insists() {
                return fork.map(Work::Fork);
            }
            spin_loop();
        }
    }

    #[cold]
    #[inline(never)]
    fn run_fork(&self, fork: Stolen, seat: &Seat) {
        self.counters.add(Count::ForksTaken, 1);
        let start = clock::now_ns();
        fork.run();
        if seat.carries(&self.front) {
            self.seen.learn(start);
        }
    }

    /// Runs a step of `task` and puts it where it belongs afterwards: perhaps by another worker, if it waited.
    ///
    /// # Safety
    ///
    /// As [`call`](Self::call), and the thread sits in `seat`.
    #[allow(
        clippy::inline_always,
        reason = "out of line it costs the loop 5 % of its instructions"
    )]
    #[inline(always)]
    unsafe fn run(&self, task: TaskRef, seat: &Seat) {
        self.counters.add(Count::Ran, 1);
        let word = if P::WATCHES_ENDS { task.policy_word() } else { 0 };
        let ran = task.run();
        let worker = match seat.front() {
            Some(front) if std::ptr::eq(front, &self.front) => self,
            // SAFETY: the seat's fronts are its pool's workers, so of this type.
            Some(other) => unsafe { Self::from_front(other) },
            None => return adrift(ran),
        };
        match ran {
            // SAFETY: the seat says that this thread carries the worker, and no hook is on its stack.
            Ran::Ended => unsafe { worker.retired(word) },
            // SAFETY: as above.
            Ran::Pending(pending) => unsafe { worker.suspend(pending) },
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
    #[allow(clippy::inline_always, reason = "as `run`, whose part it is")]
    #[inline(always)]
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

/// What a worker without tasks of its own finds.
enum Work {
    Task(TaskRef),
    /// A fork that was on offer.
    Fork(Stolen),
    /// A fiber of this thread is ready.
    Fiber,
    /// Its own queues may have something: sockets or timers have woken somebody.
    Woken,
}

/// A step is over and the thread has no worker any more. A token that gave it away has ended; a task that came back from
/// a wait without a worker, because the pool closes, cannot go on.
#[cold]
fn adrift(ran: Ran) {
    if let Ran::Pending(pending) = ran {
        pending.into_task().abandon(Abandon::Shutdown);
    }
}

/// Closes the pool if a hook of its policy panics.
struct CloseOnUnwind<'a, P: Policy>(&'a Pool<P>);

impl<P: Policy> Drop for CloseOnUnwind<'_, P> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Takes tasks and runs them until the pool closes, or the thread gives its worker to another one.
///
/// # Safety
///
/// The calling thread sits in `seat`, a seat of `pool`, and no hook of the policy is on its stack.
// Not inlined, so that its one indirect call can be counted in the assembly.
#[inline(never)]
unsafe fn run_loop<P: Policy>(pool: &Pool<P>, seat: &Seat) {
    let mut pace = Pace::new(P::INTERVAL);
    let mut until_pause = pace.stretch();
    let berth = &**seat.berth();
    // Read anew for each task: one that waited may have come back with another worker.
    while let Some(front) = seat.front() {
        if pool.life.is_closing() {
            return;
        }
        // A fiber and a task take turns.
        if berth.may_be_ready() {
            seat.home().run_one(seat);
            if seat.front().is_none_or(|now| !std::ptr::eq(now, front)) {
                continue;
            }
        }
        // SAFETY: the seat's fronts are its pool's workers, so of this type.
        let worker = unsafe { Worker::<P>::from_front(front) };
        until_pause -= 1;
        let mut task = None;
        if until_pause == 0 {
            let overdue = pace.look_up(&pool.engine, &pool.idle);
            until_pause = pace.stretch();
            if overdue {
                pool.end_lost();
                task = worker.errands.pop().or_else(|| {
                    // SAFETY: the seat says that this thread carries the worker; here and below, tasks and hooks return
                    // before the next hook is called.
                    unsafe { worker.call(P::overdue) }
                });
                worker.counters.add(Count::Overdue, u64::from(task.is_some()));
            }
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
        let task = match task {
            Some(task) => task,
            // SAFETY: as above.
            None => match unsafe { worker.wait(seat) } {
                Some(Work::Task(task)) => task,
                Some(Work::Fork(fork)) => {
                    worker.run_fork(fork, seat);
                    continue;
                }
                Some(Work::Fiber | Work::Woken) => continue,
                None => return,
            },
        };
        // SAFETY: as above.
        unsafe { worker.run(task, seat) };
    }
}

/// The life of a thread of the pool: it waits for a worker, carries it until it gives it away or the pool closes, and
/// becomes a spare.
pub(crate) fn live<P: Policy>(pool: &Pool<P>, seat: &Seat) {
    let mut assigned = Some(seat.berth().hand.wait());
    while let Some(carried) = assigned {
        seat.take_up(carried);
        // Unwind: tasks keep their panics to themselves, so this one is the policy's: the pool closes.
        // SAFETY: this thread sits in `seat`, and nothing of the policy is on its stack.
        if catch_unwind(AssertUnwindSafe(|| unsafe { run_loop(pool, seat) })).is_err() {
            pool.close();
        }
        if let Some(id) = seat.lay_down() {
            // What the tasks' and the policy's `Drop` spawn or wake from here on comes from outside.
            seat.take_up(None);
            // SAFETY: the worker is in this thread's hands, no hook is on its stack, and this is its last use.
            unsafe { pool.workers[id].retire() };
            pool.leave(1);
        }
        assigned = pool.crew().rest(seat.berth());
    }
    // Nobody gives this thread a worker any more: the pool has ended, or it has no fibers.
    seat.home().unwind_all(seat);
    // It may have been a visitor who sent this thread on its way, and who is still inside the pool.
    if pool.life.is_closing() {
        pool.life.no_visitors();
    }
}
