//! What free functions find on this thread: the worker that it carries, or the pool that it visits.

use super::dyn_pool::DynPool;
use super::transfer_request::TransferRequest;
use crate::driver::core::Driver;
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::thread_word;
use warpweft_policy::{Counters, YieldTo};
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Runnable, Why};

/// What free functions know of the place where they are called, whatever the policy: a worker, whose first
/// field it is, or a external thread of a pool.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WorkerRef {
    pub(crate) pool: NonNull<PoolHeader>,
    pub(crate) ops: &'static WorkerVtable,
    /// As [`WorkerVtable::push`] with [`Why::Spawned`]; a worker's is called only while it
    /// [takes](Front::takes) tasks. Not among the others: one load less for each task; and which it is
    /// depends on the policy's settings.
    spawned: unsafe fn(&Self, Runnable),
    /// The pool whose tasks the worker takes from its own thread. It is the worker's own; nobody's while a
    /// hook of the policy is on that thread's stack; and never a external thread's. One question instead of
    /// three, for each task that is spawned or woken.
    takes: Cell<Option<NonNull<PoolHeader>>>,
    /// The number of the worker; a external thread has none.
    pub(crate) worker: Option<usize>,
    /// Whether the running task gave way of its own accord.
    pub(crate) yielding: Cell<GaveWay>,
    /// Where the running task wants to go on.
    pub(crate) transfer_request: TransferRequest,
    /// Of the worker.
    pub(crate) counters: Counters,
}

/// Whether a task gave way, and where it wants to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveWay {
    No,
    /// Where the policy wants it.
    AsUsual,
    To(YieldTo),
}

/// What a worker can be asked to do by its own thread, and a external thread by its.
#[derive(Debug)]
pub(crate) struct WorkerVtable {
    /// Puts a runnable task where the policy wants it.
    ///
    /// # Safety
    ///
    /// The front is a worker's of this table, and the calling thread carries that worker.
    pub(crate) push: unsafe fn(&WorkerRef, Runnable, Why),
    /// Whether the policy says that nothing else is ready for this worker.
    ///
    /// # Safety
    ///
    /// As for `push`.
    pub(crate) alone: unsafe fn(&WorkerRef) -> bool,
    /// Runs one task, if there is one.
    ///
    /// # Safety
    ///
    /// As for `push`.
    pub(crate) step: unsafe fn(&WorkerRef) -> bool,
    /// The driver of the pool.
    ///
    /// # Safety
    ///
    /// The front is of this table, and its pool is alive.
    pub(crate) driver: unsafe fn(&WorkerRef) -> io::Result<Arc<Driver>>,
    /// The pool, for who wants to keep it.
    ///
    /// # Safety
    ///
    /// As for `driver`.
    pub(crate) keep: unsafe fn(&WorkerRef) -> Arc<dyn DynPool>,
}

impl WorkerRef {
    pub(crate) fn new(
        pool: NonNull<PoolHeader>,
        ops: &'static WorkerVtable,
        spawned: unsafe fn(&Self, Runnable),
        worker: Option<usize>,
    ) -> Self {
        Self {
            pool,
            ops,
            spawned,
            worker,
            takes: Cell::new(worker.map(|_| pool)),
            yielding: Cell::new(GaveWay::No),
            transfer_request: TransferRequest::default(),
            counters: Counters::new(),
        }
    }

    pub(crate) fn push(&self, task: Runnable, why: Why) {
        debug_assert!(is_current(self));
        // SAFETY: worker references are reached through `with_current` only, so the calling thread carries
        // the worker.
        unsafe { (self.ops.push)(self, task, why) };
    }

    /// The pool whose tasks go to this worker: its own, unless a hook of the policy is on the stack. A
    /// external thread takes none.
    #[inline]
    pub(crate) fn takes(&self) -> Option<NonNull<PoolHeader>> {
        self.takes.get()
    }

    /// Whether a hook of the policy is on the stack of the thread that carries the worker.
    #[inline]
    pub(crate) fn is_in_policy(&self) -> bool {
        self.worker.is_some() && self.takes().is_none()
    }

    /// A hook of the policy begins on the thread that carries the worker.
    #[inline]
    pub(crate) fn begin_hook(&self) {
        self.takes.set(None);
    }

    /// It has returned. `pool` is the worker's own.
    #[inline]
    pub(crate) fn end_hook(&self, pool: NonNull<PoolHeader>) {
        debug_assert_eq!(pool, self.pool);
        self.takes.set(Some(pool));
    }

    pub(crate) fn alone(&self) -> bool {
        debug_assert!(is_current(self));
        // SAFETY: as above.
        unsafe { (self.ops.alone)(self) }
    }

    pub(crate) fn step(&self) -> bool {
        debug_assert!(is_current(self));
        // SAFETY: as above.
        unsafe { (self.ops.step)(self) }
    }

    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        debug_assert!(is_current(self));
        // SAFETY: worker references are reached through `with_current` only, which finds those of living
        // pools.
        unsafe { (self.ops.driver)(self) }
    }

    /// The pool.
    pub(crate) fn keep(&self) -> Arc<dyn DynPool> {
        debug_assert!(is_current(self));
        // SAFETY: worker references are reached through `with_current` only, which finds those of pools that
        // are alive.
        unsafe { (self.ops.keep)(self) }
    }
}

/// What is there where no worker is carried and no pool visited: so that who spawns or wakes asks one
/// question, and not first whether there is anything to ask.
struct NoWorker(WorkerRef);

// SAFETY: its cells are never written: `with_current`, by which worker references are reached, does not give
// it to anybody, and hooks are called for workers only.
unsafe impl Sync for NoWorker {}

impl NoWorker {
    const OPS: WorkerVtable = WorkerVtable {
        push: |_, task, why| task.push(why),
        alone: |_| false,
        step: |_| false,
        driver: |_| unreachable!("nobody is asked for a driver"),
        keep: |_| unreachable!("nobody is asked for a pool"),
    };

    /// Of somebody who spawns tasks of whatever pool, and tells it as `spawned` does.
    const fn new(spawned: unsafe fn(&WorkerRef, Runnable)) -> Self {
        Self(WorkerRef {
            pool: NonNull::dangling(),
            takes: Cell::new(None),
            ops: &Self::OPS,
            spawned,
            worker: None,
            yielding: Cell::new(GaveWay::No),
            transfer_request: TransferRequest::none(),
            counters: Counters::new(),
        })
    }
}

/// Spawns from outside of the task's pool.
static NO_WORKER: NoWorker = NoWorker::new(|_, task| task.push(Why::Injected));
/// Spawns from within a hook of the policy of the task's pool, whose worker does not take it.
static HOOK: NoWorker = NoWorker::new(|_, task| task.push(Why::Spawned));

thread_word!(static CURRENT: *const WorkerRef = &raw const NO_WORKER.0);

fn is_current(worker_ref: &WorkerRef) -> bool {
    is(worker_ref)
}

/// Whether that is what free functions find here.
#[inline]
pub(crate) fn is(worker_ref: *const WorkerRef) -> bool {
    std::ptr::eq(CURRENT.with(Cell::get), or_no_worker(worker_ref))
}

/// What free functions find here; null: nothing.
#[inline]
pub(crate) fn get() -> *const WorkerRef {
    let worker_ref = CURRENT.with(Cell::get);
    if std::ptr::eq(worker_ref, &raw const NO_WORKER.0) {
        std::ptr::null()
    } else {
        worker_ref
    }
}

/// Makes it what free functions find here. It stays alive until the next call.
#[inline]
pub(crate) fn set(worker_ref: *const WorkerRef) {
    CURRENT.with(|current| current.set(or_no_worker(worker_ref)));
}

#[inline]
fn or_no_worker(worker_ref: *const WorkerRef) -> *const WorkerRef {
    if worker_ref.is_null() {
        &raw const NO_WORKER.0
    } else {
        worker_ref
    }
}

/// Calls `f` with the worker that this thread carries, if it takes tasks of `pool`.
#[inline]
pub(crate) fn with_taker<R>(pool: NonNull<PoolHeader>, f: impl FnOnce(Option<&WorkerRef>) -> R) -> R {
    // SAFETY: as in `with_current`; or it is `NO_WORKER`, which is there for ever.
    let worker_ref = unsafe { &*CURRENT.with(Cell::get) };
    // Not an `Option` that is made first: it would be asked once more whether it is there.
    if worker_ref.takes() == Some(pool) {
        f(Some(worker_ref))
    } else {
        f(None)
    }
}

/// Who spawns a task, and of which pool it is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spawner {
    worker_ref: *const WorkerRef,
    pool: NonNull<PoolHeader>,
}

impl Spawner {
    /// Nobody who spawns a task of no pool.
    pub(crate) const NO_WORKER: Self = Self {
        worker_ref: &raw const NO_WORKER.0,
        pool: NonNull::dangling(),
    };

    /// Who spawns a task of `pool` here; or of the pool that is found here, or else of the one that
    /// `otherwise` says.
    #[inline]
    pub(crate) fn find(
        pool: Option<NonNull<PoolHeader>>,
        otherwise: impl FnOnce() -> NonNull<PoolHeader>,
    ) -> Self {
        let worker_ref = CURRENT.with(Cell::get);
        // SAFETY: as in `with_taker`.
        match unsafe { &*worker_ref }.takes() {
            Some(takes) if pool.is_none_or(|pool| pool == takes) => Self {
                worker_ref,
                pool: takes,
            },
            _ => Self::find_otherwise(worker_ref, pool, otherwise),
        }
    }

    /// The same where no worker of this thread takes the task.
    #[inline(never)]
    fn find_otherwise(
        found: *const WorkerRef,
        pool: Option<NonNull<PoolHeader>>,
        otherwise: impl FnOnce() -> NonNull<PoolHeader>,
    ) -> Self {
        let somebody = !std::ptr::eq(found, &raw const NO_WORKER.0);
        // SAFETY: as in `with_taker`.
        let here = unsafe { &*found };
        let (worker_ref, pool) = match pool {
            Some(pool) if !somebody || pool != here.pool => (&raw const NO_WORKER.0, pool),
            None if !somebody => (&raw const NO_WORKER.0, otherwise()),
            // A external thread; or the worker is in its policy.
            _ if here.worker.is_none() => (found, here.pool),
            _ => (&raw const HOOK.0, here.pool),
        };
        Self { worker_ref, pool }
    }

    /// Of which pool.
    #[inline]
    pub(crate) fn pool(self) -> NonNull<PoolHeader> {
        self.pool
    }

    /// Pushes the task, which is of that pool.
    ///
    /// # Safety
    ///
    /// It was found on this thread, which has done nothing since but make the task.
    #[inline]
    pub(crate) unsafe fn push(self, task: Runnable) {
        // SAFETY: by contract what was found here is still here.
        let worker_ref = unsafe { &*self.worker_ref };
        // SAFETY: the calling thread carries the worker, and no hook is on its stack; or it visits the pool;
        // or it is nobody's front, which asks for nothing.
        unsafe { (worker_ref.spawned)(worker_ref, task) };
    }
}

/// Calls `f` with the worker that this thread carries, or the pool that it visits, if any.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&WorkerRef>) -> R) -> R {
    // SAFETY: null; or of a visit of this thread, whose borrow of the front is still alive; or of its stack
    // context's pool, which the stack context keeps alive.
    f(unsafe { get().as_ref() })
}
