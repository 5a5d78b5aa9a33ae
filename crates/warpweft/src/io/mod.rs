//! Waits for sockets, pipes, and any other descriptor.
//!
//! Most programs use [`net`](crate::net) and [`time`](crate::time). [`Async`] is for any other descriptor.
//! [`Io`] chooses which threads block in the system's poller: the workers, or a separate thread.
//!
//! An attempt that succeeds costs a load and its system call. One that would block also costs a
//! compare-and-swap and a lock, and no further system call.

pub(crate) mod handle;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod named;
pub(crate) mod run_blocking;

#[cfg(warpweft_shuttle)]
#[doc(hidden)]
pub mod model;

pub use crate::driver::Io;
pub use crate::driver::progress::{Progress, ProgressNotifier, Rest};
pub use handle::Async;
