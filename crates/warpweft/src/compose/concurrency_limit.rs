//! So many tasks at a time, on the workers of a pool.

use crate::runtime::pool::Pool;
use crate::runtime::pool_error::ConcurrencyLimitError;
use crate::sync::semaphore::Semaphore;
use std::sync::Arc;
use warpweft_task::JoinHandle;

impl Pool {
    /// Lets `tasks` of its tasks in at a time, and the others wait. See [`ConcurrencyLimit`].
    ///
    /// # Errors
    ///
    /// [`ConcurrencyLimitError`]: 0 at a time.
    pub fn concurrency_limit(&self, tasks: usize) -> Result<ConcurrencyLimit, ConcurrencyLimitError> {
        ConcurrencyLimit::new(self.clone(), tasks)
    }
}

/// Lets at most so many of its tasks into a pool at a time; the others wait in its line, in the order in
/// which they were spawned. It has no threads of its own.
///
/// A task counts from its first step until its end, also while it waits, and wherever it goes meanwhile: so a
/// view bounds what is open at a time, such as connections. Clones are the same view. The tasks that wait are
/// tasks, too: their memory is there, but nothing of theirs has run.
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
    places: Arc<Semaphore>,
    limit: usize,
}

impl ConcurrencyLimit {
    pub(crate) fn new(pool: Pool, limit: usize) -> Result<Self, ConcurrencyLimitError> {
        if limit == 0 {
            return Err(ConcurrencyLimitError);
        }
        // More tasks than that there cannot be.
        let places = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        Ok(Self { pool, places, limit })
    }

    /// Spawns a future, which begins when it is let in. Dropping the handle detaches the task.
    ///
    /// If the pool is shutting down, the handle gives [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let places = Arc::clone(&self.places);
        self.pool.spawn(async move {
            // It is never closed, so this is a place.
            let _place = places.acquire(1).await;
            future.await
        })
    }

    /// Spawns a closure, which is called when it is let in. Dropping the handle detaches the task.
    ///
    /// If the pool is shutting down, the handle gives [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn_job<T, F>(&self, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn(async move { job() })
    }

    /// The pool on whose workers its tasks run.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// How many it lets in at a time.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many it would let in at once.
    #[must_use]
    pub fn free(&self) -> usize {
        self.places.free()
    }
}
