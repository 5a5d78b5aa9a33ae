//! Spawning on a runtime. Each function is that of [`TaskBuilder`].

use super::handle::Runtime;
use super::spawn_error::SpawnError;
use super::task_builder::TaskBuilder;
use warpweft_task::JoinHandle;

impl Runtime {
    /// Spawns a future on this runtime's [first pool](Self::first). Dropping the handle detaches the task.
    /// Takes no permit of a bounded pool.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        TaskBuilder::new().on(self).spawn(future)
    }

    /// Spawns a future on this runtime's [first pool](Self::first), unless it is shutting down,
    /// [bounded](crate::Builder::capacity) and full, or [overloaded](crate::Builder::admission).
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; the future was dropped.
    #[track_caller]
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        TaskBuilder::new().on(self).try_spawn(future)
    }

    /// Spawns a closure on this runtime's [first pool](Self::first). Dropping the handle detaches the task.
    /// Takes no permit of a bounded pool.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn_job<T, F>(&self, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        TaskBuilder::new().on(self).spawn_job(job)
    }

    /// Spawns a closure on this runtime's [first pool](Self::first), unless it is shutting down,
    /// [bounded](crate::Builder::capacity) and full, or [overloaded](crate::Builder::admission).
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
        TaskBuilder::new().on(self).try_spawn_job(job)
    }

    /// Spawns a closure without a handle on this runtime's [first pool](Self::first): the cheapest form. If
    /// it is shutting down, the closure is dropped. Takes no permit of a bounded pool.
    #[track_caller]
    pub fn spawn_detached<F>(&self, job: F)
    where
        F: FnOnce() + Send + 'static,
    {
        TaskBuilder::new().on(self).spawn_detached(job);
    }

    /// Spawns a [fiber](crate::fiber) on this runtime's [first pool](Self::first). Dropping the handle
    /// detaches it. Takes no permit of a bounded pool.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown);
    /// if there is no stack for the fiber, [`JoinError::NoStack`](crate::JoinError::NoStack).
    #[track_caller]
    pub fn spawn_fiber<T, F>(&self, body: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        TaskBuilder::new().on(self).spawn_fiber(body)
    }

    /// Spawns a [fiber](crate::fiber) on this runtime's [first pool](Self::first), unless it is shutting
    /// down, [bounded](crate::Builder::capacity) and full, or [overloaded](crate::Builder::admission), or
    /// there is no stack.
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
        TaskBuilder::new().on(self).try_spawn_fiber(body)
    }

    /// Spawns a future that is not `Send` on this runtime's [first pool](Self::first): see the free
    /// [`spawn_local`](crate::spawn_local). Takes no permit of a bounded pool.
    #[track_caller]
    pub fn spawn_local<M, F>(&self, make: M) -> JoinHandle<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        TaskBuilder::new().on(self).spawn_local(make)
    }

    /// Spawns a future that is not `Send` on this runtime's [first pool](Self::first), or fails as
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
        TaskBuilder::new().on(self).try_spawn_local(make)
    }
}
