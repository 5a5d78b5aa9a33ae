//! Several pools in one runtime, and tasks that go from one to the other.
//!
//! No policy is the best for everything; so the parts of a program may each have a [`Pool`] with a policy,
//! workers and statistics of its own, and a task goes on where its next part belongs.
//!
//! ```text
//!   Runtime ─┬─ Pool "accept"   fifo, 1 worker             task ── enter().await ─▶ goes on there
//!            ├─ Pool "parse"    lifo, 2 workers, bounded   job, fiber ── run(closure) ─▶ waits for it here
//!            └─ Pool "index"    prows, 2 workers
//! ```
//!
//! - **Stages**: [`stage`] and [`Builder::then`](crate::Builder::then) make a chain of pools. A future goes
//!   to another one by [`Pool::enter`]; a closure, in a job or a fiber, calls another one there and waits, by
//!   [`Pool::run`].
//! - **Backpressure**: [`Builder::capacity`](crate::Builder::capacity) bounds a pool. `enter` waits for a
//!   place, and keeps the one before meanwhile, so a full stage fills up those before it; [`Pool::try_enter`]
//!   says that there is none.
//! - **Silos**: [`Builder::silos`](crate::Builder::silos) makes several pools alike, and [`Silos`] finds the
//!   one for a key.
//! - **Views**: a [`ConcurrencyLimit`] lets so many of its tasks at a time into a pool, without threads of
//!   its own.
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
//! - A task that enters a pool takes its handle, its wakers and its name along; for the policy that it leaves
//!   it has ended, for the other one it comes from outside, without anything that the first one wrote into
//!   its word (a priority, say).
//! - Wherever it is, a task ends with the pool in which it is. One that enters a pool just as that closes
//!   ends with it.
//! - **No circles.** Who has a place in a bounded pool can wait for a place only in pools behind it, of the
//!   same runtime; else two full pools could wait for each other for ever. Entering in another order is
//!   [`EnterError::OutOfOrder`].
//! - Each pool has its own driver for sockets and timers, made when it is first used, its own monitor and its
//!   own threads that block. What a task has opened in one pool it takes along, and is woken there.
//!
//! # How it is made
//!
//! | file | job |
//! |---|---|
//! | `enter` | the future of a task that goes elsewhere |
//! | `silos` | which of several |
//! | `concurrency_limit` | so many at a time |

pub(crate) mod concurrency_limit;
pub(crate) mod enter;
#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod silos;

use crate::runtime::Builder;
pub use crate::runtime::pool::Pool;
pub use crate::runtime::pool_error::{ConcurrencyLimitError, EnterError, UnknownPool};
pub use concurrency_limit::ConcurrencyLimit;
pub use enter::Enter;
pub use silos::Silos;

/// The first pool of a chain, to be continued by [`then`](Builder::then): the same as `pool.name(name)`.
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
