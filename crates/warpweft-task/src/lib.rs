//! What a Warpweft task is: one header, one state word, one allocation.
//!
//! A task is a closure (*job*) or a future, with room for its result. Three kinds of reference lead to it:
//!
//! ```text
//!  Runnable   ┌───────────── one allocation ────────────┐
//!  TaskRef ──▶│ state │ … │ closure or future ─▶ result │◀── JoinHandle
//!  (token)    └─────────────────────────────────────────┘
//!                              ▲ ▲ ▲
//!                           wakers (futures only)
//! ```
//!
//! - The *token* (one word) is the right to run it. Exactly one exists while the task is runnable or runs,
//!   none while it sleeps. In the hands of the pool it is a [`Runnable`]; in those of a policy, which may
//!   keep it but not run it, a [`TaskRef`].
//! - *Wakers* make a sleeping task runnable: whoever wakes it first gets the token and pushes it to the
//!   task's pool.
//! - The *handle* ([`JoinHandle`]) is the right to the result.
//!
//! The state word (`state.rs`) says who may touch what; the header (`header.rs`) has the table.
//!
//! # Invariants
//!
//! - A spawned task costs one allocation; a named one two.
//! - A closure that nobody joins ends without an atomic read-modify-write; one with a handle needs one.
//! - Publish last: after the token, the result or a waker became visible to another thread, nothing is
//!   touched that is reachable through it.
//! - A panic inside a task never leaves it: it is the task's result.
#![deny(missing_docs)]

mod block_on;
mod cell;
mod header;
mod info;
mod join;
mod kinds;
mod latch;
#[cfg(doctest)]
mod must_not_compile;
mod on_stack;
mod origin;
mod outcome;
pub mod pool;
pub mod probe;
mod runnable;
mod running;
pub mod spawn;
mod state;
mod task_ref;
mod waker;
mod why;

pub use block_on::{BlockingHooks, PollOnce, block_on, set_wait};
pub use header::Header;
pub use info::TaskInfo;
pub use join::JoinHandle;
pub use latch::Latch;
pub use on_stack::{OnStackJob, StackRunner};
pub use origin::told_of;
pub use outcome::{Cancelled, JoinError, Unwound};
pub use runnable::{Abandon, Pending, Ran, Runnable, Suspended, TaskId, reclaim};
pub use running::{Running, apart_from_job, is_job_cancelled};
pub use task_ref::{TaskRef, Waiting};
pub use waker::{cancellations, task_of};
pub use why::Why;
