//! [`Pool`]: a handle to one of a runtime's pools.

use super::pool_error::EnterError;
use crate::pool::current::with_current;
use crate::pool::transfer_request::Destination;

use super::places::PlacePermits;
use super::spawn_error::SpawnError;
use crate::execution::stack_context::{self, StackContext};
use crate::observe::PoolCounters;
use crate::pool::draining::refuses_caller;
use crate::pool::dyn_pool::DynPool;
use crate::pool::info::{PoolInfo, SettingSources};
use crate::pool::size::ResizeError;
use crate::sync::Claiming;
use crate::sync::error::TryAcquireError;
use crate::threads::thread_set::Threads;
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::pool::PoolHeader;

/// A handle to a pool of workers under one policy, one of those of a [`Runtime`](crate::Runtime). Clones
/// refer to the same pool, and are equal by `==`.
///
/// A handle keeps the pool's memory, but does not keep the pool open. The pool closes with its runtime, and
/// then each function here returns an error that says so.
///
/// ```
/// use warpweft::Runtime;
/// let runtime = Runtime::builder().workers(1).then("index", Runtime::builder().workers(1)).build()?;
/// let index = runtime.pool("index")?.clone();
/// assert_eq!(index.run(|| 6 * 7)?, 42);
/// drop(runtime);
/// assert_eq!(index.run(|| 6 * 7), Err(warpweft::EnterError::Closed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pool(Arc<dyn DynPool>);

impl Pool {
    pub(crate) fn new(pool: Arc<dyn DynPool>) -> Self {
        Self(pool)
    }

    pub(crate) fn any(&self) -> &Arc<dyn DynPool> {
        &self.0
    }

    pub(crate) fn header(&self) -> NonNull<PoolHeader> {
        self.0.header()
    }

    pub(super) fn info(&self) -> &PoolInfo {
        &self.0.core().info
    }

    /// Returns where the settings come from that the environment may replace.
    pub(crate) fn sources(&self) -> SettingSources {
        self.info().sources
    }

    fn places(&self) -> Option<&PlacePermits> {
        let places: &dyn Any = &**self.info().places.as_ref()?;
        places.downcast_ref()
    }

    /// # Errors
    ///
    /// The pool takes no tasks.
    pub(crate) fn check(&self) -> Result<(), SpawnError> {
        if self.0.is_in_forked_child() {
            Err(SpawnError::Forked)
        } else if self.0.is_closing() || refuses_caller(self.0.core()) {
            Err(SpawnError::Closed)
        } else {
            Ok(())
        }
    }

    /// # Panics
    ///
    /// If there is no worker with that number.
    #[track_caller]
    pub(crate) fn assert_has(&self, worker: usize) {
        // A worker that rests runs what is pinned to it.
        let workers = self.0.core().size.started();
        assert!(
            worker < workers,
            "there is no worker {worker} in pool `{}`: its workers are 0 to {}{}",
            self.name(),
            workers - 1,
            if worker < self.max_workers() {
                ", and more when it is resized"
            } else {
                ""
            }
        );
    }

    /// Returns the pool of the calling task, or the one that the calling thread has entered. `None` outside
    /// of any.
    #[must_use]
    pub fn current() -> Option<Self> {
        with_current(|worker_ref| worker_ref.map(|worker_ref| Self(worker_ref.keep())))
    }

    /// Returns the number of the worker that the calling thread carries, in the pool that
    /// [`current`](Self::current) returns. It is below [`worker_slots`](Self::worker_slots), and no other
    /// thread has the same number at the same time.
    ///
    /// It may change with each wait, fork or yield: see [the rules](crate::Runtime#workers-and-threads). It
    /// is `None` if the thread carries no worker or has only entered a pool: outside of tasks, in
    /// [`blocking`](crate::blocking()), in a closure of [`spawn_blocking`](crate::spawn_blocking), and in
    /// [`Runtime::block_on`](crate::Runtime::block_on).
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use warpweft::{Pool, Runtime, par_for};
    ///
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// // No thread adds to a sum while another one does.
    /// let sums: Vec<_> = (0..runtime.worker_slots()).map(|_| AtomicU64::new(0)).collect();
    /// runtime.install(|_| {
    ///     par_for(0..1000, 10, |n| {
    ///         let worker = Pool::current_worker();
    ///         let worker = worker.unwrap_or_else(|| unreachable!("a piece of a loop has a worker"));
    ///         let sum = &sums[worker];
    ///         sum.store(sum.load(Ordering::Relaxed) + n as u64, Ordering::Relaxed);
    ///     });
    /// })?;
    /// assert_eq!(sums.iter().map(|sum| sum.load(Ordering::Relaxed)).sum::<u64>(), 499_500);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn current_worker() -> Option<usize> {
        with_current(|worker_ref| worker_ref.and_then(|worker_ref| worker_ref.worker))
    }

    /// Returns true if the caller runs on a worker of this pool.
    #[must_use]
    pub fn is_here(&self) -> bool {
        stack_context::here()
            .and_then(StackContext::worker_ref)
            .is_some_and(|worker_ref| worker_ref.pool == self.header())
    }

    /// Takes what a task needs to enter the pool, without waiting.
    pub(crate) fn try_permit(&self) -> Result<Destination, SpawnError> {
        self.check()?;
        if let Some(places) = self.places() {
            let permit = places.free.try_acquire(1).map_err(|error| match error {
                TryAcquireError::Closed => SpawnError::Closed,
                TryAcquireError::NoPermits => SpawnError::Full {
                    pool: self.info().name.clone(),
                    capacity: places.capacity,
                },
            })?;
            permit.forget();
        }
        Ok(Destination::new(Arc::clone(&self.0), self.places().is_some()))
    }

    /// Returns the wait for a permit, if the pool is bounded.
    ///
    /// # Errors
    ///
    /// The caller may have a permit of a pool from which it may not wait for this one.
    pub(crate) fn claim(&self) -> Result<Option<Claiming<'_>>, EnterError> {
        let Some(places) = self.places() else {
            return Ok(None);
        };
        if let Some(here) = stack_context::here() {
            let from = here.fibers().pool();
            if !from.core().info.may_wait_for(self.info()) && here.may_have_place() {
                let to = self.info().name.clone();
                return Err(if from.header() == self.header() {
                    EnterError::OwnPool { pool: to }
                } else {
                    let from = from.core().info.name.clone();
                    EnterError::OutOfOrder { from, to }
                });
            }
        }
        Ok(Some(places.free.claim(1)))
    }

    /// Returns the error of one who found no permit in time.
    pub(crate) fn full(&self) -> EnterError {
        EnterError::Full {
            pool: self.name().to_owned(),
            capacity: self.capacity().unwrap_or(usize::MAX),
        }
    }

    /// Returns the pool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info().name
    }

    /// Returns the policy, as text.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.info().policy
    }

    /// Returns the number of workers, which [`resize`](Self::resize) changes. Compensating workers are extra:
    /// see [`worker_slots`](Self::worker_slots).
    #[must_use]
    pub fn workers(&self) -> usize {
        // Not those that are about to start: a program may pin a task to each that it sees.
        self.0.core().size.with_threads()
    }

    /// Returns the largest number of workers that the pool may be [resized](Self::resize) to.
    #[must_use]
    pub fn max_workers(&self) -> usize {
        self.info().workers
    }

    /// Changes the number of workers while the pool runs, and returns what it was. From now on the pool does
    /// not [follow](crate::Builder::follow_cpus) the machine.
    ///
    /// It does not wait. A worker that is one too many finishes its task, gives its queue to the others, and
    /// rests; it is the one with the highest number. Nothing is lost. Fibers that have started on its thread
    /// continue there, with one of the remaining workers. A task that is pinned to it wakes it, and it rests
    /// again afterwards. A worker that is added begins at once.
    ///
    /// Any thread may call it, tasks of the pool included. Costs a lock, and some 10 to 50 µs for each worker
    /// that comes or goes. A worker that has never had a thread gets one before this returns, which takes
    /// longer: thousands of them take seconds.
    ///
    /// # Errors
    ///
    /// The number is 0 or above [`max_workers`](Self::max_workers), the pool has ended, this is a forked
    /// child, or the system gives no thread for a new worker.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpweft::{ResizeError, Runtime};
    /// let runtime = Runtime::builder().workers(2).max_workers(4).build()?;
    /// assert_eq!(runtime.first().resize(4)?, 2);
    /// assert_eq!(runtime.first().workers(), 4);
    /// assert!(matches!(runtime.first().resize(5), Err(ResizeError::AboveMaximum { most: 4, .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resize(&self, workers: usize) -> Result<usize, ResizeError> {
        self.0.resize(workers)
    }

    /// Returns the largest number of workers at a time: [`max_workers`](Self::max_workers), and the
    /// compensating workers of [`Builder::stuck_after`](crate::Builder::stuck_after).
    /// [`current_worker`](Self::current_worker) is always less.
    #[must_use]
    pub fn worker_slots(&self) -> usize {
        self.info().slots
    }

    /// Returns how many tasks from elsewhere the pool admits at a time, or `None` if it is not bounded.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.places().map(|places| places.capacity)
    }

    /// Returns the number of free permits, if the pool is bounded.
    #[must_use]
    pub fn free_places(&self) -> Option<usize> {
        self.places().map(|places| places.free.free())
    }

    /// Returns what the workers and external threads have counted so far. Costs O(workers), and does not slow
    /// them.
    #[must_use]
    pub fn counters(&self) -> PoolCounters {
        self.0.counters()
    }

    /// Returns the number of threads and what they do.
    #[must_use]
    pub fn threads(&self) -> Threads {
        self.0.core().threads.snapshot()
    }

    /// Returns how often a worker was found stuck in a task for longer than
    /// [`Builder::stuck_after`](crate::Builder::stuck_after). Time in [`expect_long`](crate::expect_long)
    /// does not count.
    #[must_use]
    pub fn stalls(&self) -> usize {
        self.0.core().monitor.stalls()
    }

    /// Returns how many workers search for work and how many sleep at this moment.
    #[must_use]
    pub fn idle_workers(&self) -> (usize, usize) {
        self.0.core().idle.snapshot()
    }

    /// Returns a text about a fault of the pool's policy, with the names of both, or `None` if no fault is
    /// known. A fault closed the pool, or the policy kept tasks beyond the pool's end.
    ///
    /// A hook that panics or returns a task of another pool closes the pool. Its tasks end with
    /// [`JoinError::Shutdown`](crate::JoinError::Shutdown); the task that the hook had may end with
    /// [`JoinError::Dropped`](crate::JoinError::Dropped).
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// assert_eq!(runtime.first().fault(), None);
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.0.core().fault.get().map(String::as_str)
    }

    /// Returns true if the pool is shutting down, or has shut down. It is false while a
    /// [graceful](crate::Runtime::shutdown_gracefully) shutdown waits for the work to end, although spawns
    /// from outside are refused by then.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closing()
    }
}

/// Returns the number of the worker that the calling thread carries: the same as [`Pool::current_worker`].
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// assert_eq!(runtime.spawn_job(warpweft::current_worker).wait().ok(), Some(Some(0)));
/// assert_eq!(warpweft::current_worker(), None);
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[must_use]
pub fn current_worker() -> Option<usize> {
    Pool::current_worker()
}

impl PartialEq for Pool {
    fn eq(&self, other: &Self) -> bool {
        self.header() == other.header()
    }
}

impl Eq for Pool {}

/// The number of workers and the policy are followed by where they come from: the program, an
/// [environment variable](crate::Builder#environment), or the default.
impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.sources();
        f.debug_struct("Pool")
            .field("name", &self.name())
            .field("policy", &format_args!("{} ({})", self.policy(), sources.policy))
            .field(
                "workers",
                &format_args!("{} ({})", self.workers(), sources.workers),
            )
            .field("max_workers", &self.max_workers())
            .field("capacity", &self.capacity())
            .field("closed", &self.is_closed())
            .finish()
    }
}
