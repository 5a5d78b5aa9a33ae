//! Several pools in one runtime, and tasks that move between them.
//!
//! No policy is the best for everything. So each part of a program may have its own [`Pool`], with a policy,
//! workers and statistics, and a task continues in the pool of its next part.
//!
//! ```text
//!   Runtime ─┬─ Pool "accept"   fifo, 1 worker             task ── enter().await ─▶ continues there
//!            ├─ Pool "parse"    lifo, 2 workers, bounded   job, fiber ── run(closure) ─▶ waits for it here
//!            └─ Pool "index"    prows, 2 workers
//! ```
//!
//! - **Stages**: [`stage`] and [`Builder::then`](crate::Builder::then) make a chain of pools. A future moves
//!   to another one by [`Pool::enter`]. A closure, in a job or a fiber, calls another closure there by
//!   [`Pool::run`], and waits.
//! - **Backpressure**: [`Builder::capacity`](crate::Builder::capacity) bounds a pool. `enter` waits for a
//!   permit, and keeps the previous pool's permit meanwhile, so a full stage fills the stages before it.
//!   [`Pool::try_enter`] returns an error instead.
//! - **Silos**: [`Builder::silos`](crate::Builder::silos) makes several equal pools, and [`Silos`] finds the
//!   one for a key.
//! - **Limits**: a [`ConcurrencyLimit`] lets a limited number of its tasks at a time into a pool, without
//!   threads.
//!
//! ```
//! use warpweft::{Lifo, Runtime, stage};
//!
//! let runtime = stage("parse", Runtime::builder().workers(1))
//!     .then("index", Runtime::builder().workers(1).policy(Lifo::new()).capacity(64))
//!     .build()?;
//! let index = runtime.pool("index")?.clone();
//! let task = runtime.spawn(async move {
//!     let words = "to be or not to be".split(' ').count();
//!     index.enter().await?;
//!     assert!(index.is_here());
//!     Ok::<_, warpweft::EnterError>(words)
//! });
//! assert_eq!(task.wait()??, 6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! - A task that enters a pool keeps its handle, its wakers and its name. For the policy that it leaves, it
//!   has ended. For the other one it comes from outside, without what the first policy wrote into its word (a
//!   priority, for example).
//! - A task ends with the pool in which it is. One that enters a pool just as that closes ends with it.
//! - **No circles.** A task with a permit of a bounded pool can wait for permits only of pools behind it, of
//!   the same runtime. Otherwise two full pools could wait for each other for ever. Entering in another order
//!   is [`EnterError::OutOfOrder`], and a second permit of the same pool is [`EnterError::OwnPool`]. Parts of
//!   a fork or of a scope count as tasks with a permit, in each bounded pool. A task that was spawned without
//!   a permit may wait for any. A task with a permit should not await it: that is a circle, too.
//! - Each pool has its own driver for sockets and timers, made when it is first used, its own monitor and its
//!   own blocking threads. A task keeps what it has opened in one pool when it enters another, and is woken
//!   there.
//!
//! # Files
//!
//! | file | job |
//! |---|---|
//! | `enter` | the future by which a task moves to another pool |
//! | `silos` | several equal pools, one for each part of the keys |
//! | `concurrency_limit` | a limit of concurrent tasks |
//! | `scope_bounded` | a scope with a limit of jobs |

pub(crate) mod concurrency_limit;
pub(crate) mod enter;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod scope_bounded;
pub(crate) mod silos;

use crate::runtime::Builder;
pub use crate::runtime::pool::Pool;
pub use crate::runtime::pool_error::{ConcurrencyLimitError, EnterError, UnknownPool};
pub use concurrency_limit::ConcurrencyLimit;
pub use enter::Enter;
pub use scope_bounded::{BoundedScope, scope_bounded};
pub use silos::Silos;

/// Names the first pool of a chain, which [`then`](Builder::then) continues: the same as `pool.name(name)`.
///
/// ```
/// use warpweft::{Runtime, stage};
/// let pool = || Runtime::builder().workers(1);
/// let runtime = stage("parse", pool()).then("index", pool().capacity(8)).then("send", pool()).build()?;
/// let names: Vec<_> = runtime.pools().iter().map(|pool| pool.name()).collect();
/// assert_eq!(names, ["parse", "index", "send"]);
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn stage(name: impl Into<String>, pool: Builder) -> Builder {
    pool.name(name)
}
