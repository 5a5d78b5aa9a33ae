//! Waits for sockets, pipes, and any other descriptor; the input and output of the process.
//!
//! Most programs use [`net`](crate::net) and [`time`](crate::time). [`Async`] is for any other descriptor.
//! [`stdin`], [`stdout`] and [`stderr`] are the streams of the process, and [`Lines`] makes lines of what a
//! reader reads. [`Io`] chooses which threads block in the system's poller: the workers, or a separate
//! thread.
//!
//! Errors of the system that name what they concern have no [`raw_os_error`](std::io::Error::raw_os_error):
//! [`os_error`] finds their number.
//!
//! An operation that is ready 128 times within one poll is pending once, so that time limits and
//! cancellations around a future that never has to wait are looked at. The same holds for channels.
//!
//! An attempt that succeeds costs a load and its system call. One that would block also costs a
//! compare-and-swap and a lock, and no further system call.

mod answering_thread;
#[cfg(all(unix, feature = "process"))]
pub(crate) mod both;
pub(crate) mod handle;
pub(crate) mod lines;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod named;
pub(crate) mod run_blocking;
pub(crate) mod stdin;
pub(crate) mod stdout;

#[cfg(warpweft_shuttle)]
#[doc(hidden)]
pub mod model;

pub use crate::driver::Io;
pub use crate::driver::progress::{Progress, ProgressNotifier, Rest};
pub use handle::Async;
pub use lines::Lines;
pub use named::os_error;
pub use stdin::{Stdin, stdin};
pub use stdout::{Stderr, Stdout, stderr, stdout};
