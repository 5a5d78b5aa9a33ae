//! Sleeps, intervals, time limits and repeated attempts.
//!
//! ```
//! use std::time::Duration;
//! use warpweft::time::{sleep, timeout};
//!
//! let runtime = warpweft::Runtime::builder().workers(1).build()?;
//! runtime.block_on(async {
//!     sleep(Duration::from_millis(2)).await;
//!     let slow = timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
//!     assert!(slow.is_err());
//! });
//! # Ok::<(), warpweft::BuildError>(())
//! ```
//!
//! A timer belongs to the runtime in whose task it is first polled, or that the thread has entered; outside
//! of any, to the [default runtime](crate::default_runtime). Timers keep the system's monotonic clock to the
//! nanosecond. A sleeper wakes up later: by some 50 to 100 µs if a worker sleeps, and by up to some
//! milliseconds if all workers compute (see [`Io`](crate::Io)). Where the runtime has shut down, or the
//! system has taken its poller away, a wait of another runtime's task goes on with a timer of that one, and a
//! wait on an external thread with one of the default runtime. The waits of what is left of the runtime end
//! early, because the end of the runtime waits for them: closures that block, and destructors.
//!
//! # Deadlines
//!
//! A deadline in the past is over at the first poll, which does not wait. One beyond the end of the clock
//! (`Duration::MAX` from now; the clock ends after 584 years) never comes. None of them panics.
//!
//! # Errors
//!
//! Timers have no error values. The tasks of a runtime that shuts down end with it, also those that wait for
//! a timer. The first poll panics with the reason if there can be no timer:
//!
//! - the system provides no poller, because it is out of descriptors;
//! - this is a child made by `fork()`;
//! - the [default runtime](crate::default_runtime) is needed and cannot be built.

pub(crate) mod interval;
pub(crate) mod limit;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod retry;
pub(crate) mod sleep;
mod spawn_within;
pub(crate) mod timeout;

pub use interval::{Interval, MissedTicks, interval, interval_at};
pub use limit::TimeoutExt;
pub use retry::{GaveUp, Retry, RetryError};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Elapsed, timeout, timeout_at};
