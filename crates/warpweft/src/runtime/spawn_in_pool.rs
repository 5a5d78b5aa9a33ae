//! Spawning into a pool, with a permit if it is bounded.

use super::pool::Pool;
use super::pool_error::EnterError;
use super::spawn::TaskBuilder;
use super::spawn_error::SpawnError;
use crate::observe::tasks;
use crate::pool::transfer_request::Destination;
use std::panic::Location;
use std::sync::Arc;
use warpweft_task::spawn::SpawnInfo;
use warpweft_task::{JoinHandle, Runnable, Why};

impl Pool {
    /// Spawns a future on this pool, from wherever the caller is. Dropping the handle detaches the task.
    /// Takes no permit of a bounded pool.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        TaskBuilder::new().on_pool(self).spawn(future)
    }

    /// Spawns a closure on this pool, from wherever the caller is. Dropping the handle detaches the task.
    /// Takes no permit of a bounded pool.
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

    /// Spawns a future on this pool, with a permit if it is bounded, or fails.
    ///
    /// # Errors
    ///
    /// The pool is shutting down or full; the future was dropped.
    #[track_caller]
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let destination = self.try_ticket()?;
        let site = Location::caller();
        // SAFETY: a runtime's pool ends its tasks before itself.
        Ok(self.place(site, destination, |info| unsafe { tasks::future(future, info) }))
    }

    /// Spawns a closure on this pool, with a permit if it is bounded, or fails.
    ///
    /// # Errors
    ///
    /// The pool is shutting down or full; the closure was dropped.
    #[track_caller]
    pub fn try_spawn_job<T, F>(&self, job: F) -> Result<JoinHandle<T>, SpawnError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let destination = self.try_ticket()?;
        let site = Location::caller();
        // SAFETY: a runtime's pool ends its tasks before itself.
        Ok(self.place(site, destination, |info| unsafe { tasks::job(job, info) }))
    }

    /// Spawns a future on this pool, after waiting for a permit if the pool is bounded. So a producer that is
    /// faster than the pool waits here. Does nothing until it is awaited.
    ///
    /// # Errors
    ///
    /// [`EnterError`] if the pool is shutting down, or if waiting for a permit there could last for ever. The
    /// future was dropped.
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
        let site = Location::caller();
        async move {
            self.check().map_err(EnterError::of)?;
            let destination = match self.claim()? {
                Some(claim) => {
                    claim.await.map_err(|_| EnterError::Closed)?.forget();
                    Destination::new(Arc::clone(self.any()), true)
                }
                None => Destination::new(Arc::clone(self.any()), false),
            };
            // SAFETY: a runtime's pool ends its tasks before itself.
            Ok(self.place(site, destination, |info| unsafe { tasks::future(future, info) }))
        }
    }

    /// Creates the task with `make`, and pushes it with its permit.
    fn place<H>(
        &self,
        location: &'static Location<'static>,
        destination: Destination,
        make: impl FnOnce(SpawnInfo) -> (Runnable, H),
    ) -> H {
        let (task, handle) = make(SpawnInfo {
            pool: self.header(),
            location,
            name: None,
        });
        // SAFETY: `make` has just made it, so no other thread has seen it.
        let task = unsafe { destination.settle_fresh(task) };
        task.push(if self.is_here() {
            Why::Spawned
        } else {
            Why::Injected
        });
        handle
    }
}
