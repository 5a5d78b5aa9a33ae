//! Spawning into a pool. Each function is that of [`TaskBuilder`]; one waits for a permit before.

use super::pool::Pool;
use super::pool_error::EnterError;
use super::spawn_error::SpawnError;
use super::task_builder::TaskBuilder;
use warpweft_task::JoinHandle;

impl Pool {
    /// Spawns a future on this pool. Dropping the handle detaches the task. Takes no permit of a
    /// bounded pool.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        TaskBuilder::new().on_pool(self).spawn(future)
    }

    /// Spawns a future on this pool, unless it is shutting down, [bounded](crate::Builder::capacity) and
    /// full, or [overloaded](crate::Builder::admission).
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; the future was dropped.
    #[track_caller]
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        TaskBuilder::new().on_pool(self).try_spawn(future)
    }

    /// Spawns a closure on this pool. Dropping the handle detaches the task. Takes no permit of a
    /// bounded pool.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn_job<T, F>(&self, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        TaskBuilder::new().on_pool(self).spawn_job(job)
    }

    /// Spawns a closure on this pool, unless it is shutting down, [bounded](crate::Builder::capacity) and
    /// full, or [overloaded](crate::Builder::admission).
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; the closure was dropped.
    #[track_caller]
    pub fn try_spawn_job<T, F>(&self, job: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        TaskBuilder::new().on_pool(self).try_spawn_job(job)
    }

    /// Spawns a closure without a handle on this pool: the cheapest form. If it is shutting down, the closure
    /// is dropped. Takes no permit of a bounded pool.
    #[track_caller]
    pub fn spawn_detached<F>(&self, job: F)
    where
        F: FnOnce() + Send + 'static,
    {
        TaskBuilder::new().on_pool(self).spawn_detached(job);
    }

    /// Spawns a [fiber](crate::fiber) on this pool. Dropping the handle detaches it. Takes no permit of a
    /// bounded pool.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown);
    /// if there is no stack for the fiber, [`JoinError::NoStack`](crate::JoinError::NoStack).
    #[track_caller]
    pub fn spawn_fiber<T, F>(&self, body: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        TaskBuilder::new().on_pool(self).spawn_fiber(body)
    }

    /// Spawns a [fiber](crate::fiber) on this pool, unless it is shutting down,
    /// [bounded](crate::Builder::capacity) and full, or [overloaded](crate::Builder::admission), or there is
    /// no stack.
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
        TaskBuilder::new().on_pool(self).try_spawn_fiber(body)
    }

    /// Spawns a future that is not `Send` on this pool: see the free [`spawn_local`](crate::spawn_local).
    /// Takes no permit of a bounded pool.
    #[track_caller]
    pub fn spawn_local<M, F>(&self, make: M) -> JoinHandle<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        TaskBuilder::new().on_pool(self).spawn_local(make)
    }

    /// Spawns a future that is not `Send` on this pool, or fails as
    /// [`try_spawn_fiber`](Self::try_spawn_fiber) does.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; `make` was dropped.
    #[track_caller]
    pub fn try_spawn_local<M, F>(&self, make: M) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        TaskBuilder::new().on_pool(self).try_spawn_local(make)
    }

    /// Spawns a future on this pool, after waiting for a permit if the pool is bounded. So a producer that is
    /// faster than the pool waits here. Then it asks for [admission](crate::Builder::admission), if the pool
    /// has it. Does nothing until it is awaited. [`TaskBuilder`] has the same with a priority, and for
    /// closures and fibers.
    ///
    /// The producer may be a task of this pool, if it has no permit itself: one that was spawned by
    /// [`spawn`](Self::spawn), such as a loop that accepts connections. To know that costs a look at a part
    /// of the pool's sleeping tasks, some microseconds for each 10,000 of them. For a producer elsewhere it
    /// costs nothing.
    ///
    /// # Errors
    ///
    /// [`EnterError`] if the pool is shutting down or overloaded, or if waiting for a permit there could last
    /// for ever: the caller has a permit of this pool or of a later one. The future was dropped.
    ///
    /// A caller that waits when the pool closes gets [`EnterError::Closed`]. If the pool closes after that,
    /// the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown), as that of any task there.
    ///
    /// ```
    /// use warpweft::{Runtime, stage};
    /// let runtime = stage("parse", Runtime::builder().workers(1).capacity(2)).build()?;
    /// let parse = runtime.first();
    /// runtime.block_on(async {
    ///     for line in 0..100 {
    ///         parse.spawn_with_permit(async move { line }).await?.detach();
    ///     }
    ///     Ok::<_, warpweft::EnterError>(())
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
        TaskBuilder::new().on_pool(self).spawn_with_permit(future)
    }
}
