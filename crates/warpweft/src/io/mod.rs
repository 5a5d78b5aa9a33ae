//! Waiting for sockets, pipes, and whatever else has a descriptor.
//!
//! Most programs want [`net`](crate::net) and [`time`](crate::time). [`Async`] is for any other descriptor.
//! [`Io`] says who waits in the system's poller: the workers, or a thread that does nothing else.
//!
//! An attempt that succeeds costs a load and its system call. One that would block costs a compare-and-swap
//! and a lock more, and no further system call.

pub(crate) mod handle;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod run_blocking;

#[cfg(warpweft_shuttle)]
#[doc(hidden)]
pub mod model;

pub use crate::driver::Io;
pub use handle::Async;
