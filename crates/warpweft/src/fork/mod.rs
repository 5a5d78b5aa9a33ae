//! Fork-join: halves that others may take, and waits that run nobody else's work.
//!
//! | file | job |
//! |---|---|
//! | `join` | the two forms of `join` |
//! | `join_async` | the form of `join` for futures |
//! | `tied` | a task that ends with its handle |
//! | `ranges` | loops in parallel |
//! | `list` | the latent forks of one stack |
//! | `offer` | one fork on offer per worker: given and taken back without a read-modify-write |
//! | `record` | a fork in its frame |
//! | `scope` | any number of jobs that borrow |
//! | `scope_future` | futures that borrow, as tasks of a scope |
//! | `scope_async` | a scope that is a future |
//! | `scoped_handle` | the handle of a future of either |
//! | `runnable` | what a thief gets |
//! | `ticket` | a fork as a task, for when its owner has to wait |
//! | `offer_board` | the offers of a pool, from a thief's side |
//!
//! The fork list belongs to the stack, the offer to the worker. Why it is built like this, with the numbers, is in
//! `docs/decisions/0008-fork-join.md`.

mod abort_on_drop;
mod fork_claim;
mod join;
mod join_async;
mod list;
#[cfg(doctest)]
mod must_not_compile;
mod offer;
mod offer_board;
mod ranges;
mod record;
mod scope;
mod scope_async;
mod scope_future;
mod scoped_handle;
mod stealable_job;

pub(crate) use abort_on_drop::AbortOnDrop;
pub use join::{ForkCx, join};
pub use join_async::{JoinAsync, join_async};
pub(crate) use list::List;
pub(crate) use offer_board::{OfferBoard, OfferView};
pub use ranges::{par_chunks_mut, par_for};
pub use scope::{Scope, scope};
pub use scope_async::{AsyncScope, scope_async};
pub use scoped_handle::ScopedHandle;
pub(crate) use stealable_job::Stolen;
