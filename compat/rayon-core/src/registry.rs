//! A pool, and how the functions of this crate find it.
//!
//! ```text
//!   ThreadPool, closures that nobody waits for ──Users──▶ the pool is open ──0 left──▶ its shutdown begins
//!   threads of the pool ───────────────────────Arc──────▶ the registry is there, also meanwhile
//! ```
//!
//! # Invariants
//!
//! - While [`CURRENT`] points at a registry, the thread has a share of it: see [`OnThread`].
//! - `CURRENT` is emptied before a thread's exit handler runs.

use crate::fifo::Fifos;
use crate::global;
use crate::starts::{Phase, Starts};
use std::any::Any;
use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use warpweft::{ForkCx, Pool, Runtime, TaskBuilder};

type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;

/// What happens to the panic of a closure that nobody waits for.
#[derive(Clone, Default)]
pub(crate) struct OnPanic(pub(crate) Option<Arc<PanicHandler>>);

impl OnPanic {
    /// Calls the program's handler. Without one, or if it panics, the process is aborted, as by the original.
    pub(crate) fn handle(&self, panic: Box<dyn Any + Send>) {
        let Some(handler) = &self.0 else {
            abort("a closure that nobody waits for panicked, and its thread pool has no panic handler");
        };
        // Unwind: as above.
        if catch_unwind(AssertUnwindSafe(|| handler(panic))).is_err() {
            abort("the panic handler of a thread pool panicked");
        }
    }
}

thread_local! {
    /// The registry whose thread this is; null on other threads.
    static CURRENT: Cell<*const Registry> = const { Cell::new(ptr::null()) };
}

/// The calling thread belongs to no registry from here on.
pub(crate) fn leave_current() {
    CURRENT.set(ptr::null());
}

/// The calling thread belongs to a registry while it has this, and has a share of it. So tasks of Warpweft
/// may outlive the [`ThreadPool`](crate::ThreadPool): they run until the threads have ended.
pub(crate) struct OnThread {
    before: *const Registry,
    /// `None` if the registry was gone when the thread began: no closure comes any more.
    _registry: Option<Arc<Registry>>,
}

impl OnThread {
    pub(crate) fn enter(registry: &Weak<Registry>) -> Self {
        let registry = registry.upgrade();
        let here = registry.as_ref().map_or(ptr::null(), Arc::as_ptr);
        Self {
            before: CURRENT.replace(here),
            _registry: registry,
        }
    }
}

impl Drop for OnThread {
    fn drop(&mut self) {
        // The share is dropped after this.
        CURRENT.set(self.before);
    }
}

/// A pool of this crate.
pub(crate) struct Registry {
    this: Weak<Self>,
    /// Set before the first closure runs.
    pool: OnceLock<Pool>,
    /// Taken when the pool ends.
    runtime: Mutex<Option<Runtime>>,
    /// What keeps the pool open.
    users: AtomicUsize,
    num_threads: usize,
    on_panic: OnPanic,
    fifos: Fifos<'static>,
    starts: Arc<Starts>,
}

impl Registry {
    pub(crate) fn open(num_threads: usize, on_panic: OnPanic, starts: Arc<Starts>) -> User {
        let registry = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            pool: OnceLock::new(),
            runtime: Mutex::new(None),
            users: AtomicUsize::new(0),
            num_threads,
            on_panic,
            fifos: Fifos::new(num_threads),
            starts,
        });
        registry.use_it()
    }

    /// Keeps the pool open, unless its shutdown has begun.
    pub(crate) fn use_it(&self) -> User {
        match self.this.upgrade() {
            Some(registry) => {
                // Ordering: Relaxed: there is another user, or the shutdown has begun.
                registry.users.fetch_add(1, Ordering::Relaxed);
                User(registry)
            }
            None => unreachable!("a borrower of the registry has a share of it"),
        }
    }

    pub(crate) fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.this)
    }

    pub(crate) fn set_runtime(&self, runtime: Runtime) {
        if self.pool.set(runtime.first().clone()).is_err() {
            unreachable!("a registry is built once");
        }
        *lock(&self.runtime) = Some(runtime);
    }

    pub(crate) fn pool(&self) -> &Pool {
        match self.pool.get() {
            Some(pool) => pool,
            None => unreachable!("closures run when the pool is built"),
        }
    }

    /// Lets the pool start threads, although it was given its own.
    pub(crate) fn let_start(&self) {
        self.starts.next(Phase::Start);
    }

    pub(crate) fn num_threads(&self) -> usize {
        self.num_threads
    }

    pub(crate) fn fifos(&self) -> &Fifos<'static> {
        &self.fifos
    }

    /// Returns true on a thread of this pool.
    pub(crate) fn is_here(&self) -> bool {
        ptr::eq(CURRENT.get(), self) && Pool::current_worker().is_some()
    }

    /// Runs `body` in this pool, and waits for it.
    pub(crate) fn install<R: Send>(&self, body: impl FnOnce(ForkCx<'_>) -> R + Send) -> R {
        match self.pool().install(body) {
            Ok(value) => value,
            Err(error) => panic!("a thread pool cannot run a closure: {error}"),
        }
    }

    pub(crate) fn on_panic(&self) -> &OnPanic {
        &self.on_panic
    }
}

/// Keeps a pool open. When the last one is dropped, the shutdown of the pool begins.
pub(crate) struct User(Arc<Registry>);

impl Deref for User {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.0
    }
}

impl Clone for User {
    fn clone(&self) -> Self {
        self.0.use_it()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // Ordering: AcqRel: what the users have done comes before the end.
        if self.0.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.end();
        }
    }
}

impl Registry {
    /// Begins the shutdown of the pool, once.
    fn end(&self) {
        let Some(runtime) = lock(&self.runtime).take() else {
            return;
        };
        let pool = self.pool();
        // In a job of its own it does not wait for its threads: nor does the drop of a pool in the original.
        // The job shares it, because a pool that has closed drops the job, and must not drop itself there.
        let runtime = Arc::new(Mutex::new(Some(runtime)));
        let shared = Arc::clone(&runtime);
        TaskBuilder::new()
            .on_pool(pool)
            .spawn_detached(move || drop(lock(&shared).take()));
        // A pool that has closed ran no job. It is not waited for either: threads that the program keeps for
        // later may never start.
        if pool.is_closed()
            && let Some(runtime) = lock(&runtime).take()
        {
            let _ended = runtime.shutdown_timeout(Duration::ZERO);
        }
    }
}

fn lock(runtime: &Mutex<Option<Runtime>>) -> MutexGuard<'_, Option<Runtime>> {
    runtime.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process, as the original does with a panic that nobody gets.
pub(crate) fn abort(why: &str) -> ! {
    eprintln!("rayon on Warpweft: {why}; the process is aborted");
    process::abort()
}

/// The pool that a free function uses.
pub(crate) struct Target<'a> {
    pub(crate) pool: &'a Pool,
    /// `None` for a pool of a Warpweft runtime that this crate has not built.
    pub(crate) registry: Option<&'a Registry>,
}

impl<'a> Target<'a> {
    pub(crate) fn of(registry: &'a Registry) -> Self {
        Self {
            pool: registry.pool(),
            registry: Some(registry),
        }
    }

    /// Runs `body` in this pool, and waits for it. If it is none of this crate and closes before that, the
    /// global one runs it.
    pub(crate) fn install<R: Send>(&self, body: impl FnOnce(ForkCx<'_>) -> R + Send) -> R {
        if let Some(registry) = self.registry {
            return registry.install(body);
        }
        let mut body = Some(body);
        let ended = self.pool.install(|cx| body.take().map(|body| body(cx)));
        match (ended, body) {
            (Ok(Some(value)), _) => value,
            (_, Some(body)) => global::get().install(body),
            (Ok(None) | Err(_), None) => unreachable!("it is taken where it runs"),
        }
    }

    /// Returns this pool; the global one if this is none of this crate and has closed. A task may still run
    /// then, and rayon's pools accept what their closures spawn.
    pub(crate) fn open(&self) -> Target<'_> {
        if self.registry.is_none() && self.pool.is_closed() {
            return Target::of(global::get());
        }
        Target { ..*self }
    }

    pub(crate) fn num_threads(&self) -> usize {
        self.registry
            .map_or_else(|| self.pool.worker_slots(), Registry::num_threads)
    }
}

/// Calls `body` with the pool of the calling thread, if it belongs to one.
pub(crate) fn with_current<R>(body: impl FnOnce(Option<Target<'_>>) -> R) -> R {
    // SAFETY: see the module's invariants: this thread has a share, and keeps it below this frame.
    if let Some(registry) = unsafe { CURRENT.get().as_ref() } {
        return body(Some(Target::of(registry)));
    }
    // That of a task, or one that this thread has entered: in `block_on`, or in a closure that blocks. Such a
    // closure may run when its pool has closed.
    let is_usable = |pool: &Pool| !pool.is_closed() || Pool::current_worker().is_some();
    let pool = Pool::current().filter(is_usable);
    body(pool.as_ref().map(|pool| Target { pool, registry: None }))
}
