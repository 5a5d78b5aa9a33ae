//! The Warpweft task: one header, one state word and one allocation.
//!
//! A task is a closure (*job*) or a future, with room for its result. Three kinds of references lead to it:
//!
//! ```text
//!  Runnable   ┌───────────── one allocation ────────────┐
//!  TaskRef ──▶│ state │ … │ closure or future ─▶ result │◀── JoinHandle
//!  (runnable) └─────────────────────────────────────────┘
//!                              ▲ ▲ ▲
//!                           wakers (futures only)
//! ```
//!
//! - The *runnable* (one word) is the right to run the task. Exactly one exists while the task is ready or
//!   runs, and none while it sleeps. The pool holds it as a [`Runnable`]. A policy, which may keep it but not
//!   run it, holds it as a [`TaskRef`].
//! - *Wakers* make a sleeping task ready. The waker that wakes it first gets the runnable and pushes it to
//!   the task's pool.
//! - The *handle* ([`JoinHandle`]) is the right to the result.
//!
//! The state word (`state.rs`) decides which of them may touch what. See `README.md` beside this file.
//!
//! # Invariants
//!
//! - A spawned task costs one allocation; a named task costs two.
//! - A closure without a handle ends without an atomic read-modify-write; with a handle it needs one.
//! - Publish last: after the runnable, the result or a waker became visible to another thread, nothing is
//!   touched that is reachable through it.
//! - A panic inside a task never leaves it: it is the task's result.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs)]

mod block_on;
pub mod budget;
mod cell;
pub mod frame;
mod header;
mod info;
mod join;
mod kinds;
mod latch;
mod lending;
#[cfg(doctest)]
mod must_not_compile;
mod on_stack;
mod origin;
mod outcome;
pub mod pool;
mod queue_viewer;
mod reclamation;
pub mod registry;
mod runnable;
mod running;
pub mod spawn;
mod state;
mod task_panic;
mod task_ref;
pub mod task_view;
pub mod test_tasks;
mod waker;
mod wakeup;
mod why;

pub use block_on::{
    BlockingHooks, PollOnce, StoppableWait, block_on, block_until, poll_into, set_stoppable_wait, set_wait,
};
pub use header::Header;
pub use info::TaskInfo;
pub use join::JoinHandle;
pub use latch::Latch;
pub use lending::{LendingHooks, set_lending};
pub use on_stack::{OnStackJob, StackRunner};
pub use origin::{Told, kind_of, told_of};
pub use outcome::{Cancelled, JoinError, Unwound};
pub use queue_viewer::QueueViewer;
#[doc(hidden)]
pub use reclamation::{Hold, Reclamation};
pub use runnable::{Abandon, Pending, Ran, Runnable, Suspended, TaskId, reclaim};
pub use running::{Running, apart_from_job, is_job_cancelled};
pub use task_panic::{TaskKind, TaskPanic};
pub use task_ref::{TaskRef, Waiting};
pub use waker::{cancellations, task_of};
pub use why::Why;
