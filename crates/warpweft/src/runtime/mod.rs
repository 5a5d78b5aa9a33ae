//! The runtime, as a program sees it: building it, spawning into it, ending it.
//!
//! | file | job |
//! |---|---|
//! | `builder` | what a runtime may be asked to be, and starting it |
//! | `config` | what one pool of it is asked to be |
//! | `build_error` | why there is none |
//! | `handle` | `Runtime`: its pools, its state, its end |
//! | `default` | the runtime that free functions use outside of any pool |
//! | `pool` | `Pool`: one of its pools |
//! | `places` | the places of a bounded pool |
//! | `pool_error` | why a pool refused |
//! | `spawn` | spawning from inside and outside |
//! | `spawn_in_pool` | spawning into a pool, with a place if it is bounded |
//! | `spawn_error` | why a task was not spawned |
//! | `spawn_blocking` | spawning a closure that blocks |
//! | `install` | a borrowed closure on a worker |
//! | `current_driver` | the driver that sockets and timers of the calling thread belong to |
//! | `yields` | giving way |
//! | `priority` | how urgent a task is |
//! | `entry` | a runtime for `main`, or for a test |
//! | `small_stack` | building a runtime from a fiber |

pub(crate) mod build_error;
pub(crate) mod builder;
pub(crate) mod config;
pub(crate) mod current_driver;
pub(crate) mod default;
pub(crate) mod entry;
pub(crate) mod handle;
pub(crate) mod install;
pub(crate) mod places;
pub(crate) mod pool;
pub(crate) mod pool_error;
pub(crate) mod priority;
pub(crate) mod small_stack;
pub(crate) mod spawn;
pub(crate) mod spawn_blocking;
pub(crate) mod spawn_error;
pub(crate) mod spawn_in_pool;
pub(crate) mod yields;

pub use crate::execution::blocking::blocking;
pub use crate::threads::affinity::{Pin, PinError};
pub use crate::threads::monitor::Stall;
pub use crate::threads::thread_set::Threads;
pub use build_error::BuildError;
pub use builder::Builder;
pub use default::{default_runtime, try_default_runtime};
pub use entry::enter;
pub use handle::Runtime;
pub use priority::{Priority, PriorityError};
pub use spawn::{TaskBuilder, spawn, spawn_detached, spawn_job};
pub use spawn_blocking::{
    Admission, BlockingError, Refused, SpawnBlocking, spawn_blocking, try_spawn_blocking,
};
pub use spawn_error::SpawnError;
pub use yields::{YieldNow, yield_hard, yield_now, yield_soft};
