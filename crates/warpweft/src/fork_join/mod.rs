//! Fork-join: closures and futures that other workers may take, and waits that hand the worker over.
//!
//! | file | job |
//! |---|---|
//! | `join` | the two forms of `join` |
//! | `latent_fork` | the second half of a join, in the frame of the first |
//! | `join_async` | the form of `join` for futures |
//! | `abort_on_drop` | a task that is cancelled with its handle |
//! | `panics` | reports of panics that end in a frame or a promise |
//! | `other_work` | what a frame may let run before it continues |
//! | `ranges` | loops in parallel |
//! | `scope` | any number of jobs that borrow |
//! | `scope_fifo` | the same, oldest first |
//! | `scope_future` | futures that borrow, as tasks of a scope |
//! | `scope_async` | a scope that is a future |
//! | `scoped_handle` | the handle of a future of either |
//!
//! `fork/` has the mechanism, from a latent fork to its theft; see its `README.md`.

pub(crate) mod abort_on_drop;
pub(crate) mod join;
pub(crate) mod join_async;
pub(crate) mod latent_fork;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod other_work;
pub(crate) mod panics;
pub(crate) mod ranges;
pub(crate) mod scope;
pub(crate) mod scope_async;
pub(crate) mod scope_fifo;
pub(crate) mod scope_future;
pub(crate) mod scoped_handle;

pub use crate::execution::fork_cx::ForkCx;
pub use join::join;
pub use join_async::{JoinAsync, join_async};
pub use ranges::{par_chunks_mut, par_for};
pub use scope::{Scope, scope};
pub use scope_async::{AsyncScope, scope_async};
pub use scope_fifo::{ScopeFifo, scope_fifo};
pub use scoped_handle::ScopedHandle;
