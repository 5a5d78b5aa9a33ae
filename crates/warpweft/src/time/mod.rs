//! Sleeping, intervals, time limits.
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
//! Timers belong to the runtime in whose task, or visit, they are first polled; outside of any, to the
//! [default runtime](crate::default_runtime). They keep the system's monotonic clock to the nanosecond; who
//! is late is the sleeper's wake-up: some 50 to 100 µs where a worker sleeps, and the length of the tasks
//! that are running where all workers are busy (see [`Io`](crate::Io)).
//!
//! # Deadlines
//!
//! One in the past is over at the first poll, which does not wait. One beyond the end of the clock
//! (`Duration::MAX` from now; the clock ends after 584 years) never comes. Nothing here panics on any of
//! them.
//!
//! # Errors
//!
//! Time has no error values. If the runtime shuts down while someone outside waits for one of its timers,
//! that wait ends early; in its own tasks nobody is left to see it. Where there can be no timer at all,
//! because the system gives no poller (it is out of descriptors), this is a child made by `fork()`, or the
//! [default runtime](crate::default_runtime) is needed and cannot be built, the first poll panics and says
//! so.

pub(crate) mod interval;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod sleep;
pub(crate) mod timeout;

pub use interval::{Interval, MissedTicks, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Elapsed, timeout, timeout_at};
