//! One runtime for compute and I/O, under a scheduling policy that you pick, compose or write.
//!
//! A [`Runtime`] is a pool of workers. Its tasks are futures and closures; what runs next, and where, its
//! policy says: [`Fifo`], [`Lifo`], a text such as `lifo+steal=one`, or your own [`Policy`].
//!
//! ```
//! use warpweft::{Lifo, Runtime};
//!
//! let runtime = Runtime::builder().workers(2).policy(Lifo::new()).build()?;
//! let handle = runtime.spawn(async {
//!     let halves = [warpweft::spawn_job(|| (1..=50).sum::<u32>()), warpweft::spawn_job(|| (51..=100).sum())];
//!     let mut sum = 0;
//!     for half in halves {
//!         sum += half.await?;
//!     }
//!     Ok::<_, warpweft::JoinError>(sum)
//! });
//! assert_eq!(handle.wait()??, 5050);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which kind of task
//!
//! | you have | say | its result |
//! |---|---|---|
//! | a future | [`spawn`] | by awaiting the handle |
//! | a closure that computes | [`spawn_job`] | by awaiting the handle |
//! | a closure that waits, in direct style | [`fiber::spawn`] | by awaiting the handle |
//! | a closure that nobody waits for | [`spawn_detached`] | none; the cheapest |
//! | a closure that blocks in the system | [`blocking`]: here, and it may borrow; [`spawn_blocking`]: elsewhere | in place; by awaiting |
//! | two futures, in a tree of them | [`join_async`] | by awaiting |
//! | futures that all end before yours goes on | [`scope_async`] | by awaiting |
//! | futures that borrow from here | [`Scope::spawn_future`] | by awaiting, or when all have ended |
//! | a stream of futures | [`par_buffered`](stream::ParStream::par_buffered), [`pipeline`](stream::pipeline) | as a stream |
//! | two or many closures that borrow from here | [`join`], [`scope`], [`par_for`], [`par_chunks_mut`] | when all have ended |
//! | a file, or a name of a host | [`fs`], [`net::lookup`] | by awaiting |
//!
//! From a thread that is no worker: [`Runtime::spawn`], [`Runtime::install`], [`JoinHandle::wait`],
//! [`block_on`]. These wait, and they may do so in a task, too: its thread gives its worker away meanwhile.
//!
//! # What is promised
//!
//! - A panic in a task is its joiner's [`JoinError::Panicked`]; it harms no other task.
//! - Dropping a handle detaches its task. Dropping the runtime ends every task; no joiner waits for ever. The
//!   drop itself waits for closures that run, without a limit of time: [`Runtime::shutdown`].
//! - A task from outside, or one that yielded, runs after a bounded number of others, whatever the order of
//!   the policy.
//! - A wait runs nobody else's work on top of the frame that waits: a lock may be held across a [`join`], and
//!   one worker is enough for tasks that wait for each other. (A thread that blocks in a lock of the system
//!   itself keeps its worker, unless it says [`blocking`].)
//! - Code that says [`cooperative`](mod@cooperative) gives way to other fibers and tasks while it computes.
//! - A worker that is stuck in one task does not hold up what waits behind it: [`Builder::stuck_after`].
//! - An idle pool makes no wake-ups: no timer, no polling.
//!
//! # Features
//!
//! | feature | default | what it adds | what it costs |
//! |---|---|---|---|
//! | `macros` | on | the attributes `cooperative`, `main` and `test` | `syn` |
//! | `net` | on | [`net`], sockets | `socket2` |
//! | `signal` | on | [`signal`], Ctrl-C | `signal-hook-registry` |
//! | `policies` | off | texts of the policies that are one piece: `cforall`, `negele`, `negele-local`, `go`, `tokio`, `libfibre`, `prows`, `parsimonious` | code of a pool for each |
//!
//! The types of all policies are there without `policies`: `Runtime::builder().policy(policy::Go)`.
//!
//! # `fork()`
//!
//! A child made by `fork()` has one thread, the one that forked; the workers stay in the parent. In the child
//! no task of the parent runs and none is dropped.
//!
//! - **Any thread** may build a runtime in the child and use it. What is asked of the parent's is an error:
//!   [`JoinError::Forked`], for the handles of its tasks, too, [`SpawnError::Forked`],
//!   [`BlockingError::Forked`], [`EnterError::Forked`]. A [timer](time) of it is a panic, and its end does
//!   nothing. A wait that nothing can end, because the child has no other thread, is a panic.
//! - **A task** that forks goes on in the child, too, and is alone there: its forks run in place, and a fiber
//!   waits as a thread does. When it returns, **the child ends**, as by `_exit`: with status 0, or with 101
//!   if it panicked. No destructor runs beside the task's own, and no buffer is flushed. A future that awaits
//!   goes on when a thread of the child wakes it; if there is none, the child ends with
//!   101. So it is with a closure of [`spawn_blocking`], and with a waker or a destructor that the runtime
//!   calls.
//! - A [`join`] or a [`scope`] panics in the child if another worker had taken a part of it. Such a part that
//!   forks ends the child with 0 when it is done.
//! - A hook of a [policy](Policy) does not return in the child, which ends at once with 101.
//!
//! What holds for every process with threads holds here: a lock that another thread had taken stays taken in
//! the child. If a thread that is none of a runtime's starts or ends just when another one forks, a child
//! that starts threads may wait for ever for a lock of the standard library.
//!
//! Children of `vfork`, `clone` and `posix_spawn`, which [`Command`](std::process::Command) uses, run a
//! program and are not concerned.
#![deny(missing_docs)]

pub mod compose;
pub mod cooperative;
mod coroutine;
mod driver;
pub mod effect;
mod execution;
pub mod fiber;
mod fork;
mod fork_join;
pub mod fs;
mod idle;
pub mod io;
#[cfg(feature = "net")]
pub mod net;
mod observe;
mod pool;
mod runtime;
mod scheduler;
#[cfg(feature = "signal")]
pub mod signal;
pub mod stream;
pub mod sync;
mod threads;
pub mod time;

pub use compose::{ConcurrencyLimit, EnterError, Pool, Silos, UnknownPool, stage};
pub use cooperative::uncooperative;
pub use execution::listen::block_on;
pub use fork_join::{
    AsyncScope, ForkCx, JoinAsync, Scope, ScopedHandle, join, join_async, par_chunks_mut, par_for, scope,
    scope_async,
};
pub use io::Io;
pub use observe::PoolCounters;
pub use runtime::{
    Admission, BlockingError, BuildError, Builder, Pin, PinError, Priority, PriorityError, Refused, Runtime,
    SpawnBlocking, SpawnError, Stall, TaskBuilder, Threads, YieldNow, blocking, default_runtime, spawn,
    spawn_blocking, spawn_detached, spawn_job, try_default_runtime, try_spawn_blocking, yield_hard,
    yield_now, yield_soft,
};
#[cfg(feature = "macros")]
pub use warpweft_macros::{cooperate, cooperative, main, test};
pub use warpweft_platform::thread_state::ThreadState;
pub use warpweft_policy as policy;
pub use warpweft_policy::{Fifo, Lifo, ParsePolicyError, Policy, PolicySpec, Preset};
pub use warpweft_queue as queue;
pub use warpweft_task::{JoinError, JoinHandle, TaskInfo};

/// What the macros' expansions call. No part of what is promised to stay.
#[doc(hidden)]
pub mod expanded {
    pub use crate::cooperative::{check, is_due, pause, strip};
    pub use crate::runtime::enter;
}
