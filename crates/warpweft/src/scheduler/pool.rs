//! A pool: workers under one policy, and all that they share.
//!
//! ```text
//!                    ┌───────────────────── TypedPool<P> ──────────────────────┐
//!  other threads ───▶│ header (vtable)   policy's Shared   idle   lifecycle    │
//!  wakers, handles   │ worker 0 [Local]  worker 1 [Local]  …  owned tasks lost │
//!                    └─────────────────────────────────────────────────────────┘
//! ```
//!
//! A pool is one type per policy: its loop, pushes and steals are monomorphised. Code that does not know the
//! type uses the header with its table, or an `Arc<dyn DynPool>`. What does not depend on the policy is in
//! its `PoolCore`.

mod ending;
mod quiet;

use super::carrier::{Entered, abandon_thread, run_blocking_thread, run_thread};
use super::worker::Worker;
use super::worker_loop::work;
use crate::driver::core::Driver;
use crate::execution::class::lend_to_awaited;
use crate::execution::forked_child;
use crate::execution::stack_context;
use crate::execution::worker_claim;
use crate::observe::recorder::event::Push;
use crate::observe::recorder::snapshot::Snapshot;
use crate::pool::core::{PoolCore, PoolParts};
use crate::pool::current::{WorkerRef, WorkerVtable, with_current};
use crate::pool::draining::refuses_caller;
use crate::pool::dyn_pool::DynPool;
use crate::pool::owned_tasks::OwnedTasks;
use crate::pool::worker_core::WorkerCore;
use crate::threads::pool_ref::{LeavesPool, PoolRef};
use crate::threads::thread_handle::ThreadHandle;
use std::cell::{Cell, UnsafeCell};
use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use warpweft_platform::panics::discard;
use warpweft_platform::{CachePadded, hook, thread_word};
use warpweft_policy::{Clock, Count, Cx, Policy, WorkerId};
use warpweft_task::pool::{PoolHeader, PoolVtable};
use warpweft_task::{Header, QueueViewer, Runnable, TaskPanic, Why};

// True while a push from outside, into any pool, is on the thread's stack.
thread_word!(static IN_EXTERNAL_PUSH: bool = false);

/// Returns true if a push from outside is on the calling thread's stack. Its pool ends after that push.
pub(crate) fn is_in_external_push() -> bool {
    IN_EXTERNAL_PUSH.with(Cell::get)
}

/// `repr(C)`: a pointer to the core, and to its header, is a pointer to the pool.
#[repr(C)]
pub(crate) struct TypedPool<P: Policy> {
    pub(crate) core: PoolCore,
    pub(super) this: Weak<Self>,
    /// Dropped by `finish`, once, when nothing can touch it any more.
    shared: UnsafeCell<ManuallyDrop<P::Shared>>,
    /// The requested workers, followed by the compensating ones.
    pub(crate) workers: Box<[CachePadded<Worker<P>>]>,
    /// The policy's answer, at the start, to the question whether it watches tasks that wait.
    pub(crate) watches_waits: bool,
}

// SAFETY: `shared` is reached by `&` only, and `P::Shared: Sync`, until `finish` alone has it. The parts of
// one worker are touched by the one thread that carries it (see `Worker`).
unsafe impl<P: Policy> Sync for TypedPool<P> {}
// SAFETY: as above; nothing is tied to the thread that made it.
unsafe impl<P: Policy> Send for TypedPool<P> {}

impl<P: Policy> TypedPool<P> {
    const VTABLE: PoolVtable = PoolVtable {
        push: Self::push_any,
        woken: Self::woken::<false>,
        dropped: Self::dropped,
        panicked: Self::panicked,
        unregister: Self::unregister,
    };
    /// The table of a pool whose policy [keeps](Policy::is_fast_path) woken tasks.
    const KEEPS_WOKEN: PoolVtable = PoolVtable {
        woken: Self::woken::<true>,
        ..Self::VTABLE
    };
    /// The tables of a pool that records pushes.
    const RECORDED: PoolVtable = PoolVtable {
        woken: Self::woken_recorded::<false>,
        ..Self::VTABLE
    };
    const KEEPS_WOKEN_RECORDED: PoolVtable = PoolVtable {
        woken: Self::woken_recorded::<true>,
        ..Self::VTABLE
    };
    const EXTERNAL: &'static WorkerVtable = &WorkerVtable {
        push: Self::push_external,
        is_only_ready: |_| false,
        step: |_| false,
        has_own: |_| false,
        fetch: |_| false,
        driver: Self::driver_of_external,
        keep: Self::keep,
    };

    pub(crate) fn new(shared: P::Shared, locals: Vec<P::Local>, parts: PoolParts) -> Arc<Self> {
        let (count, asked) = (locals.len(), parts.info.workers);
        if P::INHERITS_PRIORITY && parts.info.priorities > 1 {
            lend_to_awaited();
        }
        Arc::new_cyclic(|this: &Weak<Self>| {
            let pool = NonNull::new(this.as_ptr().cast_mut().cast()).unwrap_or_else(|| unreachable!());
            let is_fast = P::is_fast_path(&shared, Why::Spawned);
            let worker =
                |(id, local)| CachePadded::new(Worker::new(pool, id, count, id >= asked, is_fast, local));
            let vtable = Self::table(&shared, false);
            let watches_waits = P::watches_waits(&shared);
            Self {
                core: PoolCore::new(parts, PoolHeader::new(vtable), pool.addr().get()),
                this: Weak::clone(this),
                shared: UnsafeCell::new(ManuallyDrop::new(shared)),
                workers: locals.into_iter().enumerate().map(worker).collect(),
                watches_waits,
            }
        })
    }

    fn table(shared: &P::Shared, recorded: bool) -> &'static PoolVtable {
        match (P::is_fast_path(shared, Why::Woken), recorded) {
            (true, false) => &Self::KEEPS_WOKEN,
            (false, false) => &Self::VTABLE,
            (true, true) => &Self::KEEPS_WOKEN_RECORDED,
            (false, true) => &Self::RECORDED,
        }
    }

    /// Returns the pool without its policy's type.
    pub(super) fn any(&self) -> &(dyn DynPool + 'static) {
        self
    }

    /// Returns what the policy shares between workers. It must not be called once `finish` has begun to drop
    /// it.
    #[inline]
    pub(crate) fn shared(&self) -> &P::Shared {
        // SAFETY: there is no `&mut` before `finish`; workers have left by then, and external threads see
        // that the pool is closed.
        unsafe { &*self.shared.get() }
    }

    /// Pushes a task from a thread that carries none of this pool's workers, or whose worker is inside its
    /// policy.
    pub(crate) fn push_from_outside(&self, task: Runnable, why: Why) {
        if self.core.is_in_forked_child() {
            return forked_child::refuse(task, why);
        }
        let mut access = self.core.lifecycle.access();
        if !access.is_open() {
            return self.any().end_late(task, access);
        }
        if why == Why::Injected {
            if refuses_caller(&self.core) {
                return self.any().end_late(task, access);
            }
            self.core.outside.add_shared(Count::Injected, 1);
            if self.core.recorder.mode().is_on() {
                self.core.recorder.pushed_outside(Push::Injected, &task);
            }
        }
        access.hand_over();
        let task = self.lend(task).into_task_ref();
        let cx = Cx::from_outside(self.workers.len(), &self.core.outside, Clock::Machine)
            .with_size(&self.core.size.policy);
        // Unwind: a policy that panics must not unwind through a waker. The `TaskRef` is dropped on the way,
        // and the pool cancels the task when it closes.
        let push = || P::push(self.shared(), None, task, why, &cx);
        let outer = IN_EXTERNAL_PUSH.with(|inside| inside.replace(true));
        let within = hook::enter(&P::push);
        let pushed = catch_unwind(AssertUnwindSafe(push));
        drop(within);
        IN_EXTERNAL_PUSH.with(|inside| inside.set(outer));
        match pushed {
            Ok(wake) => drop(self.core.wake(wake, None)),
            Err(payload) => {
                discard(payload);
                self.core.close_for(&"a hook of its policy panicked");
            }
        }
    }

    /// Contract: as [`PoolVtable::push`].
    pub(super) unsafe fn push_any(pool: NonNull<PoolHeader>, task: Runnable, why: Why) {
        with_current(|worker_ref| match worker_ref {
            // Known to be a worker of this type, so that the call is direct.
            // SAFETY: the reference belongs to a worker of the pool whose table this is, and the calling
            // thread carries that worker.
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

    /// Contract: as [`WorkerVtable::push`].
    unsafe fn push_external(worker_ref: &WorkerRef, task: Runnable, why: Why) {
        // SAFETY: by contract the reference belongs to this table: `external` made it, and its pool is alive.
        let pool = unsafe { worker_ref.pool.cast::<Self>().as_ref() };
        pool.push_from_outside(task, if why == Why::Spawned { Why::Injected } else { why });
    }

    /// Contract: as [`WorkerVtable::driver`].
    unsafe fn driver_of_external(worker_ref: &WorkerRef) -> io::Result<Arc<Driver>> {
        // SAFETY: by contract the reference belongs to this table: `external` made it, and its pool is alive.
        unsafe { worker_ref.pool.cast::<Self>().as_ref() }.core.driver()
    }

    /// Contract: as [`WorkerVtable::keep`].
    pub(crate) unsafe fn keep(worker_ref: &WorkerRef) -> Arc<dyn DynPool> {
        // SAFETY: by contract the reference belongs to a table of this type, and its pool is alive.
        let pool = unsafe { worker_ref.pool.cast::<Self>().as_ref() };
        match pool.keep() {
            Some(pool) => pool,
            None => unreachable!("the pool is alive"),
        }
    }

    /// Contract: as [`PoolVtable::dropped`].
    unsafe fn dropped(pool: NonNull<PoolHeader>, task: Runnable) {
        let pool = pool.cast::<Self>();
        // SAFETY: by contract the header belongs to a pool of this table, so of this type, and its memory is
        // there.
        unsafe { pool.as_ref() }.core.lose(task);
        // SAFETY: by contract the policy was given the `TaskRef`; it is counted once, here.
        unsafe { Self::release_one(pool) };
    }

    /// Contract: as [`PoolVtable::panicked`].
    unsafe fn panicked(pool: NonNull<PoolHeader>, panic: &TaskPanic) -> bool {
        // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
        unsafe { pool.cast::<Self>().as_ref() }.core.panicked(panic)
    }

    /// Contract: as [`PoolVtable::unregister`].
    unsafe fn unregister(pool: NonNull<PoolHeader>, task: NonNull<Header>, place: usize) {
        let this = pool.cast::<Self>();
        // SAFETY: by contract the header belongs to a live pool of this table, so of this type.
        let pool = unsafe { this.as_ref() };
        if OwnedTasks::is_admitted(place) && !pool.core.is_in_forked_child() {
            pool.core.info.give_back();
        }
        if pool.core.owned_tasks.strike(place, task) {
            // SAFETY: the pool waits for its orphaned shards, and the last task of this one was removed just
            // now.
            unsafe { Self::release_one(this) };
        }
    }
}

impl<P: Policy> PoolRef for TypedPool<P> {
    fn header(&self) -> NonNull<PoolHeader> {
        // From `self`, not from its first field: the pointer is valid for the whole pool.
        NonNull::from(self).cast()
    }

    fn is_in_forked_child(&self) -> bool {
        self.core.is_in_forked_child()
    }

    fn is_closing(&self) -> bool {
        self.core.lifecycle.is_closing()
    }

    fn is_entered(&self) -> bool {
        stack_context::here().is_some()
    }

    fn wake_worker(&self, worker: usize) {
        self.core.wake_worker(worker);
    }

    fn note_fiber_woken(&self, task: usize) {
        self.fiber_woken(task);
    }

    fn send_worker_to(&self, thread: &Arc<ThreadHandle>) {
        worker_claim::send_worker_to(self, thread);
    }

    fn run_thread(self: Arc<Self>, thread: Arc<ThreadHandle>) {
        let pool: Arc<dyn DynPool> = Arc::clone(&self) as _;
        run_thread(&pool, &thread, &|context| work(&*self, context));
    }

    fn enter_thread(self: Arc<Self>, thread: Arc<ThreadHandle>) -> Box<dyn LeavesPool> {
        Box::new(Entered::new(self, thread))
    }

    fn abandon_thread(self: Arc<Self>, thread: &Arc<ThreadHandle>) {
        let pool: Arc<dyn DynPool> = self;
        abandon_thread(&pool, thread);
    }

    fn run_blocking_thread(self: Arc<Self>, number: usize) {
        let pool: Arc<dyn DynPool> = self;
        run_blocking_thread(&*pool, number);
    }

    fn run_monitor(self: Arc<Self>) {
        let pool: Arc<dyn PoolRef> = Arc::clone(&self) as _;
        self.core.monitor.set_here();
        self.any().watch_workers(&pool);
    }

    fn snapshot(&self) -> Snapshot {
        self.core.snapshot()
    }
}

impl<P: Policy> DynPool for TypedPool<P> {
    fn core(&self) -> &PoolCore {
        &self.core
    }

    fn keep(&self) -> Option<Arc<dyn DynPool>> {
        Some(self.this.upgrade()?)
    }

    fn worker(&self, worker: usize) -> &WorkerCore {
        &self.workers[worker].core
    }

    fn queued(&self, worker: usize) -> Option<usize> {
        self.while_open(|shared| P::queued(shared, WorkerId(worker)))
            .flatten()
    }

    fn queued_shared(&self) -> Option<usize> {
        self.while_open(P::queued_shared).flatten()
    }

    fn show_queued(&self, viewer: &mut QueueViewer) {
        self.while_open(|shared| P::show_queued(shared, viewer));
    }

    fn external(&self) -> WorkerRef {
        // SAFETY: only the reference made here calls the function, so it belongs to this table. Its holder
        // keeps the pool alive, by the contract of `WorkerVtable::push`.
        let spawned =
            |external: &WorkerRef, task| unsafe { Self::push_external(external, task, Why::Spawned) };
        WorkerRef::new(self.header(), Self::EXTERNAL, spawned, None)
    }

    fn worker_ref(&self, worker: usize) -> NonNull<WorkerRef> {
        NonNull::from(&*self.workers[worker]).cast()
    }

    fn set_recorded(&self, on: bool) {
        // Not after the end, when what the policy shares may be gone.
        let access = self.core.lifecycle.access();
        if access.is_open() {
            let table = Self::table(self.shared(), on);
            // SAFETY: the tables are of this type.
            unsafe { self.core.header.set_vtable(table) };
        }
    }

    unsafe fn retire_worker(&self, worker: usize) {
        // SAFETY: by contract.
        unsafe { self.workers[worker].retire() };
    }

    unsafe fn drop_shared(&self) {
        // SAFETY: by contract.
        unsafe { self.shared.get().cast::<P::Shared>().drop_in_place() };
    }
}
