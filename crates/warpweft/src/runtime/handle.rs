//! [`Runtime`]: the handle of its owner.

use super::living::Living;
use super::pool::Pool;
use super::pool_error::UnknownPool;
use super::stats::Stats;
use crate::coroutine::stack::Fibers;
use crate::driver::core::Driver;
use crate::driver::progress::{Progress, ProgressNotifier};
use crate::observe::PoolCounters;
use crate::pool::dyn_pool::DynPool;
use crate::pool::size::ResizeError;
use crate::threads::thread_set::Threads;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A pool of workers under one policy, or several pools, [one behind the other](crate::compose).
///
/// If there are several pools, statements about the runtime's workers, tasks and counters mean the first one.
///
/// # Workers and threads
///
/// A *worker* is the right to run tasks, with a queue. A *thread* is the system's. A thread runs tasks while
/// it carries a worker. These rules hold for each pool:
///
/// - **Numbers.** Workers have the numbers 0 to [`max_workers`](Pool::max_workers) − 1. Those from
///   [`workers`](Pool::workers) on rest, until the pool is [larger](Pool::resize). Compensating workers,
///   which replace stuck ones ([`Builder::stuck_after`](crate::Builder::stuck_after)), have the next numbers,
///   below [`worker_slots`](Pool::worker_slots). With `stuck_after(None)` there are none, and `worker_slots`
///   equals `max_workers`.
/// - **One at a time.** At most one thread carries a worker, and a thread carries at most one worker. So at
///   most `worker_slots` threads run the pool's tasks at the same time, and each sees a different number in
///   [`Pool::current_worker`].
/// - **For how long.** A closure keeps its number until it waits, forks, yields or ends. A future keeps it
///   until its poll returns. After a wait the number may differ, and a future may be on another thread.
///   During the wait other tasks run under the old number. So an array with an entry for each slot needs no
///   lock if no entry is used across a wait.
/// - **Without a worker.** Closures of [`spawn_blocking`](Runtime::spawn_blocking) and
///   [`blocking`](crate::blocking()) run without a worker, unless the latter had to
///   [keep it](crate::Threads::kept). So do futures in [`block_on`](Runtime::block_on), and the rest of a
///   closure on a runtime that shuts down. They see no number, and do not count among the `worker_slots`.
/// - **Threads.** A worker moves to another thread with each wait of a closure that does not await. So over
///   time a pool of 2 workers runs closures on many threads. At any time it has
///   [`Threads::all`](crate::Threads::all) of them: at most `worker_slots`, one for each frame that waits or
///   is in `blocking`, one for each thread whose fibers wait, and spares. Two spares stay, and one for each
///   worker that rests; further ones end after 0.1 s. A new thread is started only if there is no spare.
///   [`Builder::max_threads`](crate::Builder::max_threads) limits [`Threads::all`](crate::Threads::all).
/// - **Further threads** are those of `spawn_blocking`, at most
///   [`max_blocking_threads`](crate::Builder::max_blocking_threads); the monitor, which looks for stuck
///   workers, unless `stuck_after(None)`; and a poller with [`Io::Thread`](crate::Io::Thread).
///
/// Several runtimes may exist in a process; they share nothing. **Dropping a runtime shuts it down**, and
/// waits without a time limit for closures that run: see [`shutdown`](Runtime::shutdown). In a child made by
/// `fork()` it has no workers, and a task that forked ends the child when it returns: see [the
/// crate](crate#fork).
///
/// ```
/// use warpweft::{Fifo, Runtime};
/// let runtime = Runtime::builder().workers(2).policy(Fifo::new()).build()?;
/// let handle = runtime.spawn_job(|| 6 * 7);
/// assert_eq!(handle.wait().ok(), Some(42));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub struct Runtime {
    /// At least one.
    pools: Vec<Pool>,
    /// The name of each group of silos, and the indices of its pools.
    silos: Vec<(String, Vec<usize>)>,
    /// Present if the environment asks for the figures at the end.
    pub(super) stats: Option<Stats>,
    /// Its end is not waited for when it is dropped.
    pub(super) is_left: bool,
    /// The last field: when it is dropped, the runtime has no share of its pools any more.
    _living: Living,
}

impl Runtime {
    pub(crate) fn new(pools: Vec<Pool>, silos: Vec<(String, Vec<usize>)>) -> Self {
        let living = Living::new(&pools);
        Self {
            pools,
            silos,
            stats: None,
            is_left: false,
            _living: living,
        }
    }

    pub(crate) fn with_stats(mut self, stats: Stats) -> Self {
        self.stats = Some(stats);
        self
    }

    /// Returns the pools, in the order in which they were added.
    #[must_use]
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Returns the first pool, which is the only one unless more were added.
    #[must_use]
    pub fn first(&self) -> &Pool {
        &self.pools[0]
    }

    /// Returns the pool of that name.
    ///
    /// # Errors
    ///
    /// [`UnknownPool`] if there is none of that name. The error lists the names.
    pub fn pool(&self, name: &str) -> Result<&Pool, UnknownPool> {
        let found = self.pools.iter().find(|pool| pool.name() == name);
        found.ok_or_else(|| UnknownPool::new(name, self.pools.iter().map(Pool::name)))
    }

    /// Returns the indices of the silos of that name.
    pub(crate) fn silos_of(&self, name: &str) -> Option<&[usize]> {
        let found = self.silos.iter().find(|(known, _)| known == name);
        found.map(|(_, pools)| &pools[..])
    }

    /// Returns the names of the groups of silos.
    pub(crate) fn silo_names(&self) -> impl Iterator<Item = &str> {
        self.silos.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn any(&self) -> &Arc<dyn DynPool> {
        self.first().any()
    }

    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        self.any().core().driver()
    }

    /// Has the first pool call `progress` where it polls for sockets and timers, until the runtime ends. For
    /// an engine that moves on only when it is called, such as MPI. A pool without one pays a load per look
    /// at the poller.
    ///
    /// # Errors
    ///
    /// The runtime has an engine already, or no poller: it has ended, the system gives none, or this is a
    /// forked child.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use std::task::Waker;
    /// use std::time::Duration;
    /// use warpweft::io::{Progress, Rest};
    ///
    /// /// Counts its turns.
    /// #[derive(Default)]
    /// struct Counter(AtomicUsize);
    ///
    /// impl Progress for Counter {
    ///     fn turn(&self, _: &mut Vec<Waker>) -> Rest {
    ///         self.0.fetch_add(1, Ordering::Relaxed);
    ///         Rest::Within(Duration::from_millis(1))
    ///     }
    /// }
    ///
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// let engine = Arc::new(Counter::default());
    /// runtime.set_progress(Arc::clone(&engine) as _)?;
    /// while engine.0.load(Ordering::Relaxed) < 3 {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_progress(&self, progress: Arc<dyn Progress>) -> io::Result<ProgressNotifier> {
        let driver = self.driver()?;
        driver.set_progress(progress)?;
        Ok(ProgressNotifier::new(&driver))
    }

    /// Returns the numbers of fibers and their stacks. It asks the system about each stack, which takes about
    /// half a microsecond each, so use it for reports and not in loops.
    #[must_use]
    pub fn fibers(&self) -> Fibers {
        self.any().core().stacks.snapshot()
    }

    pub(crate) fn keep(&self) -> Arc<dyn DynPool> {
        Arc::clone(self.any())
    }

    /// Returns the number of workers, which [`resize`](Self::resize) changes. Compensating workers are extra:
    /// see [`worker_slots`](Self::worker_slots).
    #[must_use]
    pub fn workers(&self) -> usize {
        self.first().workers()
    }

    /// Returns the largest number of workers that the first pool may be [resized](Self::resize) to.
    #[must_use]
    pub fn max_workers(&self) -> usize {
        self.first().max_workers()
    }

    /// Changes the number of workers of the first pool while it runs, and returns what it was: see
    /// [`Pool::resize`].
    ///
    /// # Errors
    ///
    /// As [`Pool::resize`].
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(2).build()?;
    /// assert_eq!(runtime.resize(1)?, 2);
    /// assert_eq!(runtime.spawn_job(|| 6 * 7).wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resize(&self, workers: usize) -> Result<usize, ResizeError> {
        self.first().resize(workers)
    }

    /// Returns the largest number of workers at a time, compensating workers included: see
    /// [`Pool::worker_slots`].
    #[must_use]
    pub fn worker_slots(&self) -> usize {
        self.first().worker_slots()
    }

    /// Returns the runtime's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.first().name()
    }

    /// Returns the policy, as text.
    #[must_use]
    pub fn policy(&self) -> &str {
        self.first().policy()
    }

    /// Returns what the workers and external threads have counted so far. Costs O(workers), and does not slow
    /// them.
    #[must_use]
    pub fn counters(&self) -> PoolCounters {
        self.first().counters()
    }

    /// Returns the number of threads and what they do. One carries each worker, a few are spare, and each
    /// frame of a task that waits without awaiting keeps one.
    #[must_use]
    pub fn threads(&self) -> Threads {
        self.first().threads()
    }

    /// Returns how often a worker was in one task for longer than
    /// [`Builder::stuck_after`](crate::Builder::stuck_after), whether it computed or slept. Only one that
    /// sleeps is replaced then. Time in [`expect_long`](crate::expect_long) does not count.
    #[must_use]
    pub fn stalls(&self) -> usize {
        self.first().stalls()
    }

    /// Returns how many workers search for work and how many sleep at this moment.
    #[must_use]
    pub fn idle_workers(&self) -> (usize, usize) {
        self.first().idle_workers()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("pools", &self.pools).finish()
    }
}
