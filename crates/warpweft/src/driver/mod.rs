//! The I/O driver of a pool: readiness of sockets, and timers.
//!
//! | file | job |
//! |---|---|
//! | `core` | the driver: one poller, its sources and its timers; who polls takes a turn |
//! | `owner` | when a pool's driver comes to be, who polls, and its end |
//! | `standby` | the thread that sleeps in the poller while all workers compute |
//! | `poller`, `epoll`, `on_thread` | the system's poller: portable, on Linux, and for the model checkers |
//! | `source`, `sources` | what waits for one socket; all sockets |
//! | `sleep_deadline` | until when the thread in the poller sleeps |
//! | `timers`, `wheel` | timers, and the wheel that orders them |
//!
//! The protocol between a poll, a registration and the end is told in [`README.md`](README.md).

pub(crate) mod core;
pub(crate) mod owner;
#[cfg(all(
    not(any(warpweft_loom, warpweft_shuttle)),
    any(target_os = "linux", target_os = "android")
))]
#[path = "epoll.rs"]
pub(crate) mod poller;
#[cfg(all(
    not(any(warpweft_loom, warpweft_shuttle)),
    not(any(target_os = "linux", target_os = "android"))
))]
pub(crate) mod poller;
#[cfg(any(warpweft_loom, warpweft_shuttle))]
#[path = "on_thread.rs"]
pub(crate) mod poller;
pub(crate) mod sleep_deadline;
pub(crate) mod source;
pub(crate) mod sources;
pub(crate) mod standby;
pub(crate) mod timers;
pub(crate) mod wheel;

use std::io::{Error, ErrorKind};

/// Who waits for sockets and timers: see [`Builder::io`](crate::Builder::io).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Io {
    /// The workers. One that has nothing to do sleeps in the system's poller; busy ones look there now and
    /// then: after 100 µs, or after the task that runs by then.
    ///
    /// The fastest for work that waits. While every worker is in a long computation nobody looks.
    #[default]
    Inline,
    /// A thread of its own. It looks at once, whatever the workers do, at the price of a hand-over between
    /// threads per event.
    Thread,
}

/// The error of a socket or timer whose pool has ended.
pub(crate) fn shut_down() -> Error {
    Error::new(
        ErrorKind::NotConnected,
        "the runtime whose sockets and timers these are has shut down: make new ones in a runtime that lives",
    )
}

/// The error of a socket or timer whose poller stayed in the parent of a forked child.
pub(crate) fn forked() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the poller stayed in the parent of this forked process: build a runtime and new sockets here",
    )
}
