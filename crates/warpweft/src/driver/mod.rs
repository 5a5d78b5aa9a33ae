//! The I/O driver of a pool: readiness of sockets, and timers.
//!
//! | file | job |
//! |---|---|
//! | `core` | the driver: one poller, its sources and its timers; the thread that polls takes a turn |
//! | `owner` | when a pool's driver is made, which thread polls, and its end |
//! | `standby` | the thread that sleeps in the poller while all workers compute |
//! | `poller`, `epoll`, `model_poller` | the system's poller: portable, on Linux, and for checkers and simulator |
//! | `pollable` | what the poller watches: descriptors on Unix, sockets on Windows |
//! | `source`, `sources` | what waits for one socket; all sockets |
//! | `sleep_deadline` | until when the thread in the poller sleeps |
//! | `progress` | an engine that moves on only when it is called, beside the poller |
//! | `timers`, `wheel` | timers, and the wheel that orders them |
//!
//! See [`README.md`](README.md) for which thread polls, who fires timers, and what each event costs.

pub(crate) mod core;
pub(crate) mod owner;
pub(crate) mod pollable;
#[cfg_attr(any(warpweft_loom, warpweft_shuttle, warpweft_sim), path = "model_poller.rs")]
#[cfg_attr(
    all(
        not(any(warpweft_loom, warpweft_shuttle, warpweft_sim, warpweft_polling)),
        any(target_os = "linux", target_os = "android")
    ),
    path = "epoll.rs"
)]
pub(crate) mod poller;
pub(crate) mod progress;
pub(crate) mod sleep_deadline;
pub(crate) mod source;
pub(crate) mod sources;
pub(crate) mod standby;
pub(crate) mod timers;
pub(crate) mod wheel;

use std::io::{Error, ErrorKind};

/// Which threads wait for sockets and timers: see [`Builder::io`](crate::Builder::io).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Io {
    /// The workers poll. An idle worker sleeps in the system's poller. Busy ones look there now and then:
    /// after 100 µs, or after the task that runs by then.
    ///
    /// This is the fastest form for tasks that wait. While every worker is in a long computation, the monitor
    /// sends another thread to look. Without a monitor
    /// ([`Builder::stuck_after`](crate::Builder::stuck_after)) none looks until a task ends.
    #[default]
    Inline,
    /// A separate thread polls. It looks at once, whatever the workers do, at the price of a hand-over
    /// between threads per event.
    Thread,
}

pub(crate) fn shut_down() -> Error {
    Error::new(
        ErrorKind::NotConnected,
        "the runtime whose sockets and timers these are has shut down: make new ones in a runtime that lives",
    )
}

/// Returns the error of a socket or timer whose poller stayed in the parent of a forked child.
pub(crate) fn forked() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the poller stayed in the parent of this forked process: build a runtime and new sockets here",
    )
}
