//! Time limits.

use super::sleep::{Sleep, sleep, sleep_until};
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

/// The error of a future that had no result in time. The future was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit was over before there was a result")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}

/// Limits the time of `future` to `limit`, from now.
///
/// The future is polled first: a result that is there counts, even after the limit.
///
/// # Errors
///
/// [`Elapsed`]; the future was dropped where it was.
///
/// ```
/// use std::time::Duration;
/// use warpweft::time::{sleep, timeout};
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     assert_eq!(timeout(Duration::from_secs(60), async { 1 }).await, Ok(1));
///     assert!(timeout(Duration::ZERO, sleep(Duration::from_secs(60))).await.is_err());
/// });
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn timeout<F: Future>(limit: Duration, future: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
    limited(sleep(limit), future)
}

/// Limits the time of `future` to the moment `deadline`; see [`timeout`].
///
/// # Errors
///
/// As [`timeout`].
pub fn timeout_at<F: Future>(
    deadline: Instant,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    limited(sleep_until(deadline), future)
}

async fn limited<F: Future>(mut sleep: Sleep, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        ready!(Pin::new(&mut sleep).poll(cx));
        // It may have been pending because it had used up its budget, and have a result nevertheless.
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Poll::Ready(Err(Elapsed(()))),
        }
    })
    .await
}
