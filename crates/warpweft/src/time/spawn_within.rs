//! Spawning into a bounded pool, with a limit to the wait for a permit.

use super::timeout::timeout;
use crate::runtime::TaskBuilder;
use crate::runtime::pool::Pool;
use crate::runtime::pool_error::EnterError;
use std::time::Duration;
use warpweft_task::JoinHandle;

impl Pool {
    /// As [`spawn_with_permit`](Self::spawn_with_permit), but waits for a permit no longer than `limit`. With
    /// a limit of zero it takes a free permit, or fails. Does nothing until it is awaited.
    ///
    /// # Errors
    ///
    /// [`EnterError::Full`] if there was no permit in that time; the other errors of `spawn_with_permit`. The
    /// future was dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use warpweft::{EnterError, Runtime};
    /// let runtime = Runtime::builder().name("web").workers(1).capacity(1).build()?;
    /// let pool = runtime.first();
    /// let refused = pool.block_on(async {
    ///     let first = pool.spawn_within(Duration::from_secs(1), std::future::pending::<()>()).await?;
    ///     let second = pool.spawn_within(Duration::from_millis(5), async {}).await;
    ///     drop(first);
    ///     Ok::<_, EnterError>(second.err())
    /// })?;
    /// assert_eq!(refused, Some(EnterError::Full { pool: "web".into(), capacity: 1 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn_within<F>(
        &self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<JoinHandle<F::Output>, EnterError>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        TaskBuilder::new().on_pool(self).spawn_within(limit, future)
    }
}

impl<'a> TaskBuilder<'a> {
    /// As [`spawn_with_permit`](Self::spawn_with_permit), but waits for a permit no longer than `limit`: see
    /// [`Pool::spawn_within`](crate::compose::Pool::spawn_within).
    ///
    /// # Errors
    ///
    /// [`EnterError::Full`] if there was no permit in that time; the other errors of `spawn_with_permit`. The
    /// future was dropped.
    ///
    /// # Panics
    ///
    /// As [`spawn`](crate::spawn).
    pub fn spawn_within<F>(
        self,
        limit: Duration,
        future: F,
    ) -> impl Future<Output = Result<JoinHandle<F::Output>, EnterError>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let pool = self.pool_or_here();
        let spawns = self.spawn_with_permit(future);
        async move { timeout(limit, spawns).await.unwrap_or_else(|_| Err(pool.full())) }
    }
}
