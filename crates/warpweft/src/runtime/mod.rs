//! The runtime as a program sees it: how to build it, spawn into it and end it.
//!
//! | file | job |
//! |---|---|
//! | `builder` | `Builder`: the settings of a runtime, and its start |
//! | `config` | the settings of one pool |
//! | `environment` | the defaults that environment variables replace |
//! | `expect_long` | code that is meant to take long |
//! | `stats` | lines of figures, appended to a file when a runtime or the process ends |
//! | `build_error` | the error of building a runtime |
//! | `handle` | `Runtime`: its pools, its state, its end |
//! | `shutdown`, `graceful` | the end of a runtime: at once, within a time, after its work |
//! | `dump`, `dump_tasks`, `dump_stacks` | a report of all tasks; one task of it; their stacks |
//! | `dump_all`, `living` | a report of all runtimes; the list of them |
//! | `default` | the runtime that free functions use outside of any pool |
//! | `pool` | `Pool`: one of its pools |
//! | `places` | the permits of a bounded pool |
//! | `admission` | admission by delay: what asks, and what says that it starts |
//! | `pool_error` | the errors of entering a pool |
//! | `task_builder` | spawning: all other ways to spawn a task come here |
//! | `spawn` | the free functions that spawn |
//! | `spawn_fifo` | spawning closures that begin in order |
//! | `spawn_on_runtime` | spawning on a runtime |
//! | `local` | futures that stay on their thread |
//! | `spawn_in_pool` | spawning into a pool |
//! | `spawn_with_permit` | spawning with a permit of a bounded pool, after a wait |
//! | `spawn_with_token` | spawning under a cancellation token |
//! | `spawn_error` | the error of spawning a task |
//! | `spawn_blocking` | spawning a closure that blocks |
//! | `install` | running a borrowed closure on a worker |
//! | `current_driver` | the driver for sockets and timers of the calling thread |
//! | `under_token`, `while_queued` | a future, and a closure that waits for a thread, under a token |
//! | `yields` | yielding to other tasks |
//! | `metrics` | what a runtime or a pool does, in numbers |
//! | `priority`, `deadline` | how urgent a task is |
//! | `recorder` | the flight recorder of a runtime or a pool |
//! | `entry` | a runtime for `main`, or for a test |
//! | `small_stack` | building a runtime from a fiber |

pub(crate) mod admission;
pub(crate) mod build_error;
pub(crate) mod builder;
pub(crate) mod config;
pub(crate) mod current_driver;
mod deadline;
pub(crate) mod default;
pub(crate) mod dump;
mod dump_all;
mod dump_stacks;
mod dump_tasks;
pub(crate) mod entry;
pub(crate) mod environment;
pub(crate) mod expect_long;
pub(crate) mod graceful;
pub(crate) mod handle;
pub(crate) mod install;
mod living;
pub(crate) mod local;
pub(crate) mod metrics;
pub(crate) mod places;
pub(crate) mod pool;
pub(crate) mod pool_error;
pub(crate) mod priority;
pub(crate) mod recorder;
pub(crate) mod shutdown;
pub(crate) mod small_stack;
pub(crate) mod spawn;
pub(crate) mod spawn_blocking;
pub(crate) mod spawn_error;
pub(crate) mod spawn_fifo;
pub(crate) mod spawn_in_pool;
pub(crate) mod spawn_on_runtime;
pub(crate) mod spawn_with_permit;
mod spawn_with_token;
pub(crate) mod stats;
pub(crate) mod task_builder;
pub(crate) mod under_token;
mod while_queued;
pub(crate) mod yields;

pub use crate::execution::blocking::blocking;
pub use crate::pool::panics::{PanicPolicy, PanicReport};
pub use crate::pool::size::ResizeError;
pub use crate::threads::affinity::{Pin, PinError};
pub use crate::threads::pool_thread::{EnteredThread, PoolThread};
pub use crate::threads::stall::{Behind, Stall};
pub use crate::threads::thread_context::ThreadRole;
pub use crate::threads::thread_set::Threads;
pub use admission::{AdmissionControl, StartAfterOthers};
pub use build_error::{BuildError, EnvironmentError};
pub use builder::Builder;
pub use deadline::{Deadline, NoDeadlines};
pub use default::{default_runtime, try_default_runtime};
pub use dump_all::dump_all;
pub use entry::{enter, simulate};
pub use expect_long::expect_long;
pub use graceful::{GracefulShutdown, ShutdownStep};
pub use handle::Runtime;
pub use pool::current_worker;
pub use priority::{Priority, PriorityError};
pub use recorder::Recorder;
pub use shutdown::Remaining;
pub use spawn::{spawn, spawn_detached, spawn_job, spawn_local};
pub use spawn_blocking::{
    Admission, BlockingError, Refused, SpawnBlocking, spawn_blocking, try_spawn_blocking,
};
pub use spawn_error::SpawnError;
pub use spawn_fifo::spawn_fifo;
pub use task_builder::TaskBuilder;
pub use yields::{YieldNow, is_only_ready, yield_hard, yield_now, yield_soft};
