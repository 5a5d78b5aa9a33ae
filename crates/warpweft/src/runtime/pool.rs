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

mod ending;

pub(crate) use super::any_pool::AnyPool;
use super::current::{WorkerRef, WorkerVtable, with_current, with_taker};
use super::driver_owner::DriverOwner;
use super::forked;
use super::ledger::Ledger;
use super::lifecycle::Lifecycle;
use super::monitor::{Monitor, Watch};
use super::owned_tasks::OwnedTasks;
use super::pool_info::PoolInfo;
use super::stack_context::StackContext;
use super::thread_set::ThreadSet;
use super::worker::Worker;
use super::worker_loop::{leave, run_thread};
use crate::fiber::Stacks;
use crate::fork::OfferBoard;
use crate::idle::Idle;
use crate::io::{Driver, forked};
use crate::observe::PoolCounters;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};
use warpweft_platform::{CachePadded, process, thread_word};
use warpweft_policy::{Clock, Count, Counters, Cx, Policy, Wake, WorkerId};
use warpweft_queue::Locked;
use warpweft_task::pool::{PoolHeader, PoolVtable};
use warpweft_task::{Abandon, Header, Pending, Runnable, TaskRef, Why};

// Whether a push from outside is on the thread's stack, into whatever pool.
thread_word!(static IN_EXTERNAL_PUSH: bool = false);

/// Whether a push from outside is on the calling thread's stack: its pool does not end before that returns.
pub(super) fn is_in_external_push() -> bool {
    IN_EXTERNAL_PUSH.with(Cell::get)
}

/// `repr(C)`: a pointer to the header is a pointer to the pool.
#[repr(C)]
pub(crate) struct Pool<P: Policy> {
    header: PoolHeader,
    this: Weak<Self>,
    /// Dropped by `finish`, once, when nobody can touch it any more.
    shared: UnsafeCell<ManuallyDrop<P::Shared>>,
    /// Those that were asked for, and then the compensating workers of the monitor.
    pub(crate) workers: Box<[CachePadded<Worker<P>>]>,
    /// How many workers were asked for.
    pub(crate) asked: usize,
    pub(crate) info: PoolInfo,
    pub(crate) monitor: Monitor,
    pub(crate) idle: Idle,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) owned_tasks: OwnedTasks,
    thread_set: ThreadSet,
    stacks: Arc<Stacks>,
    pub(crate) driver_owner: DriverOwner,
    pub(crate) offer_board: OfferBoard,
    /// Tasks that the policy dropped. They are cancelled where none of its code is on the stack.
    lost: Locked<Runnable>,
    ledger: Ledger,
    /// What the policy did wrong, if the pool closed for that.
    fault: OnceLock<String>,
    /// Policy words, other than 0, of tasks that ended where no worker was, if the policy watches ends.
    pub(super) ended_detached: Locked<NonZeroUsize>,
    outside: Counters,
    /// What the policy said when it was asked, at the start, whether it is to hear of tasks that wait.
    pub(super) watches_waits: bool,
    /// Of the process that the workers run in.
    generation: u64,
    _listed: process::Listed,
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
    const EXTERNAL: &'static WorkerVtable = &WorkerVtable {
        push: Self::push_external,
        alone: |_| false,
        step: |_| false,
        driver: Self::driver_of_external,
        keep: Self::keep,
    };

    pub(super) fn new(
        shared: P::Shared,
        locals: Vec<P::Local>,
        thread_set: ThreadSet,
        stacks: Stacks,
        driver_owner: DriverOwner,
        info: PoolInfo,
        watch: Watch,
    ) -> Arc<Self> {
        let (count, asked) = (locals.len(), info.workers);
        Arc::new_cyclic(|this: &Weak<Self>| {
            let pool = NonNull::new(this.as_ptr().cast_mut().cast()).unwrap_or_else(|| unreachable!());
            let keeps = P::is_fast_path(&shared, Why::Spawned);
            let worker =
                |(id, local)| CachePadded::new(Worker::new(pool, id, count, id >= asked, keeps, local));
            let vtable = if P::is_fast_path(&shared, Why::Woken) {
                &Self::KEEPS_WOKEN
            } else {
                &Self::VTABLE
            };
            let watches_waits = P::watches_waits(&shared);
            Self {
                watches_waits,
                header: PoolHeader { vtable },
                this: Weak::clone(this),
                shared: UnsafeCell::new(ManuallyDrop::new(shared)),
                workers: locals.into_iter().enumerate().map(worker).collect(),
                asked,
                info,
                monitor: Monitor::new(watch, asked, count),
                idle: Idle::new(asked),
                lifecycle: Lifecycle::new(asked),
                owned_tasks: OwnedTasks::new(count),
                thread_set,
                stacks: Arc::new(stacks),
                driver_owner,
                offer_board: OfferBoard::new(count, asked),
                lost: Locked::new(),
                ledger: Ledger::new(),
                fault: OnceLock::new(),
                ended_detached: Locked::new(),
                outside: Counters::default(),
                generation: process::generation(),
                _listed: process::Listed::new(pool.addr().get()),
            }
        })
    }

    /// What the policy shares between workers. Not to be called once `finish` has begun to drop it.
    #[inline]
    pub(crate) fn shared(&self) -> &P::Shared {
        // SAFETY: nobody has `&mut` before `finish`; workers have left by then, and external threads see that it is closed.
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
    pub(crate) fn push_from_outside(&self, task: Runnable, why: Why) {
        if self.is_forked() {
            return forked::refuse(task, why);
        }
        let mut access = self.lifecycle.access();
        if !access.is_open() {
            return self.end_late(task, access);
        }
        if why == Why::Injected {
            self.outside.add_shared(Count::Injected, 1);
        }
        access.hand_over();
        let task = task.into_task_ref();
        let cx = Cx::from_outside(self.workers.len(), &self.outside, Clock::Machine);
        // Unwind: a policy that panics must not unwind through a waker. The token is dropped on the way, and the
        // pool cancels it when it closes.
        let outer = IN_EXTERNAL_PUSH.with(|inside| inside.replace(true));
        let pushed = catch_unwind(AssertUnwindSafe(|| P::push(self.shared(), None, task, why, &cx)));
        IN_EXTERNAL_PUSH.with(|inside| inside.set(outer));
        match pushed {
            Ok(wake) => self.wake(wake, None),
            Err(_) => self.close_for(&"a hook of its policy panicked"),
        }
    }

    /// Takes a task that the policy has handed out.
    ///
    /// # Panics
    ///
    /// It is a task of another pool, which cancels it; this pool closes.
    #[inline]
    pub(super) fn take(&self, task: TaskRef) -> Runnable {
        if !task.is_of(NonNull::from(self).cast()) {
            self.refuse(task);
        }
        // SAFETY: it is a task of this pool, which its policy has handed out to a worker; the caller counts it.
        unsafe { task.into_runnable() }
    }

    /// Closes the pool because its policy did something wrong. The first fault is remembered.
    #[cold]
    pub(super) fn close_for(&self, fault: &dyn fmt::Display) {
        let _ = self.fault.set(fault.to_string());
        self.close();
    }

    /// The driver of its sockets and timers.
    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        if AnyPool::is_forked(self) {
            return Err(forked());
        }
        self.driver_owner.driver(self.workers.len(), &self.idle)
    }

    /// Ends the tasks whose tokens the policy dropped.
    #[inline]
    pub(crate) fn end_lost(&self) {
        if !self.lost.is_empty() {
            self.end_all_lost();
        }
    }

    /// Begins the end: spawns are refused, workers leave after their present task.
    pub(crate) fn close(&self) {
        self.thread_set.blocking().close();
        // Before the end begins: of the places that it empties none may go to a task that waits, which would move in and end with the pool.
        self.info.close();
        self.lifecycle.close();
        self.monitor.close();
        self.idle.wake_all();
        self.driver_owner.unpark();
    }

    /// A worker's thread is done, or `count` threads never came. The last one ends what has not ended.
    pub(crate) fn leave(&self, count: usize) {
        if self.lifecycle.leave(count) {
            self.finish();
        }
    }

    /// # Safety
    ///
    /// As [`PoolVtable::push`].
    unsafe fn push_any(pool: NonNull<PoolHeader>, task: Runnable, why: Why) {
        with_current(|worker_ref| match worker_ref {
            // Known to be a worker of this type, so that the call is direct.
            // SAFETY: the front is a worker's of the pool whose table this is, and the calling thread carries it.
            Some(worker_ref) if worker_ref.worker.is_some() && worker_ref.pool == pool => unsafe {
                Worker::<P>::push_by_ref(worker_ref, task, why);
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
    unsafe fn woken<const KEPT: bool>(pool: NonNull<PoolHeader>, task: Runnable) {
        with_taker(pool, |worker_ref| match worker_ref {
            Some(worker_ref) => {
                // SAFETY: what takes tasks of the pool whose table this is is one of its workers, so of this type.
                let worker = unsafe { Worker::<P>::from_ref(worker_ref) };
                // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
                let pool = unsafe { pool.cast::<Self>().as_ref() };
                if KEPT {
                    // SAFETY: the calling thread carries the worker; as it takes tasks, no hook is on the stack.
                    unsafe { worker.push_local(pool, task, Why::Woken) };
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
    /// As [`WorkerVtable::push`].
    unsafe fn push_external(worker_ref: &WorkerRef, task: Runnable, why: Why) {
        // SAFETY: by contract the front is of this table: it was made by `external`, whose pool is alive.
        let pool = unsafe { worker_ref.pool.cast::<Self>().as_ref() };
        pool.push_from_outside(task, if why == Why::Spawned { Why::Injected } else { why });
    }

    /// # Safety
    ///
    /// As [`WorkerVtable::driver`].
    unsafe fn driver_of_external(worker_ref: &WorkerRef) -> io::Result<Arc<Driver>> {
        // SAFETY: by contract the front is of this table: it was made by `external`, whose pool is alive.
        unsafe { worker_ref.pool.cast::<Self>().as_ref() }.driver()
    }

    /// # Safety
    ///
    /// As [`WorkerVtable::keep`].
    pub(super) unsafe fn keep(worker_ref: &WorkerRef) -> Arc<dyn AnyPool> {
        // SAFETY: by contract the front is of a table of this type, and its pool is alive.
        let pool = unsafe { worker_ref.pool.cast::<Self>().as_ref() };
        match pool.this.upgrade() {
            Some(pool) => pool,
            None => unreachable!("the pool is alive"),
        }
    }

    /// # Safety
    ///
    /// As [`PoolVtable::dropped`].
    unsafe fn dropped(pool: NonNull<PoolHeader>, task: Runnable) {
        let pool = pool.cast::<Self>();
        // SAFETY: by contract the header belongs to a pool of this table, so of this type, and its memory is there.
        unsafe { pool.as_ref() }.lose(task);
        // SAFETY: by contract the policy was given the token; it is counted once, here.
        unsafe { Self::release_one(pool) };
    }

    /// # Safety
    ///
    /// As [`PoolVtable::unregister`].
    unsafe fn unregister(pool: NonNull<PoolHeader>, task: NonNull<Header>, place: usize) {
        let this = pool.cast::<Self>();
        // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
        let pool = unsafe { this.as_ref() };
        if OwnedTasks::is_admitted(place) && !pool.is_forked() {
            pool.info.give_back();
        }
        if pool.owned_tasks.strike(place, task) {
            // SAFETY: the pool waits for its orphaned shards, and the last task of this one was struck off just now.
            unsafe { Self::release_one(this) };
        }
    }
}

impl<P: Policy> AnyPool for Pool<P> {
    fn header(&self) -> NonNull<PoolHeader> {
        // From `self`, not from its first field: the pointer is good for the whole pool.
        NonNull::from(self).cast()
    }

    fn external(&self) -> WorkerRef {
        // SAFETY: by contract, which is the same.
        let spawned =
            |worker_ref: &WorkerRef, task| unsafe { Self::push_external(worker_ref, task, Why::Spawned) };
        WorkerRef::new(self.header(), Self::EXTERNAL, spawned, None)
    }

    fn is_forked(&self) -> bool {
        process::generation() != self.generation
    }

    fn is_closing(&self) -> bool {
        self.lifecycle.is_closing()
    }

    fn close(&self) {
        Self::close(self);
    }

    fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    fn info(&self) -> &PoolInfo {
        &self.info
    }

    fn admit(&self, task: &mut Pending) {
        self.owned_tasks.enter_admitted(task);
    }

    fn counters(&self) -> PoolCounters {
        let (asked, compensating) = self.workers.split_at(self.asked);
        let snapshots = |workers: &[CachePadded<Worker<P>>]| {
            let snapshot = |worker: &CachePadded<Worker<P>>| worker.counters().snapshot();
            workers.iter().map(snapshot).collect()
        };
        PoolCounters {
            workers: snapshots(asked),
            compensating: snapshots(compensating),
            outside: self.outside.snapshot(),
        }
    }

    fn idle(&self) -> (usize, usize) {
        self.idle.snapshot()
    }

    fn thread_set(&self) -> &ThreadSet {
        &self.thread_set
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

    fn driver_owner(&self) -> &DriverOwner {
        &self.driver_owner
    }

    fn worker_ref(&self, worker: usize) -> NonNull<WorkerRef> {
        // From the whole worker: the pointer is good for all of it.
        NonNull::from(&*self.workers[worker]).cast()
    }

    fn offer_board(&self) -> &OfferBoard {
        &self.offer_board
    }

    fn wake_for_offer(&self) {
        self.wake(Wake::Any, None);
    }

    fn wake_worker(&self, worker: usize) {
        if worker < self.asked {
            self.wake(Wake::Worker(WorkerId(worker)), None);
        } else {
            // Compensating workers sleep in the poller and nowhere else, and are not among the sleepers that pushes wake.
            self.driver_owner.wake_standby(worker);
        }
    }

    fn stacks(&self) -> &Arc<Stacks> {
        &self.stacks
    }

    fn push_pinned(&self, worker: usize, task: Runnable) {
        if self.is_forked() {
            return task.abandon(Abandon::Forked);
        }
        let mut access = self.lifecycle.access();
        if !access.is_open() {
            return self.end_late(task, access);
        }
        access.hand_over();
        self.workers[worker].pinned.push(task.into_task_ref());
        self.wake_worker(worker);
    }

    fn run_thread(&self, context: &StackContext) {
        run_thread(self, context);
    }

    unsafe fn leave_from(&self, context: &StackContext) {
        // SAFETY: by contract; seats are of the pool that made their home.
        unsafe { leave(self, context) };
    }
}
