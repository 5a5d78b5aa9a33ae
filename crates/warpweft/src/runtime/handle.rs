//! The runtime, as its owner and everyone outside sees it.

use super::pool::Pool;
use super::pool_error::UnknownPool;
use crate::coroutine::stack::Fibers;
use crate::driver::core::Driver;
use crate::execution::stack_context;
use crate::observe::PoolCounters;
use crate::pool::dyn_pool::DynPool;
use crate::scheduler::pool::is_in_external_push;
use crate::threads::thread_set::Threads;
use std::fmt;
use std::io;
use std::sync::Arc;

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
///   Compensating workers for stuck workers ([`Builder::stuck_after`](crate::Builder::stuck_after)) have the
///   next ones, below [`worker_slots`](Pool::worker_slots). With `stuck_after(None)` there are none, and
///   `worker_slots` is `workers`.
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
    /// One at least.
    pools: Vec<Pool>,
    /// Which of them are silos, and what these are called together.
    silos: Vec<(String, Vec<usize>)>,
}

impl Runtime {
    pub(crate) fn new(pools: Vec<Pool>, silos: Vec<(String, Vec<usize>)>) -> Self {
        Self { pools, silos }
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

    pub(crate) fn any(&self) -> &Arc<dyn DynPool> {
        self.first().any()
    }

    pub(crate) fn driver(&self) -> io::Result<Arc<Driver>> {
        self.any().core().driver()
    }

    /// Its fibers and their stacks. Asks the system about each stack, some half a microsecond each: for
    /// reports, not for loops.
    #[must_use]
    pub fn fibers(&self) -> Fibers {
        self.any().core().stacks.snapshot()
    }

    pub(crate) fn keep(&self) -> Arc<dyn DynPool> {
        Arc::clone(self.any())
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

    /// How many threads it has, and what they do: one carries each worker, a few are spare, and each frame of
    /// a task that waits without awaiting keeps one.
    #[must_use]
    pub fn threads(&self) -> Threads {
        self.first().threads()
    }

    /// How often a worker was found stuck in a task for longer than
    /// [`Builder::stuck_after`](crate::Builder::stuck_after).
    #[must_use]
    pub fn stalls(&self) -> usize {
        self.first().stalls()
    }

    /// How many workers search for work and how many sleep, at this moment.
    #[must_use]
    pub fn idle_workers(&self) -> (usize, usize) {
        self.first().idle_workers()
    }

    /// Ends the runtime, with all of its pools: spawns are refused, every worker leaves after the step that
    /// it is in, and every task that has not ended is dropped; their joiners get
    /// [`JoinError::Shutdown`](crate::JoinError::Shutdown). Waits for the workers' threads. To let the work
    /// end first, wait for its handles first.
    ///
    /// Called by one of the runtime's own tasks it does not wait, since it would wait for itself: the threads
    /// leave by themselves.
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
