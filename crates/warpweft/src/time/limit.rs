//! Time limits as methods.

use super::timeout::{Elapsed, timeout, timeout_at};
use std::time::{Duration, Instant};

/// [`timeout`] and [`timeout_at`] as methods of every future.
///
/// ```
/// use std::time::Duration;
/// use warpweft::time::TimeoutExt as _;
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let never = std::future::pending::<()>();
/// assert!(runtime.block_on(never.timeout(Duration::from_millis(1))).is_err());
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub trait TimeoutExt: Future + Sized {
    /// Limits its time to `limit`, from now: see [`timeout`].
    fn timeout(self, limit: Duration) -> impl Future<Output = Result<Self::Output, Elapsed>> {
        timeout(limit, self)
    }

    /// Limits its time to the moment `deadline`: see [`timeout`].
    fn timeout_at(self, deadline: Instant) -> impl Future<Output = Result<Self::Output, Elapsed>> {
        timeout_at(deadline, self)
    }
}

impl<F: Future> TimeoutExt for F {}
