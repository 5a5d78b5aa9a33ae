//! A pool, and how the functions of this crate find it.
//!
//! # Invariants
//!
//! - While a closure runs on a thread of a [`Registry`]'s pool, the registry lives. Closures without an owner
//!   hold a share of it; for all others a frame waits that borrows it.
//! - So [`CURRENT`] is read in closures only, and is emptied before a thread's exit handler runs.

use crate::fifo::Fifos;
use crate::starts::{Phase, Starts};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
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

/// Notes that the calling thread belongs to that registry, or to none.
pub(crate) fn set_current(registry: *const Registry) {
    CURRENT.set(registry);
}

/// A pool of this crate.
pub(crate) struct Registry {
    this: Weak<Self>,
    /// Set before the first closure runs.
    runtime: OnceLock<Runtime>,
    num_threads: usize,
    on_panic: OnPanic,
    fifos: Fifos<'static>,
    starts: Arc<Starts>,
}

impl Registry {
    pub(crate) fn new(num_threads: usize, on_panic: OnPanic, starts: Arc<Starts>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            runtime: OnceLock::new(),
            num_threads,
            on_panic,
            fifos: Fifos::new(num_threads),
            starts,
        })
    }

    /// Returns a share of the registry.
    pub(crate) fn share(&self) -> Arc<Self> {
        match self.this.upgrade() {
            Some(registry) => registry,
            None => unreachable!("whoever borrows the registry keeps it"),
        }
    }

    pub(crate) fn set_runtime(&self, runtime: Runtime) {
        if self.runtime.set(runtime).is_err() {
            unreachable!("a registry is built once");
        }
    }

    pub(crate) fn pool(&self) -> &Pool {
        match self.runtime.get() {
            Some(runtime) => runtime.first(),
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

impl Drop for Registry {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let pool = runtime.first().clone();
        // In a job of its own it does not wait for its threads: nor does the drop of a pool in the original.
        // The job shares it, because a pool that has closed drops the job, and must not drop itself there.
        let runtime = Arc::new(Mutex::new(Some(runtime)));
        let shared = Arc::clone(&runtime);
        TaskBuilder::new()
            .on_pool(&pool)
            .spawn_detached(move || drop(take(&shared)));
        // A pool that has closed ran no job. It is not waited for either: threads that the program keeps for
        // later may never start.
        if pool.is_closed()
            && let Some(runtime) = take(&runtime)
        {
            let _ended = runtime.shutdown_timeout(Duration::ZERO);
        }
    }
}

fn take(runtime: &Mutex<Option<Runtime>>) -> Option<Runtime> {
    runtime.lock().unwrap_or_else(PoisonError::into_inner).take()
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

    pub(crate) fn num_threads(&self) -> usize {
        self.registry
            .map_or_else(|| self.pool.worker_slots(), Registry::num_threads)
    }
}

/// Calls `body` with the pool of the calling thread, if it belongs to one.
pub(crate) fn with_current<R>(body: impl FnOnce(Option<Target<'_>>) -> R) -> R {
    // SAFETY: see the module's invariants: the registry lives while this closure runs.
    if let Some(registry) = unsafe { CURRENT.get().as_ref() } {
        return body(Some(Target::of(registry)));
    }
    let pool = match Pool::current_worker() {
        Some(_) => Pool::current(),
        None => None,
    };
    body(pool.as_ref().map(|pool| Target { pool, registry: None }))
}
