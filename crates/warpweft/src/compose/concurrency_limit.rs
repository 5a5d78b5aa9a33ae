//! A limit of concurrent tasks on the workers of a pool.

use crate::runtime::pool::Pool;
use crate::runtime::pool_error::ConcurrencyLimitError;
use crate::sync::semaphore::Semaphore;
use std::sync::Arc;
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

/// Lets a limited number of its tasks into a pool at a time. The others wait in the order in which they were
/// spawned. It has no threads.
///
/// A task counts from its first step until its end, also while it waits or is in another pool. So a limit
/// bounds what is open at a time, such as connections. Clones share the limit. Waiting tasks use memory, but
/// none of their code has run.
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
        // There cannot be more tasks than `MAX_PERMITS`.
        let places = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        Ok(Self { pool, places, limit })
    }

    /// Spawns a future, which begins when the limit admits it. Dropping the handle detaches the task.
    ///
    /// If the pool is shutting down, the handle returns [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let places = Arc::clone(&self.places);
        self.pool.spawn(async move {
            // The semaphore is never closed, so this is a permit.
            let _place = places.acquire(1).await;
            future.await
        })
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
        self.places.free()
    }
}
