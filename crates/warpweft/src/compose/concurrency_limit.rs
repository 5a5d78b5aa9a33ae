//! A limit of concurrent tasks on the workers of a pool.

use crate::execution::block_on::block_on;
use crate::execution::fork_cx::ForkCx;
use crate::execution::token::inherited;
use crate::observe::raw::LIMIT;
use crate::runtime::TaskBuilder;
use crate::runtime::install::assert_may_wait;
use crate::runtime::pool::Pool;
use crate::runtime::pool_error::{ConcurrencyLimitError, EnterError};
use crate::runtime::priority::Priority;
use crate::runtime::spawn_error::SpawnError;
use crate::sync::error::TryAcquireError;
use crate::sync::permit::{OwnedPermit, Permit};
use crate::sync::semaphore::Semaphore;
use crate::time::timeout;
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::clock;
use warpweft_task::JoinHandle;

impl Pool {
    /// Returns a limit that lets `tasks` of its tasks into this pool at a time. See [`ConcurrencyLimit`].
    ///
    /// # Errors
    ///
    /// [`ConcurrencyLimitError`] if `tasks` is 0.
    pub fn concurrency_limit(&self, tasks: usize) -> Result<ConcurrencyLimit, ConcurrencyLimitError> {
        ConcurrencyLimit::new(self.clone(), tasks)
    }
}

/// Lets a limited number of its tasks into a pool at a time. The others wait in the order in which the
/// pool has taken them first: its policy decides that, as for all tasks. It has no threads.
///
/// A task counts from its first step until its end, also while it waits or is in another pool. So a limit
/// bounds what is open at a time, such as connections. Clones share the limit. Waiting tasks use memory, but
/// none of their code has run.
///
/// It spawns as its [pool](Self::pool) does. A call of `install` or of `broadcast` counts as one task.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(4).build()?;
/// let two = runtime.first().concurrency_limit(2)?;
/// let sum: u32 = (0..10).map(|n| two.spawn(async move { n })).map(|task| task.wait().unwrap_or(0)).sum();
/// assert_eq!(sum, 45);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ConcurrencyLimit {
    pool: Pool,
    permits: Arc<Semaphore>,
    limit: usize,
    priority: Option<Priority>,
}

impl ConcurrencyLimit {
    pub(crate) fn new(pool: Pool, limit: usize) -> Result<Self, ConcurrencyLimitError> {
        if limit == 0 {
            return Err(ConcurrencyLimitError);
        }
        // There cannot be more tasks than `MAX_PERMITS`.
        let permits = Arc::new(Semaphore::of(limit.min(Semaphore::MAX_PERMITS), LIMIT));
        Ok(Self {
            pool,
            permits,
            limit,
            priority: None,
        })
    }

    /// Returns the same limit, whose further tasks have that priority. Where they wait
    /// for the limit, they wait in the order in which they have come. A priority of another pool is ignored.
    ///
    /// ```
    /// use warpweft::{Runtime, policy::Negele};
    /// let runtime = Runtime::builder().workers(1).policy(Negele::new()).build()?;
    /// let two = runtime.first().concurrency_limit(2)?;
    /// let urgent = two.with_priority(runtime.priority(0)?);
    /// assert_eq!(urgent.spawn(async { 42 }).wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_priority(&self, priority: Priority) -> Self {
        let mut limit = self.clone();
        limit.priority = Some(priority);
        limit
    }

    #[track_caller]
    fn builder(&self) -> TaskBuilder<'_> {
        let builder = TaskBuilder::new().on_pool(&self.pool);
        match self.priority {
            Some(priority) => builder.priority(priority),
            None => builder,
        }
    }

    /// Takes a permit, if one is free.
    fn try_permit(&self) -> Result<OwnedPermit, SpawnError> {
        self.pool.check()?;
        let permit = self.permits.try_acquire(1).map_err(|error| match error {
            TryAcquireError::Closed => SpawnError::Closed,
            TryAcquireError::NoPermits => SpawnError::AtLimit {
                pool: self.pool.name().to_owned(),
                limit: self.limit,
            },
        })?;
        Ok(permit.into_owned(&self.permits))
    }

    /// Spawns a future, which begins when the limit admits it. Dropping the handle detaches the task.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let permits = Arc::clone(&self.permits);
        self.builder().spawn(async move {
            // The semaphore is never closed, so this is a permit.
            let _permit = permits.acquire(1).await;
            future.await
        })
    }

    /// Spawns a future that is admitted at once, or fails. It also takes a permit if the pool is
    /// [bounded](crate::Builder::capacity).
    ///
    /// # Errors
    ///
    /// [`SpawnError::AtLimit`] if the limit has no permit, [`SpawnError::Full`] if the pool has none, or
    /// another [`SpawnError`]; the future was dropped.
    #[track_caller]
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let permit = self.try_permit()?;
        self.builder().try_spawn(async move {
            // From here on reports say that this task has it, and not the spawner.
            permit.adopt();
            let _permit = permit;
            future.await
        })
    }

    /// Spawns a future after waiting for the permits that it needs: of the limit, and of the pool if that is
    /// [bounded](crate::Builder::capacity). So a producer that is faster than its tasks waits here. Then it
    /// asks for [admission](crate::Builder::admission), if the pool has it. Does nothing until it is
    /// awaited.
    ///
    /// A task of the same limit that calls this needs a second permit. If all permits are with such tasks,
    /// they wait for ever.
    ///
    /// # Errors
    ///
    /// As [`Pool::spawn_with_permit`]; the future was dropped.
    ///
    /// ```
    /// use warpweft::{EnterError, Runtime};
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let two = runtime.first().concurrency_limit(2)?;
    /// runtime.block_on(async {
    ///     for page in 0..100 {
    ///         // Waits here while two tasks run.
    ///         two.spawn_with_permit(async move { page }).await?.detach();
    ///     }
    ///     Ok::<_, EnterError>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn_with_permit<F>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<JoinHandle<F::Output>, EnterError>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.spawn_after_wait(None, future)
    }

    /// As [`spawn_with_permit`](Self::spawn_with_permit), but waits no longer than `time`. With a time of
    /// zero it takes free permits, or fails.
    ///
    /// # Errors
    ///
    /// [`EnterError::AtLimit`] or [`EnterError::Full`] if the limit or the pool had no permit in that time;
    /// the other errors of `spawn_with_permit`. The future was dropped.
    #[track_caller]
    pub fn spawn_within<F>(
        &self,
        time: Duration,
        future: F,
    ) -> impl Future<Output = Result<JoinHandle<F::Output>, EnterError>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.spawn_after_wait(Some(time), future)
    }

    /// Spawns a future after waiting for permits, no longer than `time` if there is one.
    #[track_caller]
    fn spawn_after_wait<F>(
        &self,
        time: Option<Duration>,
        future: F,
    ) -> impl Future<Output = Result<JoinHandle<F::Output>, EnterError>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let (builder, token) = (self.builder(), inherited());
        async move {
            self.pool.check().map_err(EnterError::of)?;
            let (start, acquires) = (clock::now_ns(), self.permits.acquire(1));
            let permit = match time {
                None => acquires.await,
                Some(time) => timeout(time, acquires).await.map_err(|_| EnterError::AtLimit {
                    pool: self.pool.name().to_owned(),
                    limit: self.limit,
                })?,
            };
            // The semaphore is never closed.
            let permit = permit.map_err(|_| EnterError::Closed)?.into_owned(&self.permits);
            let spawns = builder.spawn_with_permit_under(token, async move {
                // From here on reports say that this task has it, and not the spawner.
                permit.adopt();
                let _permit = permit;
                future.await
            });
            match time {
                None => spawns.await,
                Some(time) => timeout(
                    time.saturating_sub(Duration::from_nanos(clock::now_ns() - start)),
                    spawns,
                )
                .await
                .unwrap_or_else(|_| Err(self.pool.full())),
            }
        }
    }

    /// Spawns a closure, which is called when the limit admits it. Dropping the handle detaches the task.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn_job<T, F>(&self, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn(async move { job() })
    }

    /// Spawns a closure that is admitted at once, or fails as [`try_spawn`](Self::try_spawn) does.
    ///
    /// # Errors
    ///
    /// As `try_spawn`; the closure was dropped.
    #[track_caller]
    pub fn try_spawn_job<T, F>(&self, job: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let permit = self.try_permit()?;
        self.builder().try_spawn_job(move || {
            // From here on reports say that this task has it, and not the spawner.
            permit.adopt();
            let _permit = permit;
            job()
        })
    }

    /// Spawns a closure without a handle, which is called when the limit admits it. If the pool is shutting
    /// down, the closure is dropped.
    #[track_caller]
    pub fn spawn_detached<F>(&self, job: F)
    where
        F: FnOnce() + Send + 'static,
    {
        self.spawn_job(job).detach();
    }

    /// Spawns a [fiber](crate::fiber), whose closure is called when the limit admits it. A fiber that waits
    /// for that has a stack already. Dropping the handle detaches it.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown);
    /// if there is no stack for the fiber, [`JoinError::NoStack`](crate::JoinError::NoStack).
    #[track_caller]
    pub fn spawn_fiber<T, F>(&self, body: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let permits = Arc::clone(&self.permits);
        self.builder().spawn_fiber(move || {
            // The semaphore is never closed, so this is a permit.
            let _permit = block_on(permits.acquire(1));
            body()
        })
    }

    /// Spawns a [fiber](crate::fiber) that is admitted at once and has its stack, or fails as
    /// [`try_spawn`](Self::try_spawn) does.
    ///
    /// # Errors
    ///
    /// As `try_spawn`, and [`SpawnError::NoStack`]; `body` was dropped.
    #[track_caller]
    pub fn try_spawn_fiber<T, F>(&self, body: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let permit = self.try_permit()?;
        self.builder().try_spawn_fiber(move || {
            // From here on reports say that this task has it, and not the spawner.
            permit.adopt();
            let _permit = permit;
            body()
        })
    }

    /// Spawns a future that is not `Send`, which is made when the limit admits it: see the free
    /// [`spawn_local`](crate::spawn_local).
    #[track_caller]
    pub fn spawn_local<M, F>(&self, make: M) -> JoinHandle<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        let permits = Arc::clone(&self.permits);
        self.builder().spawn_local(move || async move {
            // The semaphore is never closed, so this is a permit.
            let _permit = permits.acquire(1).await;
            make().await
        })
    }

    /// Spawns a future that is not `Send`, or fails as [`try_spawn_fiber`](Self::try_spawn_fiber) does.
    ///
    /// # Errors
    ///
    /// As `try_spawn_fiber`; `make` was dropped.
    #[track_caller]
    pub fn try_spawn_local<M, F>(&self, make: M) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        let permit = self.try_permit()?;
        self.builder().try_spawn_local(move || async move {
            // From here on reports say that this task has it, and not the spawner.
            permit.adopt();
            let _permit = permit;
            make().await
        })
    }

    /// Takes a permit, for which it may wait, and runs `body` on a worker of the pool: see
    /// [`Pool::install`]. The permit is given back when `body` has returned or panicked.
    ///
    /// The caller waits as in [`block_on`](crate::block_on): a task gives its worker away. A task of the same
    /// limit needs a second permit here. If all permits are with such tasks, they wait for ever.
    ///
    /// # Errors
    ///
    /// As [`Pool::install`], also if the pool shuts down while this waits for a permit.
    ///
    /// # Panics
    ///
    /// If `body` does, or in a hook of a policy, which must not wait.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(2).build()?;
    /// let one = runtime.first().concurrency_limit(1)?;
    /// assert_eq!(one.install(|cx| cx.join(|_| 1, |_| 2))?, (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn install<R: Send>(&self, body: impl FnOnce(ForkCx<'_>) -> R + Send) -> Result<R, SpawnError> {
        let builder = self.builder();
        let _permit = self.wait_for_permit()?;
        builder.install(body)
    }

    /// Takes one permit, for which it may wait, and calls `body` once on each worker of the pool: see
    /// [`Runtime::broadcast`](crate::Runtime::broadcast). However many workers there are, the call counts as
    /// one task. The permit is given back when all calls have ended.
    ///
    /// It waits as [`install`](Self::install) does.
    ///
    /// # Errors
    ///
    /// As `install`; some workers may have called `body`.
    ///
    /// # Panics
    ///
    /// If one of the calls panics, after all have ended, or in a hook of a policy.
    #[track_caller]
    pub fn broadcast<R: Send>(&self, body: impl Fn(usize) -> R + Sync) -> Result<Vec<R>, SpawnError> {
        let builder = self.builder();
        let _permit = self.wait_for_permit()?;
        builder.broadcast(body)
    }

    /// Takes a permit, and waits until one is free.
    fn wait_for_permit(&self) -> Result<Permit<'_>, SpawnError> {
        assert_may_wait();
        self.pool.check()?;
        // The semaphore is never closed.
        block_on(self.permits.acquire(1)).map_err(|_| SpawnError::Closed)
    }

    /// Returns the pool on whose workers the tasks run.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns how many tasks it admits at a time.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns how many more tasks it would admit now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.permits.free()
    }
}
