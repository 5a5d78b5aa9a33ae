//! The runtime, as its owner and everyone outside sees it.

use super::builder::Builder;
use super::context::Visiting;
use super::crew::Threads;
use super::install::{broadcast, install};
use super::pool::AnyPool;
use super::seat;
use super::spawn::{SpawnError, TaskBuilder};
use super::spawn_blocking::{Refused, SpawnBlocking, try_spawn};
use crate::compose::{Pool, Silos, UnknownPool};
use crate::fiber::Fibers;
use crate::fork::ForkCx;
use crate::io::Driver;
use crate::observe::PoolCounters;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use warpweft_task::{JoinHandle, block_on};

/// A pool of workers under one policy; or several pools, [one behind the other](crate::compose).
///
/// Where there are several, what is said of the runtime's workers, tasks and counters is said of the first.
///
/// Several runtimes may exist in a process; they share nothing. **Dropping it shuts it down**: see
/// [`shutdown`](Runtime::shutdown).
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
    pub(super) fn new(pools: Vec<Pool>, silos: Vec<(String, Vec<usize>)>) -> Self {
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

    /// The silos of that name: see [`Builder::silos`](crate::Builder::silos).
    ///
    /// # Errors
    ///
    /// [`UnknownPool`]: it has none of that name. The error says which there are.
    pub fn silos(&self, name: &str) -> Result<Silos, UnknownPool> {
        let found = self.silos.iter().find(|(known, _)| known == name);
        match found {
            Some((_, silos)) => Ok(Silos::new(
                silos.iter().map(|&pool| self.pools[pool].clone()).collect(),
            )),
            None => Err(UnknownPool::new(
                name,
                self.silos.iter().map(|(known, _)| known.as_str()),
            )),
        }
    }

    fn any(&self) -> &Arc<dyn AnyPool> {
        self.first().any()
    }

    pub(super) fn driver(&self) -> io::Result<Arc<Driver>> {
        self.any().driver()
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
        self.any().stacks().snapshot()
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

    pub(super) fn keep(&self) -> Arc<dyn AnyPool> {
        Arc::clone(self.any())
    }

    /// Runs `future` on the calling thread until it has a result. What it spawns, by the free [`spawn`](crate::spawn)
    /// too, runs on this runtime's workers.
    ///
    /// The future itself stays on this thread, so it need not be `Send`, and it may borrow. In a task, of this runtime
    /// or another one, the thread gives its worker away while the future waits: see [`block_on`](crate::block_on).
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let front = self.any().visitor();
        // SAFETY: `self` keeps the pool alive, and the value is dropped at the end of this function.
        let _visiting = unsafe { Visiting::new(&front) };
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
    /// thread waits; a worker that is busy gets to it between two tasks, after 61 of them at most.
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

    /// How many workers it has.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.first().workers()
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
    /// A task that never returns keeps its worker, and this function waits for it; so it does for what
    /// [`spawn_blocking`](Runtime::spawn_blocking) has begun. Closures that wait for a thread are dropped.
    ///
    /// In a child made by `fork()` it does nothing: the workers are the parent's.
    pub fn shutdown(&self) {
        if self.any().is_forked() {
            return;
        }
        // All of them before the first is waited for: its tasks may wait for another one's.
        let pools = || self.pools.iter().map(Pool::any);
        pools().for_each(|pool| pool.close());
        // One of its own threads: a worker's, one that blocks, or the poller's, which calls wakers.
        let own = pools().any(|pool| {
            seat::is_of(pool.header())
                || pool.engine().is_here()
                || pool.monitor().is_here()
                || pool.crew().blocking().is_here()
        });
        if !own {
            for pool in pools() {
                pool.monitor().join();
                pool.crew().join_all();
                pool.engine().join();
            }
        }
    }
}

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

/// The runtime that free functions use outside of any pool: one worker per CPU, the default policy. Built at its first
/// use, unless [`Builder::build_default`] has built another one.
///
/// # Panics
///
/// If it cannot be built; `Builder::build_default` gives the error instead.
#[must_use]
pub fn default_runtime() -> &'static Runtime {
    DEFAULT.get_or_init(|| match Builder::new().name("warpweft").build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("the default runtime: {error}"),
    })
}

/// Makes `runtime` the default one; gives it back if there is one already.
pub(super) fn set_default(runtime: Runtime) -> Result<&'static Runtime, Box<Runtime>> {
    DEFAULT.set(runtime).map_err(Box::new)?;
    Ok(default_runtime())
}
