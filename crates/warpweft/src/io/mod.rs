#![doc = include_str!("README.md")]

mod driver;
mod handle;
#[cfg(doctest)]
mod must_not_compile;
mod run_blocking;
mod sleep_deadline;
mod source;
mod sources;

#[cfg(warpweft_shuttle)]
#[doc(hidden)]
pub mod model;
#[cfg(all(
    not(any(warpweft_loom, warpweft_shuttle)),
    any(target_os = "linux", target_os = "android")
))]
#[path = "epoll.rs"]
mod poller;
#[cfg(all(
    not(any(warpweft_loom, warpweft_shuttle)),
    not(any(target_os = "linux", target_os = "android"))
))]
mod poller;
#[cfg(any(warpweft_loom, warpweft_shuttle))]
#[path = "on_thread.rs"]
mod poller;

pub(crate) use driver::{Driver, PollTurn};
pub use handle::Async;
pub(crate) use run_blocking::run_blocking;

use std::io::{Error, ErrorKind};

/// Who waits for sockets and timers: see [`Builder::io`](crate::Builder::io).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Io {
    /// The workers. One that has nothing to do sleeps in the system's poller; busy ones look there now and then: after 100 µs,
    /// or after the task that runs by then.
    ///
    /// The fastest for work that waits. While every worker is in a long computation nobody looks.
    #[default]
    Inline,
    /// A thread of its own. It looks at once, whatever the workers do, at the price of a hand-over between threads per event.
    Thread,
}

pub(crate) fn shut_down() -> Error {
    Error::new(
        ErrorKind::NotConnected,
        "the runtime whose sockets and timers these are has shut down: make new ones in a runtime that lives",
    )
}

pub(crate) fn forked() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the poller stayed in the parent of this forked process: build a runtime and new sockets here",
    )
}
