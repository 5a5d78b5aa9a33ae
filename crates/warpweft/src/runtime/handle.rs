//! The runtime, as its owner and everyone outside sees it.

use super::build_error::BuildError;
use super::builder::Builder;
use super::install::{broadcast, install};
use super::pool::Pool;
use super::pool_error::UnknownPool;
use super::spawn::{SpawnError, TaskBuilder};
use super::spawn_blocking::{Refused, SpawnBlocking, try_spawn};
use crate::coroutine::stack::Fibers;
use crate::driver::core::Driver;
use crate::execution::enter_guard::EnterGuard;
use crate::execution::fork_cx::ForkCx;
use crate::execution::stack_context;
use crate::observe::PoolCounters;
use crate::pool::dyn_pool::DynPool;
use crate::scheduler::pool::is_in_external_push;
use crate::threads::thread_set::Threads;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use warpweft_platform::sync::StaticMutex;
use warpweft_task::{JoinHandle, block_on};

/// A pool of workers under one policy; or several pools, [one behind the other](crate::compose).
///
/// Where there are several, what is said of the runtime's workers, tasks and counters is said of the first.
///
/// # Workers and threads
///
/// A *worker* is the right to run tasks, with its own queue; a *thread* is the system's. A thread runs tasks
/// while it carries a worker. What holds for each pool:
///
/// - **Numbers.** The workers that were asked for have the numbers 0 to [`workers`](Pool::workers) − 1.
///   Compensating workers for stuck workers ([`Builder::stuck_after`](crate::Builder::stuck_after)) have the next ones,
///   below [`worker_slots`](Pool::worker_slots). With `stuck_after(None)` there are none, and `worker_slots`
///   is `workers`.
/// - **One at a time.** A worker is carried by one thread at most, and a thread carries one worker at most.
///   So at most `worker_slots` threads run steps of the pool's tasks at the same time, and each sees another
///   number in [`Pool::current_worker`].
/// - **For how long.** A closure keeps its number until it waits, forks, gives way or ends; a future until
///   its poll returns. After a wait it may have another number, and be on another thread if it is a future.
///   Meanwhile other tasks run under the old number. So an array with an entry for each slot needs no lock if
///   no entry is used across a wait.
/// - **Without a worker** run the closures of [`spawn_blocking`](Runtime::spawn_blocking) and
///   [`blocking`](crate::blocking()), unless the latter had to [keep it](crate::Threads::kept), futures in
///   [`block_on`](Runtime::block_on), and what is left of a closure on a runtime that shuts down. They see no
///   number, and are not among the `worker_slots`.
/// - **Threads.** A worker changes its thread with each wait of a closure that does not await, so a pool of 2
///   workers runs closures on many threads in the course of time. At any time it has
///   [`Threads::all`](crate::Threads::all) of them: at most `worker_slots`, one for each frame that waits or
///   is in `blocking`, one for each thread whose fibers wait, and spares. Two spares stay, and others for 0.1
///   s. A new thread is started only where no spare is there.
///   [`Builder::max_threads`](crate::Builder::max_threads) limits [`Threads::all`](crate::Threads::all).
/// - **Beside these** are the threads of `spawn_blocking`, at most
///   [`max_blocking_threads`](crate::Builder::max_blocking_threads); one that looks for stuck workers, unless
///   `stuck_after(None)`; and a poller with [`Io::Thread`](crate::Io::Thread).
///
/// Several runtimes may exist in a process; they share nothing. **Dropping it shuts it down**, and waits
/// without a limit of time for closures that run: see [`shutdown`](Runtime::shutdown). In a child made by
/// `fork()` it has no workers, and a task that forked ends the child when it returns: see [the crate](crate#fork).
///
/// ```
/// use warpweft::{Fifo, Runtime};
/// let runtime = Runtime::builder().workers(2).policy(Fifo::new()).build()?;
/// let handle = runtime.spawn_job(|| 6 * 7);
/// assert_eq!(handle.wait().ok(), Some(42));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub struct Runtime {
    /// One at least.
    pools: Vec<Pool>,
    /// Which of them are silos, and what these are called together.
    silos: Vec<(String, Vec<usize>)>,
}

impl Runtime {
    pub(crate) fn new(pools: Vec<Pool>, silos: Vec<(String, Vec<usize>)>) -> Self {
        Self { pools, silos }
    }

    /// What a runtime may be asked to be.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Its pools, in the order in which they were asked for.
    #[must_use]
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Its first pool: the only one, if it was not asked for more.
    #[must_use]
    pub fn first(&self) -> &Pool {
        &self.pools[0]
    }

    /// The pool of that name.
    ///
    /// # Errors
    ///
    /// [`UnknownPool`]: it has none of that name. The error says which there are.
    pub fn pool(&self, name: &str) -> Result<&Pool, UnknownPool> {
        let found = self.pools.iter().find(|pool| pool.name() == name);
        found.ok_or_else(|| UnknownPool::new(name, self.pools.iter().map(Pool::name)))
    }

    /// Which of its pools are silos of that name.
    pub(crate) fn silos_of(&self, name: &str) -> Option<&[usize]> {
        let found = self.silos.iter().find(|(known, _)| known == name);
        found.map(|(_, pools)| &pools[..])
    }

    /// What its silos are called.
    pub(crate) fn silo_names(&self) -> impl Iterator<Item = &str> {
        self.silos.iter().map(|(name, _)| name.as_str())
    }

    fn any(&self) -> &Arc<dyn DynPool> {
        self.first().any()
    }

    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        self.any().core().driver()
    }

    /// Spawns a future on this runtime. Dropping the handle detaches the task.
    ///
    /// If the runtime is shutting down, the handle gives [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.first().spawn(future)
    }

    /// Spawns a closure on this runtime. Dropping the handle detaches the task.
    ///
    /// If the runtime is shutting down, the handle gives [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn_job<T, F>(&self, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.first().spawn_job(job)
    }

    /// Spawns a [fiber](crate::fiber) on this runtime. Dropping the handle detaches it.
    ///
    /// If the runtime is shutting down, the handle gives [`JoinError::Shutdown`](crate::JoinError::Shutdown); if there is no stack
    /// for the fiber, [`JoinError::NoStack`](crate::JoinError::NoStack).
    #[track_caller]
    pub fn spawn_fiber<T, F>(&self, body: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        TaskBuilder::new().on(self).spawn_fiber(body)
    }

    /// Spawns a [fiber](crate::fiber), unless the runtime is shutting down or has no stack for it.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; `body` was dropped.
    #[track_caller]
    pub fn try_spawn_fiber<T, F>(&self, body: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.first().check()?;
        TaskBuilder::new().on(self).try_spawn_fiber(body)
    }

    /// Its fibers and their stacks. Asks the system about each stack, some half a microsecond each: for reports, not for loops.
    #[must_use]
    pub fn fibers(&self) -> Fibers {
        self.any().core().stacks.snapshot()
    }

    /// Spawns a future, unless the runtime is shutting down, or its pool is [bounded](crate::Builder::capacity) and full.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; the future is dropped.
    #[track_caller]
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.first().try_spawn(future)
    }

    /// Spawns a closure, unless the runtime is shutting down, or its pool is [bounded](crate::Builder::capacity) and full.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; the closure is dropped.
    #[track_caller]
    pub fn try_spawn_job<T, F>(&self, job: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.first().try_spawn_job(job)
    }

    /// Has `closure`, which may block, called on a thread of its own: as the free [`spawn_blocking`](crate::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<T, F>(&self, closure: F) -> SpawnBlocking<F, T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        SpawnBlocking::new(Arc::clone(self.any()), closure)
    }

    /// The same without waiting for admission: as the free [`try_spawn_blocking`](crate::try_spawn_blocking).
    ///
    /// # Errors
    ///
    /// [`Refused`], with the closure.
    #[track_caller]
    pub fn try_spawn_blocking<T, F>(&self, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        try_spawn(self.any(), closure)
    }

    pub(crate) fn keep(&self) -> Arc<dyn DynPool> {
        Arc::clone(self.any())
    }

    /// Runs `future` on the calling thread until it has a result. What it spawns, by the free [`spawn`](crate::spawn)
    /// too, runs on this runtime's workers.
    ///
    /// The future itself stays on this thread, so it need not be `Send`, and it may borrow. In a task, of this runtime
    /// or another one, the thread gives its worker away while the future waits: see [`block_on`](crate::block_on).
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let worker_ref = self.any().external();
        // SAFETY: `self` keeps the pool alive, and the value is dropped at the end of this function.
        let _visiting = unsafe { EnterGuard::new(&worker_ref) };
        block_on(future)
    }

    /// Runs `body` on a worker, with the right to fork there, and gives its result. Called on one of this runtime's own
    /// workers it calls `body` at once; elsewhere the calling thread waits, and if it carries another runtime's worker it
    /// gives that one away meanwhile.
    ///
    /// # Errors
    ///
    /// The runtime is shutting down, or this is a forked child: `body` was dropped.
    ///
    /// # Panics
    ///
    /// If `body` does.
    pub fn install<R: Send>(&self, body: impl FnOnce(ForkCx<'_>) -> R + Send) -> Result<R, SpawnError> {
        self.first().check()?;
        install(self.first(), body)
    }

    /// Calls `body` once on each worker, with the worker's number, and gives the results in that order. The calling
    /// thread waits; a worker that is busy gets to it between two tasks, after 61 of them at most. Compensating workers
    /// for stuck workers are left out: the numbers are those below [`workers`](Self::workers).
    ///
    /// # Errors
    ///
    /// As [`install`](Runtime::install); some workers may have called `body`.
    ///
    /// # Panics
    ///
    /// If one of the calls does, when all have ended.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(3).build()?;
    /// assert_eq!(runtime.broadcast(|worker| 10 * worker)?, [0, 10, 20]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn broadcast<R: Send>(&self, body: impl Fn(usize) -> R + Sync) -> Result<Vec<R>, SpawnError> {
        self.first().check()?;
        broadcast(self.first(), body)
    }

    /// How many workers it has. Compensating workers for stuck workers come on top: see
    /// [`worker_slots`](Self::worker_slots).
    #[must_use]
    pub fn workers(&self) -> usize {
        self.first().workers()
    }

    /// How many workers there may be at a time, compensating workers included: see [`Pool::worker_slots`].
    #[must_use]
    pub fn worker_slots(&self) -> usize {
        self.first().worker_slots()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.first().name()
    }

    /// Its policy, as text.
    #[must_use]
    pub fn policy(&self) -> &str {
        self.first().policy()
    }

    /// What its workers, and those outside, have counted so far. Costs O(workers); slows nobody down.
    #[must_use]
    pub fn counters(&self) -> PoolCounters {
        self.first().counters()
    }

    /// How many threads it has, and what they do: one carries each worker, a few are spare, and each frame of a task
    /// that waits without awaiting keeps one.
    #[must_use]
    pub fn threads(&self) -> Threads {
        self.first().threads()
    }

    /// How often a worker was found stuck in a task for longer than [`Builder::stuck_after`](crate::Builder::stuck_after).
    #[must_use]
    pub fn stalls(&self) -> usize {
        self.first().stalls()
    }

    /// How many workers search for work and how many sleep, at this moment.
    #[must_use]
    pub fn idle_workers(&self) -> (usize, usize) {
        self.first().idle_workers()
    }

    /// Ends the runtime, with all of its pools: spawns are refused, every worker leaves after the step that it is in, and every task that has
    /// not ended is dropped; their joiners get [`JoinError::Shutdown`](crate::JoinError::Shutdown). Waits for the
    /// workers' threads. To let the work end first, wait for its handles first.
    ///
    /// Called by one of the runtime's own tasks it does not wait, since it would wait for itself: the threads leave by
    /// themselves.
    ///
    /// **It waits without a limit of time, and says nothing meanwhile**, for each closure that runs at this
    /// moment:
    ///
    /// - a job, or one poll of a future, that does not return;
    /// - a closure in [`blocking`](crate::blocking()), also one that waits in the system for ever;
    /// - a closure that [`spawn_blocking`](Runtime::spawn_blocking) has begun, also if its handle was
    ///   dropped. Closures that still wait for a thread are dropped.
    ///
    /// No thread can be stopped from outside. So see to it that such closures end: close the socket or
    /// channel that they wait for, tell them by a flag, or let them check in
    /// [`cooperative`](mod@crate::cooperative) code. A program that is about to end, and need not wait, leaks
    /// the runtime (`std::mem::forget(runtime)`) or calls [`std::process::exit`]: its threads end with the
    /// process. So it is with the [default runtime](default_runtime), which is never dropped.
    ///
    /// In a child made by `fork()` it does nothing: the workers are the parent's.
    pub fn shutdown(&self) {
        if self.any().is_forked() {
            return;
        }
        // All of them before the first is waited for: its tasks may wait for another one's.
        let pools = || self.pools.iter().map(Pool::any);
        pools().for_each(|pool| pool.core().close());
        if self.any().is_forked() {
            // Somebody's waker has forked, and this is the child.
            return;
        }
        // One of its own threads: a worker's, one that blocks, or the poller's, which calls wakers.
        // Or one that pushes into one of them from outside, which that pool waits for.
        let own = is_in_external_push()
            || pools().any(|pool| {
                stack_context::is_of(pool.header())
                    || pool.core().driver.is_here()
                    || pool.core().monitor.is_here()
                    || pool.core().threads.blocking().is_here()
            });
        if !own {
            for pool in pools() {
                pool.core().monitor.join();
                pool.core().threads.join_all();
                pool.core().driver.join();
            }
        }
    }
}

/// As [`shutdown`](Runtime::shutdown): it waits for closures that run, for as long as they take.
impl Drop for Runtime {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("pools", &self.pools).finish()
    }
}

static DEFAULT: OnceLock<Runtime> = OnceLock::new();

/// Held while the default runtime is built or set, so that there is one attempt at a time.
static BUILDING: StaticMutex<()> = StaticMutex::new(());

/// The runtime that free functions use outside of any pool: one worker per CPU, the default policy. Built at its first
/// use, unless [`Builder::build_default`] has built another one.
///
/// # Panics
///
/// If it cannot be built, with the reason. Nothing is left of the attempt, and the next call tries again.
/// [`try_default_runtime`] gives the error instead.
#[must_use]
pub fn default_runtime() -> &'static Runtime {
    match try_default_runtime() {
        Ok(runtime) => runtime,
        Err(error) => panic!("the default runtime: {error}"),
    }
}

/// The same as [`default_runtime`], with an error where that panics.
///
/// A program calls this first where it must not panic later: what uses the default runtime implicitly, such
/// as [`spawn`](crate::spawn) or [`join`](crate::join()) outside of any pool, finds it from then on.
///
/// ```
/// let workers = warpweft::try_default_runtime()?.workers();
/// let (a, b) = warpweft::join(|| 1, || 2);
/// assert!(workers >= 1 && a + b == 3);
/// # Ok::<(), warpweft::BuildError>(())
/// ```
///
/// # Errors
///
/// It cannot be built. Nothing is left of the attempt, and the next call tries again.
pub fn try_default_runtime() -> Result<&'static Runtime, BuildError> {
    match DEFAULT.get() {
        Some(runtime) => Ok(runtime),
        None => build_default_runtime(),
    }
}

#[cold]
fn build_default_runtime() -> Result<&'static Runtime, BuildError> {
    BUILDING.with(|()| {
        if let Some(runtime) = DEFAULT.get() {
            return Ok(runtime);
        }
        let runtime = Builder::new().name("warpweft").build()?;
        Ok(DEFAULT.get_or_init(|| runtime))
    })
}

/// Makes `runtime` the default one; gives it back if there is one already.
pub(crate) fn set_default(runtime: Runtime) -> Result<&'static Runtime, Box<Runtime>> {
    BUILDING.with(|()| match DEFAULT.get() {
        Some(_) => Err(Box::new(runtime)),
        None => Ok(DEFAULT.get_or_init(|| runtime)),
    })
}
