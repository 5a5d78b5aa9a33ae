//! rayon's core API on [Warpweft](warpweft)'s workers.
//!
//! A program that adds this to its `Cargo.toml` runs every crate that uses rayon on Warpweft:
//!
//! ```toml
//! [patch.crates-io]
//! rayon-core = { path = "../warpweft/compat/rayon-core" }
//! ```
//!
//! Each function does what the function of the same name of rayon-core 1.13 does, with one difference:
//! **nothing runs on top of a closure that waits**. The original lets a thread that waits for the other half
//! of a `join` run any other closure on the same stack. Here the thread gives its worker away. So a lock may
//! be held across a `join`, a stack does not grow by what others do, and a short `join` does not take as long
//! as a closure that its thread found meanwhile.
//!
//! Beside that, **forks of one stack must not block on each other** by other means than this crate's, such
//! as a channel or a barrier of the standard library. These are the jobs of a [`scope`], its body, and the
//! halves of nested [`join`]s. A stack shows other threads its oldest fork only, and the next one when it
//! forks, ends or waits in this crate. Such a program needs `warpweft::sync`, or `warpweft::blocking` around
//! each such wait.
//!
//! # In a task of a Warpweft runtime
//!
//! The free functions use the runtime of the calling task, whatever its policy is, and no other threads. So
//! they do in `Runtime::block_on`, in `#[warpweft::main]` and in closures of `warpweft::spawn_blocking`; in
//! `warpweft::blocking` the thread runs the halves of a join and the closures of a scope itself. When the
//! runtime has begun to shut down, what still runs there spawns and broadcasts in the global pool.
//!
//! There [`current_num_threads`] counts the compensating workers as well, so that each index is below it, and
//! [`broadcast`] calls its closure on the workers that were asked for, which are fewer: a barrier for all is
//! for `Pool::workers` of them.
//! Outside of any pool or runtime they use the global one, as in rayon.
//!
//! # Indices and threads
//!
//! [`current_thread_index`] is below [`current_num_threads`], and at any time no two threads have the same
//! one. A thread that waits has no index meanwhile, and **may have another one afterwards**: an index is
//! valid until the next `join`, `scope`, `install`, `broadcast`, parallel iterator or yield. In rayon it
//! stays the same, but other closures run on that thread during a wait, with the same index. So a program
//! that keeps what belongs to an index across a wait shares it with these closures. Such a program asks for
//! its index again.
//!
//! **One kind of program must be changed.** It has a type with `unsafe impl Sync` around cells, such as
//! `Vec<Cell<T>>` or `Vec<UnsafeCell<T>>`, which it indexes by [`current_thread_index`], and it keeps a
//! reference to its cell over a wait. In rayon all uses of a cell come from one thread of the system, one
//! within the other. Here another thread may use the cell meanwhile, or afterwards at the same time: a data
//! race. Any of these is a remedy:
//!
//! - Take the index anew after each wait, and keep no reference to the cell over it. At any moment an index
//!   belongs to one thread, and what it did happens before what the next one does.
//! - Build the pool with [`spawn_handler`](ThreadPoolBuilder::spawn_handler) or
//!   [`build_scoped`](ThreadPoolBuilder::build_scoped): there a thread keeps its index over waits.
//! - Use atomics or locks in place of cells.
//!
//! A pool has as many threads as were asked for, and one more for each closure that waits. At any time only
//! as many as were asked for run closures. Pools with a [`spawn_handler`](ThreadPoolBuilder::spawn_handler),
//! with [`build_scoped`](ThreadPoolBuilder::build_scoped) or with
//! [`use_current_thread`](ThreadPoolBuilder::use_current_thread) have exactly the threads that they were
//! given. If one of these threads waits, it runs other closures on its stack, as in rayon.

mod broadcast;
mod builder;
mod configuration;
mod entered;
mod fifo;
mod global;
mod join;
mod registry;
mod scope;
mod spawn;
mod starts;
mod thread_builder;
mod thread_pool;
mod yields;

pub use broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use builder::{ThreadPoolBuildError, ThreadPoolBuilder};
#[allow(deprecated, reason = "the original still has them")]
pub use configuration::{Configuration, initialize};
pub use join::{FnContext, join, join_context};
pub use scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use spawn::{spawn, spawn_fifo};
pub use thread_builder::ThreadBuilder;
pub use thread_pool::ThreadPool;
pub use yields::{Yield, yield_local, yield_now};

use warpweft::ForkCx;

/// The largest number of threads that a pool may have.
const MOST_THREADS: usize = 4096;

/// Returns the largest number of threads that a pool may have; more are as many as this.
pub fn max_num_threads() -> usize {
    MOST_THREADS
}

/// Returns the number of threads of the current pool: the calling closure's, or else the global one, which is
/// built if it was not.
pub fn current_num_threads() -> usize {
    global::with_target(|target| target.num_threads())
}

/// Returns the index of the calling thread in its pool, below [`current_num_threads`]; `None` on a thread of
/// no pool. It is valid until the next wait: see the [crate](crate#indices-and-threads).
pub fn current_thread_index() -> Option<usize> {
    warpweft::Pool::current_worker()
}

/// Returns true if closures are in the calling thread's own queue, the other halves of its joins included;
/// `None` on a thread of no pool. This is a hint.
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    warpweft::Pool::current_worker()?;
    ForkCx::with(|cx| cx.map(ForkCx::has_own_work))
}
