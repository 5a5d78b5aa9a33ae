//! What free functions find on the calling thread: the worker that it carries, or the pool that it has
//! entered.

use super::dyn_pool::DynPool;
use super::transfer_request::TransferRequest;
use crate::driver::core::Driver;
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::counter::{Gauge, PointerHint};
use warpweft_platform::thread_word;
use warpweft_policy::{Count, Counters, YieldTo};
use warpweft_task::frame::Who;
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Runnable, Told, Why, told_of};

/// What free functions know of the calling thread, whatever the policy. It is the first field of a worker, or
/// belongs to an external thread of a pool.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WorkerRef {
    pub(crate) pool: NonNull<PoolHeader>,
    pub(crate) ops: &'static WorkerVtable,
    /// As [`WorkerVtable::push`] with [`Why::Spawned`]. A worker's is called only while it
    /// [takes](WorkerRef::takes) tasks. It is not in the table, which saves a load per task, and because it
    /// depends on the policy's settings.
    spawned: Cell<unsafe fn(&Self, Runnable)>,
    /// The pool whose tasks the worker takes from its own thread. `None` while a hook of the policy is on
    /// that thread's stack, and always for an external thread. So each spawn or wake asks one question
    /// instead of three.
    takes: Cell<Option<NonNull<PoolHeader>>>,
    /// The number of the worker; `None` for an external thread.
    pub(crate) worker: Option<usize>,
    /// The yield that the running task asked for.
    pub(crate) yielding: Cell<GaveWay>,
    /// The pool in which the running task wants to continue.
    pub(crate) transfer_request: TransferRequest,
    /// The counters of the worker.
    pub(crate) counters: Counters,
    /// The step that the program expects to take long: the number of steps before it, and one. 0 if none.
    expected: Gauge,
    /// 1 while the worker looks for work or sleeps, and runs no code of the program but hooks of its policy.
    /// A hint for the monitor.
    searches: Gauge,
    /// What the worker runs.
    pub(crate) running: CurrentTaskWords,
    /// The priority of what it runs, as a policy word. Kept only where the policy lets it be inherited.
    pub(crate) class: Gauge,
    /// How many waits had lent a priority when the worker looked last.
    pub(crate) waits_seen: Cell<u64>,
}

/// The words of the task that a worker runs, for reports and for the owners of locks. The thread that carries
/// the worker writes them; others read a hint.
#[derive(Debug)]
pub(crate) struct CurrentTaskWords {
    id: Gauge,
    origin: PointerHint,
}

impl CurrentTaskWords {
    const fn nothing() -> Self {
        Self {
            id: Gauge::new(),
            origin: PointerHint::null(),
        }
    }

    #[inline]
    pub(crate) fn set(&self, id: usize, origin: *const ()) {
        self.id.set(id as u64);
        self.origin.set(origin);
    }

    #[inline]
    pub(crate) fn get(&self) -> Who {
        Who {
            id: self.id.get() as usize,
            origin: self.origin.get(),
        }
    }

    /// Returns name, spawn site and kind of the task of the last step. A hint.
    pub(crate) fn told(&self) -> Option<Told> {
        // SAFETY: null, or what `set` was given.
        unsafe { told_of(self.get().origin) }
    }
}

/// Says if a task yielded, and where it wants to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveWay {
    No,
    /// The policy chooses the place.
    AsUsual,
    To(YieldTo),
}

/// What a worker does for its own thread, and an external thread's reference for its thread.
#[derive(Debug)]
pub(crate) struct WorkerVtable {
    /// Puts a runnable task where the policy wants it.
    ///
    /// # Safety
    ///
    /// The reference belongs to a worker of this table, and the calling thread carries that worker.
    pub(crate) push: unsafe fn(&WorkerRef, Runnable, Why),
    /// Returns true if the policy has nothing else ready for this worker.
    /// Contract: as for `push`.
    pub(crate) is_only_ready: unsafe fn(&WorkerRef) -> bool,
    /// Runs one task, if there is one.
    /// Contract: as for `push`.
    pub(crate) step: unsafe fn(&WorkerRef) -> bool,
    /// Returns true if tasks or fibers wait for this worker in its own queues.
    /// Contract: as for `push`.
    pub(crate) has_own: unsafe fn(&WorkerRef) -> bool,
    /// Takes a task from outside or from another worker, and pushes it for this one. Returns true if it did.
    /// Contract: as for `push`.
    pub(crate) fetch: unsafe fn(&WorkerRef) -> bool,
    /// Returns the driver of the pool.
    ///
    /// # Safety
    ///
    /// The reference belongs to this table, and its pool is alive.
    pub(crate) driver: unsafe fn(&WorkerRef) -> io::Result<Arc<Driver>>,
    /// Returns a share of the pool.
    /// Contract: as for `driver`.
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
            spawned: Cell::new(spawned),
            worker,
            takes: Cell::new(worker.map(|_| pool)),
            yielding: Cell::new(GaveWay::No),
            transfer_request: TransferRequest::default(),
            counters: Counters::new(),
            expected: Gauge::new(),
            searches: Gauge::new(),
            running: CurrentTaskWords::nothing(),
            class: Gauge::new(),
            waits_seen: Cell::new(0),
        }
    }

    /// Exchanges the function that pushes a spawned task. The calling thread carries the worker, of which the
    /// function must be.
    pub(crate) fn set_spawned(&self, spawned: unsafe fn(&Self, Runnable)) {
        self.spawned.set(spawned);
    }

    /// Returns the number of the worker's steps of tasks, turns of fibers and stolen forks included.
    pub(crate) fn steps(&self) -> u64 {
        let steps = [Count::Ran, Count::FiberTurns, Count::ForksTaken];
        steps.iter().map(|&count| self.counters.get(count)).sum()
    }

    /// Notes that the worker begins to look for work, or has ended that.
    pub(crate) fn set_searches(&self, searches: bool) {
        self.searches.set(u64::from(searches));
    }

    /// Returns true if the worker looks for work or sleeps. A hint.
    pub(crate) fn searches(&self) -> bool {
        self.searches.get() != 0
    }

    /// Notes that the program expects the present step to take long, or, with `false`, no longer does.
    /// Returns whether it did before.
    pub(crate) fn expect_long(&self, expected: bool) -> bool {
        let steps = self.steps();
        let word = if expected { steps.wrapping_add(1) } else { 0 };
        // One thread writes: the one that carries the worker.
        let before = self.expected.get();
        self.expected.set(word);
        before == steps.wrapping_add(1)
    }

    /// Returns true if the program expects the step after `steps` steps to take long.
    pub(crate) fn expects_long(&self, steps: u64) -> bool {
        self.expected.get() == steps.wrapping_add(1)
    }

    pub(crate) fn push(&self, task: Runnable, why: Why) {
        debug_assert!(is_current(self));
        // SAFETY: worker references are reached through `with_current` only, so the calling thread carries
        // the worker.
        unsafe { (self.ops.push)(self, task, why) };
    }

    /// Returns the pool whose tasks go to this worker: its own, unless a hook of the policy is on the stack.
    /// An external thread takes none.
    #[inline]
    pub(crate) fn takes(&self) -> Option<NonNull<PoolHeader>> {
        self.takes.get()
    }

    /// Returns true if a hook of the policy is on the stack of the thread that carries the worker.
    #[inline]
    pub(crate) fn is_in_policy(&self) -> bool {
        self.worker.is_some() && self.takes().is_none()
    }

    /// Notes that a hook of the policy begins on the thread that carries the worker.
    #[inline]
    pub(crate) fn begin_hook(&self) {
        self.takes.set(None);
    }

    /// Notes that the hook has returned. `pool` is the worker's own.
    #[inline]
    pub(crate) fn end_hook(&self, pool: NonNull<PoolHeader>) {
        debug_assert_eq!(pool, self.pool);
        self.takes.set(Some(pool));
    }

    pub(crate) fn is_only_ready(&self) -> bool {
        debug_assert!(is_current(self));
        // SAFETY: as above.
        unsafe { (self.ops.is_only_ready)(self) }
    }

    pub(crate) fn has_own(&self) -> bool {
        debug_assert!(is_current(self));
        // SAFETY: as above.
        unsafe { (self.ops.has_own)(self) }
    }

    pub(crate) fn fetch(&self) -> bool {
        debug_assert!(is_current(self));
        // SAFETY: as above.
        unsafe { (self.ops.fetch)(self) }
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

    pub(crate) fn keep(&self) -> Arc<dyn DynPool> {
        debug_assert!(is_current(self));
        // SAFETY: worker references are reached through `with_current` only, which finds those of living
        // pools.
        unsafe { (self.ops.keep)(self) }
    }
}

/// What a thread finds that carries no worker and has entered no pool. With it, a spawn or wake asks one
/// question, and need not first ask whether there is a reference.
struct NoWorker(WorkerRef);

// SAFETY: its cells are never written: `with_current`, by which worker references are reached, does not
// return it, and hooks are called for workers only.
unsafe impl Sync for NoWorker {}

impl NoWorker {
    const OPS: WorkerVtable = WorkerVtable {
        push: |_, task, why| task.push(why),
        is_only_ready: |_| false,
        step: |_| false,
        has_own: |_| false,
        fetch: |_| false,
        driver: |_| unreachable!("no worker is asked for a driver"),
        keep: |_| unreachable!("no worker is asked for a pool"),
    };

    /// A reference for a thread that spawns tasks of any pool, by `spawned`.
    const fn new(spawned: unsafe fn(&WorkerRef, Runnable)) -> Self {
        Self(WorkerRef {
            pool: NonNull::dangling(),
            takes: Cell::new(None),
            ops: &Self::OPS,
            spawned: Cell::new(spawned),
            worker: None,
            yielding: Cell::new(GaveWay::No),
            transfer_request: TransferRequest::none(),
            counters: Counters::new(),
            expected: Gauge::new(),
            searches: Gauge::new(),
            running: CurrentTaskWords::nothing(),
            class: Gauge::new(),
            waits_seen: Cell::new(0),
        })
    }
}

/// Spawns from outside of the task's pool.
static NO_WORKER: NoWorker = NoWorker::new(|_, task| task.push(Why::Injected));
/// Spawns from a hook of the policy of the task's pool, whose worker does not take the task.
static HOOK: NoWorker = NoWorker::new(|_, task| task.push(Why::Spawned));

thread_word!(static CURRENT: *const WorkerRef = &raw const NO_WORKER.0);

fn is_current(worker_ref: &WorkerRef) -> bool {
    is(worker_ref)
}

/// Returns true if free functions find `worker_ref` on this thread.
#[inline]
pub(crate) fn is(worker_ref: *const WorkerRef) -> bool {
    std::ptr::eq(CURRENT.with(Cell::get), or_no_worker(worker_ref))
}

/// Returns what free functions find on this thread; null if nothing.
#[inline]
pub(crate) fn get() -> *const WorkerRef {
    let worker_ref = CURRENT.with(Cell::get);
    if std::ptr::eq(worker_ref, &raw const NO_WORKER.0) {
        std::ptr::null()
    } else {
        worker_ref
    }
}

/// Sets what free functions find on this thread. It stays alive until the next call.
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
    // SAFETY: as in `with_current`; or it is `NO_WORKER`, a static.
    let worker_ref = unsafe { &*CURRENT.with(Cell::get) };
    // Not an `Option` that is made first: it would be tested once more.
    if worker_ref.takes() == Some(pool) {
        f(Some(worker_ref))
    } else {
        f(None)
    }
}

/// The reference that spawns a task, and the pool of that task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spawner {
    worker_ref: *const WorkerRef,
    pool: NonNull<PoolHeader>,
}

impl Spawner {
    /// A placeholder that spawns a task of no pool.
    pub(crate) const NO_WORKER: Self = Self {
        worker_ref: &raw const NO_WORKER.0,
        pool: NonNull::dangling(),
    };

    /// Finds the spawner of a task of `pool` on this thread. Without `pool` it is the pool that is found
    /// here, or else the one that `otherwise` returns.
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

    /// Does the same where no worker of this thread takes the task.
    #[inline(never)]
    fn find_otherwise(
        found: *const WorkerRef,
        pool: Option<NonNull<PoolHeader>>,
        otherwise: impl FnOnce() -> NonNull<PoolHeader>,
    ) -> Self {
        let has_worker = !std::ptr::eq(found, &raw const NO_WORKER.0);
        // SAFETY: as in `with_taker`.
        let here = unsafe { &*found };
        let (worker_ref, pool) = match pool {
            Some(pool) if !has_worker || pool != here.pool => (&raw const NO_WORKER.0, pool),
            None if !has_worker => (&raw const NO_WORKER.0, otherwise()),
            // An external thread; or the worker is in its policy.
            _ if here.worker.is_none() => (found, here.pool),
            _ => (&raw const HOOK.0, here.pool),
        };
        Self { worker_ref, pool }
    }

    #[inline]
    pub(crate) fn pool(self) -> NonNull<PoolHeader> {
        self.pool
    }

    /// Pushes the task, which belongs to that pool.
    ///
    /// # Safety
    ///
    /// The spawner was found on this thread, which has done nothing since but make the task.
    #[inline]
    pub(crate) unsafe fn push(self, task: Runnable) {
        // SAFETY: by contract what was found here is still here.
        let worker_ref = unsafe { &*self.worker_ref };
        // SAFETY: the calling thread carries the worker, and no hook is on its stack; or it has entered the
        // pool; or the reference is a static that asks for nothing.
        unsafe { (worker_ref.spawned.get())(worker_ref, task) };
    }
}

/// Calls `f` with the worker that this thread carries, or the pool that it has entered, if any.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&WorkerRef>) -> R) -> R {
    // SAFETY: null; or set by an `EnterGuard` of this thread, whose borrow of the reference is still alive;
    // or of its stack context's pool, which the stack context keeps alive.
    f(unsafe { get().as_ref() })
}
