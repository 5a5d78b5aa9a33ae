//! The pool: workers under one policy, and everything that they share.
//!
//! ```text
//!                    ┌──────────────────────── Pool<P> ────────────────────────┐
//!  other threads ───▶│ header (vtable)   policy's Shared   idle   life         │
//!  wakers, handles   │ worker 0 [Local]  worker 1 [Local]  …   register  lost  │
//!                    └─────────────────────────────────────────────────────────┘
//! ```
//!
//! A pool is one type per policy: its loop, pushes and steals are monomorphised. Whoever does not know the type has
//! the header with its table, or an `Arc<dyn AnyPool>`.

pub(crate) use super::any_pool::AnyPool;
use super::card::Card;
use super::context::{Front, FrontOps, with_current, with_taker};
use super::crew::Crew;
use super::engine::Engine;
use super::life::Life;
use super::live::{leave, live};
use super::monitor::{Monitor, Watch};
use super::register::Register;
use super::seat::Seat;
use super::worker::Worker;
use crate::fiber::Stacks;
use crate::fork::Market;
use crate::idle::Idle;
use crate::io::{Driver, forked};
use crate::observe::PoolCounters;
use std::cell::UnsafeCell;
use std::io;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use warpweft_platform::thread::yield_now;
use warpweft_platform::{CachePadded, process};
use warpweft_policy::{Clock, Count, Counters, Cx, Policy, Wake, WorkerId};
use warpweft_queue::Locked;
use warpweft_task::pool::{PoolHeader, PoolVtable};
use warpweft_task::{Abandon, Header, Pending, Ran, TaskRef, Why};

/// `repr(C)`: a pointer to the header is a pointer to the pool.
#[repr(C)]
pub(crate) struct Pool<P: Policy> {
    header: PoolHeader,
    this: Weak<Self>,
    /// Dropped by `finish`, once, when nobody can touch it any more.
    shared: UnsafeCell<ManuallyDrop<P::Shared>>,
    /// Those that were asked for, and then the stand-ins of the monitor.
    pub(crate) workers: Box<[CachePadded<Worker<P>>]>,
    /// How many workers were asked for.
    pub(crate) asked: usize,
    pub(crate) card: Card,
    pub(crate) monitor: Monitor,
    pub(crate) idle: Idle,
    pub(crate) life: Life,
    pub(crate) register: Register,
    crew: Crew,
    stacks: Arc<Stacks>,
    pub(crate) engine: Engine,
    pub(crate) market: Market,
    /// Tokens that the policy dropped. They are cancelled where none of its code is on the stack.
    lost: Locked<TaskRef>,
    /// Policy words, other than 0, of tasks that ended where no worker was, if the policy watches ends.
    pub(super) ended_adrift: Locked<NonZeroUsize>,
    outside: Counters,
    /// Of the process that the workers run in.
    generation: u64,
}

// SAFETY: `shared` is reached by `&` only, and `P::Shared: Sync`, until `finish` has it alone; what belongs to one
// worker is touched by the one thread that carries it (see `Worker`).
unsafe impl<P: Policy> Sync for Pool<P> {}
// SAFETY: as above; nothing is tied to the thread that made it.
unsafe impl<P: Policy> Send for Pool<P> {}

impl<P: Policy> Pool<P> {
    const VTABLE: PoolVtable = PoolVtable {
        push: Self::push_any,
        woken: Self::woken::<false>,
        dropped: Self::dropped,
        unregister: Self::unregister,
    };
    /// Of a pool whose policy [keeps](Policy::keeps) woken tasks.
    const KEEPS_WOKEN: PoolVtable = PoolVtable {
        woken: Self::woken::<true>,
        ..Self::VTABLE
    };
    const VISITOR: &'static FrontOps = &FrontOps {
        push: Self::push_visitor,
        alone: |_| false,
        step: |_| false,
        driver: Self::driver_of_visitor,
        keep: Self::keep,
    };

    pub(super) fn new(
        shared: P::Shared,
        locals: Vec<P::Local>,
        crew: Crew,
        stacks: Stacks,
        engine: Engine,
        card: Card,
        watch: Watch,
    ) -> Arc<Self> {
        let (count, asked) = (locals.len(), card.workers);
        Arc::new_cyclic(|this: &Weak<Self>| {
            let pool = NonNull::new(this.as_ptr().cast_mut().cast()).unwrap_or_else(|| unreachable!());
            let keeps = P::keeps(&shared, Why::Spawned);
            let worker =
                |(id, local)| CachePadded::new(Worker::new(pool, id, count, id >= asked, keeps, local));
            let vtable = if P::keeps(&shared, Why::Woken) {
                &Self::KEEPS_WOKEN
            } else {
                &Self::VTABLE
            };
            Self {
                header: PoolHeader { vtable },
                this: Weak::clone(this),
                shared: UnsafeCell::new(ManuallyDrop::new(shared)),
                workers: locals.into_iter().enumerate().map(worker).collect(),
                asked,
                card,
                monitor: Monitor::new(watch, asked, count),
                idle: Idle::new(asked),
                life: Life::new(asked),
                register: Register::new(count),
                crew,
                stacks: Arc::new(stacks),
                engine,
                market: Market::new(count, asked),
                lost: Locked::new(),
                ended_adrift: Locked::new(),
                outside: Counters::default(),
                generation: process::generation(),
            }
        })
    }

    /// What the policy shares between workers. Not to be called once `finish` has begun to drop it.
    #[inline]
    pub(crate) fn shared(&self) -> &P::Shared {
        // SAFETY: nobody has `&mut` before `finish`; workers have left by then, and visitors see that it is closed.
        unsafe { &*self.shared.get() }
    }

    /// Wakes whom the policy named, and counts it for the worker if there is one.
    pub(crate) fn wake(&self, wake: Wake, counters: Option<&Counters>) {
        let woken = match wake {
            Wake::None => false,
            Wake::Worker(worker) if worker.0 < self.asked => self.idle.wake(worker.0),
            // A policy that names a worker that is not there gets any.
            Wake::Any | Wake::Worker(_) => self.idle.wake_one(),
        };
        if woken {
            match counters {
                Some(counters) => counters.add(Count::Wakes, 1),
                None => self.outside.add_shared(Count::Wakes, 1),
            }
        }
    }

    /// A push by a thread that carries none of this pool's workers, or by one whose worker is inside its policy.
    pub(crate) fn push_from_outside(&self, task: TaskRef, why: Why) {
        if self.is_forked() {
            return task.abandon(Abandon::Forked);
        }
        let visit = self.life.visit();
        if !visit.is_open() {
            // The policy takes no more; the waker's or spawner's thread ends the task itself.
            return task.abandon(Abandon::Shutdown);
        }
        if why == Why::Injected {
            self.outside.add_shared(Count::Injected, 1);
        }
        let cx = Cx::from_outside(self.workers.len(), &self.outside, Clock::Machine);
        // Unwind: a policy that panics must not unwind through a waker. The token is dropped on the way, and the
        // pool cancels it when it closes.
        let pushed = catch_unwind(AssertUnwindSafe(|| P::push(self.shared(), None, task, why, &cx)));
        match pushed {
            Ok(wake) => self.wake(wake, None),
            Err(_) => self.close(),
        }
    }

    /// The driver of its sockets and timers.
    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        if AnyPool::is_forked(self) {
            return Err(forked());
        }
        self.engine.driver(self.workers.len(), &self.idle)
    }

    /// Ends the tasks whose tokens the policy dropped.
    #[inline]
    pub(crate) fn end_lost(&self) {
        if !self.lost.is_empty() {
            self.end_all_lost();
        }
    }

    // Not inlined: the loop's one indirect call can be counted only if no direct one goes through a register.
    #[cold]
    #[inline(never)]
    fn end_all_lost(&self) {
        while let Some(task) = self.lost.pop() {
            task.abandon(if self.life.is_closing() {
                Abandon::Shutdown
            } else {
                Abandon::Dropped
            });
        }
    }

    /// A step is over and the thread has no worker any more. A token that gave it away has ended; a task that came back from
    /// a wait without a worker, because the pool closes, cannot go on.
    #[cold]
    pub(super) fn adrift(&self, ran: Ran, policy_word: u64) {
        match ran {
            Ran::Pending(pending) => pending.into_task().abandon(Abandon::Shutdown),
            Ran::Ended => {
                if let Some(word) = NonZeroUsize::new(policy_word as usize) {
                    self.ended_adrift.push(word);
                }
            }
        }
    }

    /// Begins the end: spawns are refused, workers leave after their present task.
    pub(crate) fn close(&self) {
        self.crew.blocking().close();
        // Before the end begins: of the places that it empties none may go to a task that waits, which would move in and end with the pool.
        self.card.close();
        self.life.close();
        self.monitor.close();
        self.idle.wake_all();
        self.engine.rouse();
    }

    /// A worker's thread is done, or `count` threads never came. The last one ends what has not ended.
    pub(crate) fn leave(&self, count: usize) {
        if self.life.leave(count) {
            self.finish();
        }
    }

    fn finish(&self) {
        // No visitor is inside the policy, and those to come see that it is closed.
        self.life.no_visitors();
        for stand_in in self.monitor.take_vacant() {
            // SAFETY: no thread carries it, and with the last worker gone none ever will.
            unsafe { self.workers[stand_in].retire() };
        }
        let shared = self.shared.get();
        // Unwind: what the policy's `Drop` does wrong must not keep tasks from ending.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: all workers have left and no visitor reaches it, so we have it alone; this runs once, as the
            // last `leave` is the last only once.
            unsafe { shared.cast::<P::Shared>().drop_in_place() };
        }));
        self.engine.close();
        self.end_lost();
        for worker in &self.workers {
            while let Some(task) = worker.errands.pop() {
                task.abandon(Abandon::Shutdown);
            }
        }
        // Sleeping tasks are ended here. A task whose token is elsewhere is about to be pushed by a visitor, who will
        // end it.
        while self.register.len() != 0 {
            let sleeping = self.register.reclaim(1024);
            if sleeping.is_empty() {
                yield_now();
            }
            sleeping
                .into_iter()
                .for_each(|task| task.abandon(Abandon::Shutdown));
            self.end_lost();
        }
        self.life.no_visitors();
        self.crew.dismiss();
    }

    /// # Safety
    ///
    /// As [`PoolVtable::push`].
    unsafe fn push_any(pool: NonNull<PoolHeader>, task: TaskRef, why: Why) {
        with_current(|front| match front {
            // Known to be a worker of this type, so that the call is direct.
            // SAFETY: the front is a worker's of the pool whose table this is, and the calling thread carries it.
            Some(front) if front.worker.is_some() && front.pool == pool => unsafe {
                Worker::<P>::push_front(front, task, why);
            },
            _ => {
                // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
                let pool = unsafe { pool.cast::<Self>().as_ref() };
                pool.push_from_outside(task, why);
            }
        });
    }

    /// # Safety
    ///
    /// As [`PoolVtable::woken`]. `KEPT`: the policy keeps woken tasks.
    unsafe fn woken<const KEPT: bool>(pool: NonNull<PoolHeader>, task: TaskRef) {
        with_taker(pool, |front| match front {
            Some(front) => {
                // SAFETY: what takes tasks of the pool whose table this is is one of its workers, so of this type.
                let worker = unsafe { Worker::<P>::from_front(front) };
                // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
                let pool = unsafe { pool.cast::<Self>().as_ref() };
                if KEPT {
                    // SAFETY: the calling thread carries the worker; as it takes tasks, no hook is on the stack.
                    unsafe { worker.push_own(pool, task, Why::Woken) };
                } else {
                    // SAFETY: as above.
                    unsafe { worker.push_in(pool, task, Why::Woken) };
                }
            }
            // SAFETY: by contract.
            None => unsafe { Self::push_any(pool, task, Why::Woken) },
        });
    }

    /// # Safety
    ///
    /// As [`FrontOps::push`].
    unsafe fn push_visitor(front: &Front, task: TaskRef, why: Why) {
        // SAFETY: by contract the front is of this table: it was made by `visitor`, whose pool is alive.
        let pool = unsafe { front.pool.cast::<Self>().as_ref() };
        pool.push_from_outside(task, if why == Why::Spawned { Why::Injected } else { why });
    }

    /// # Safety
    ///
    /// As [`FrontOps::driver`].
    unsafe fn driver_of_visitor(front: &Front) -> io::Result<Arc<Driver>> {
        // SAFETY: by contract the front is of this table: it was made by `visitor`, whose pool is alive.
        unsafe { front.pool.cast::<Self>().as_ref() }.driver()
    }

    /// # Safety
    ///
    /// As [`FrontOps::keep`].
    pub(super) unsafe fn keep(front: &Front) -> Arc<dyn AnyPool> {
        // SAFETY: by contract the front is of a table of this type, and its pool is alive.
        let pool = unsafe { front.pool.cast::<Self>().as_ref() };
        match pool.this.upgrade() {
            Some(pool) => pool,
            None => unreachable!("the pool is alive"),
        }
    }

    /// # Safety
    ///
    /// As [`PoolVtable::dropped`].
    unsafe fn dropped(pool: NonNull<PoolHeader>, task: TaskRef) {
        // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
        let pool = unsafe { pool.cast::<Self>().as_ref() };
        pool.outside.add_shared(Count::Dropped, 1);
        pool.lost.push(task);
        // Somebody has to end it; the caller may be deep inside the policy.
        pool.idle.wake_one();
    }

    /// # Safety
    ///
    /// As [`PoolVtable::unregister`].
    unsafe fn unregister(pool: NonNull<PoolHeader>, task: NonNull<Header>, place: usize) {
        // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
        let pool = unsafe { pool.cast::<Self>().as_ref() };
        if Register::is_admitted(place) {
            pool.card.give_back();
        }
        pool.register.strike(place, task);
    }
}

impl<P: Policy> AnyPool for Pool<P> {
    fn header(&self) -> NonNull<PoolHeader> {
        // From `self`, not from its first field: the pointer is good for the whole pool.
        NonNull::from(self).cast()
    }

    fn visitor(&self) -> Front {
        // SAFETY: by contract, which is the same.
        let spawned = |front: &Front, task| unsafe { Self::push_visitor(front, task, Why::Spawned) };
        Front::new(self.header(), Self::VISITOR, spawned, None)
    }

    fn is_forked(&self) -> bool {
        process::generation() != self.generation
    }

    fn is_closing(&self) -> bool {
        self.life.is_closing()
    }

    fn close(&self) {
        Self::close(self);
    }

    fn card(&self) -> &Card {
        &self.card
    }

    fn admit(&self, task: &mut Pending) {
        self.register.enter_admitted(task);
    }

    fn counters(&self) -> PoolCounters {
        let (asked, stand_ins) = self.workers.split_at(self.asked);
        let snapshots = |workers: &[CachePadded<Worker<P>>]| {
            let snapshot = |worker: &CachePadded<Worker<P>>| worker.counters().snapshot();
            workers.iter().map(snapshot).collect()
        };
        PoolCounters {
            workers: snapshots(asked),
            stand_ins: snapshots(stand_ins),
            outside: self.outside.snapshot(),
        }
    }

    fn idle(&self) -> (usize, usize) {
        self.idle.snapshot()
    }

    fn crew(&self) -> &Crew {
        &self.crew
    }

    fn driver(&self) -> io::Result<Arc<Driver>> {
        Self::driver(self)
    }

    fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    fn watch(self: Arc<Self>) {
        let any: Arc<dyn AnyPool> = Arc::clone(&self) as _;
        self.watch_workers(&any);
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn front(&self, worker: usize) -> NonNull<Front> {
        // From the whole worker: the pointer is good for all of it.
        NonNull::from(&*self.workers[worker]).cast()
    }

    fn market(&self) -> &Market {
        &self.market
    }

    fn wake_for_offer(&self) {
        self.wake(Wake::Any, None);
    }

    fn wake_worker(&self, worker: usize) {
        if worker < self.asked {
            self.wake(Wake::Worker(WorkerId(worker)), None);
        } else {
            // Stand-ins sleep in the poller and nowhere else, and are not among the sleepers that pushes wake.
            self.engine.call_lookout(worker);
        }
    }

    fn stacks(&self) -> &Arc<Stacks> {
        &self.stacks
    }

    fn errand(&self, worker: usize, task: TaskRef) {
        if self.is_forked() {
            return task.abandon(Abandon::Forked);
        }
        let visit = self.life.visit();
        if !visit.is_open() {
            return task.abandon(Abandon::Shutdown);
        }
        self.workers[worker].errands.push(task);
        self.wake_worker(worker);
    }

    fn live(&self, seat: &Seat) {
        live(self, seat);
    }

    unsafe fn leave_from(&self, seat: &Seat) {
        // SAFETY: by contract; seats are of the pool that made their home.
        unsafe { leave(self, seat) };
    }
}
