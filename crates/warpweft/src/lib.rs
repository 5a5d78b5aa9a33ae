//! One runtime for compute and I/O, under a scheduling policy that you pick, compose or write.
//!
//! A [`Runtime`] is a pool of workers. Its tasks are futures and closures. A policy decides which task runs
//! next, and on which worker: [`Fifo`], [`Lifo`], a text such as `lifo+steal=one`, or your own [`Policy`].
//!
//! ```
//! use warpweft::{Lifo, Runtime};
//!
//! let runtime = Runtime::builder().workers(2).policy(Lifo::new()).build()?;
//! let handle = runtime.spawn(async {
//!     let first = warpweft::spawn_job(|| (1..=50).sum::<u32>());
//!     let halves = [first, warpweft::spawn_job(|| (51..=100).sum())];
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
//! # Which function to call
//!
//! | you have | call | its result |
//! |---|---|---|
//! | a future | [`spawn`] | by awaiting the handle |
//! | a future that is not `Send` | [`spawn_local`] | by awaiting the handle |
//! | a closure that computes | [`spawn_job`] | by awaiting the handle |
//! | a closure that waits, in direct style | [`fiber::spawn`] | by awaiting the handle |
//! | a closure whose result you do not need | [`spawn_detached`] | none; the cheapest |
//! | a closure that makes a blocking system call | [`blocking`]: here, and it may borrow; [`spawn_blocking`]: on another thread | in place; by awaiting |
//! | two futures, in a tree of them | [`join_async`] | by awaiting |
//! | futures that must all end before yours continues | [`scope_async`] | by awaiting |
//! | futures that borrow from here | [`Scope::spawn_future`] | by awaiting, or when all have ended |
//! | a stream of futures | [`par_buffered`](stream::ParStream::par_buffered), [`pipeline`](stream::pipeline) | as a stream |
//! | two or many closures that borrow from here | [`join`], [`scope`], [`par_for`], [`par_chunks_mut`] | when all have ended |
//! | a file, or a name of a host | [`fs`], [`net::lookup`] | by awaiting |
//! | work that may have to stop: by a request, at a deadline | [`CancelToken::run`](cancel::CancelToken::run), [`cancel::with_deadline`], and their `_async` forms | as `Ok`, or [`Cancelled`](cancel::Cancelled) |
//! | a signal that asks the process to end | [`signal`] | by awaiting |
//!
//! A thread that is no worker uses [`Runtime::spawn`], [`Runtime::install`], [`JoinHandle::wait`] and
//! [`block_on`]. The last three wait. A task may call them, too: its thread passes its worker on to another
//! thread while it waits.
//!
//! # What is promised
//!
//! - A task that panics harms no other task. Its joiner gets [`JoinError::Panicked`], and no panic is lost
//!   with a dropped handle: see [`Builder::on_panic`] and [`Builder::panic_policy`].
//! - Dropping a handle detaches its task. Dropping the runtime ends every task, and no joiner waits for ever.
//!   The drop waits for closures that are running, without a time limit: see [`Runtime::shutdown`].
//! - A task from outside the pool, or one that yielded, runs after a bounded number of others, whatever the
//!   order of the policy. Under `shortest`, the default, and `edf` what is bounded is the time.
//! - A wait runs no other task on top of the frame that waits while a spare thread can be had: see
//!   [`Builder::max_threads`]. So a lock may be held across a [`join`], and one worker is enough for tasks
//!   that wait for each other. A thread that blocks in a system call or a lock of `std` keeps its worker, and
//!   all forks of its stack but the oldest one, unless it does so inside [`blocking`].
//! - [Cooperative](mod@cooperative) code yields to other fibers and tasks while it computes.
//! - The tasks in the queue of a worker that is stuck in one task run elsewhere, within the limits of
//!   [`Builder::stuck_after`]. What only its thread can do waits: fibers that have started there, pinned
//!   tasks, and all forks of the stuck task but the oldest one.
//! - An idle pool does not wake up: it has no periodic timer and does not poll.
//!
//! # Features
//!
//! | feature | default | what it adds | what it costs |
//! |---|---|---|---|
//! | `macros` | on | the attributes `cooperative`, `main` and `test` | `syn` |
//! | `net` | on | [`net`], sockets | `socket2` |
//! | `process` | on | `process`, programs that are started and waited for; on Unix | `signal-hook-registry` |
//! | `signal` | on | [`signal`], Ctrl-C and on Unix `SIGTERM` and `SIGHUP` | `signal-hook-registry` |
//! | `policies` | on | texts of the policies `lifo`, `slot` and `priority`, beside `shortest` and `fifo` | code of a pool for each |
//! | `stacks` | off | reports of stuck workers, dumps and shutdowns in vain have the stacks of the code that is stuck | `backtrace`, `framehop`; on Linux |
//! | `tracing` | off | tasks and fibers carry spans of the crate `tracing` | `tracing`; see "Spans" below |
//! | `all-policies` | off | texts of all policies: `chain`, `adaptive`, `cforall`, `negele`, `go`, `tokio`, … | code of nine more pools |
//!
//! The types of all policies are there without these features: `Runtime::builder().policy(policy::Go)`.
//!
//! # `fork()`
//!
//! A child process made by `fork()` has one thread, a copy of the one that forked. The workers stay in the
//! parent. In the child, no task of the parent runs and none is dropped.
//!
//! - **Any thread** may build a runtime in the child and use it. A request to a runtime of the parent returns
//!   an error: [`JoinError::Forked`] (also from handles of its tasks), [`SpawnError::Forked`],
//!   [`BlockingError::Forked`] or [`EnterError::Forked`]. A [timer](time) of the parent's runtime panics.
//!   Dropping that runtime does nothing. A wait that can never end, because the child has no other thread,
//!   panics.
//! - **A task** that forks also continues in the child, alone: its forks run in place, and its fiber waits by
//!   blocking the thread. When the task returns, **the child ends** as by `_exit`, with status 0, or with 101
//!   if the task panicked. No destructor outside the task runs, and no buffer is flushed. A future that
//!   awaits continues when a thread of the child wakes it; if there is no such thread, the child ends with
//!   101. The same holds for a closure of [`spawn_blocking`], and for a waker or a destructor that the
//!   runtime calls.
//! - A [`join`] or a [`scope`] panics in the child if another worker had taken a part of it. If such a part
//!   forks, its child ends with status 0 when the part is done.
//! - A [policy](Policy) hook never returns in the child, which ends at once with status 101.
//!
//! As in every process with threads, a lock that another thread held at the fork stays locked in the child.
//! If a thread outside the runtime starts or ends just when another thread forks, the child may wait for ever
//! for a lock of the standard library when it starts threads.
//!
//! Children of `vfork`, `clone` and `posix_spawn`, which [`Command`](std::process::Command) uses, run a new
//! program and are not affected.
#![cfg_attr(feature = "tracing", doc = include_str!("observe/tracing.md"))]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs)]

mod admission;
pub mod cancel;
mod cancel_tree;
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
#[cfg(all(unix, feature = "process"))]
pub mod process;
mod runtime;
mod scheduler;
#[cfg(feature = "signal")]
pub mod signal;
pub mod stream;
pub mod sync;
mod threads;
pub mod time;

pub use admission::controller::{AdmissionStats, Admitted, Overload};
pub use admission::settings::{QueueDelay, QueueDelayError};
pub use compose::{
    BoundedScope, ConcurrencyLimit, EnterError, Pool, Silos, UnknownPool, scope_bounded, stage,
};
pub use cooperative::uncooperative;
pub use execution::block_on::block_on;
pub use fork_join::{
    AsyncScope, ForkCx, JoinAsync, Scope, ScopeFifo, ScopedHandle, join, join_async, par_chunks_mut, par_for,
    scope, scope_async, scope_fifo,
};
pub use io::Io;
pub use observe::PoolCounters;
pub use observe::dump::{Dump, Finding, PoolDump, TaskDump, TaskState, WaitDump, WaitsFor};
pub use observe::metrics::{ClassMetrics, Depths, Metrics, PoolMetrics, TaskCounts, ThreadCounts};
pub use observe::recorder::event::{Push, StepEnd};
pub use observe::recorder::sites::TaskSite;
pub use observe::recorder::snapshot::{Event, EventKind, PoolEvents, Snapshot, StepKind, TaskKey, Track};
pub use observe::recorder::times::Distribution;
pub use observe::stack::{Frame, NoStack, Stack};
pub use runtime::{
    Admission, AdmissionControl, Behind, BlockingError, BuildError, Builder, Deadline, EnteredThread,
    EnvironmentError, GracefulShutdown, NoDeadlines, PanicPolicy, PanicReport, Pin, PinError, PoolThread,
    Priority, PriorityError, Recorder, Refused, Remaining, ResizeError, Runtime, ShutdownStep, SpawnBlocking,
    SpawnError, Stall, StartAfterOthers, TaskBuilder, ThreadRole, Threads, YieldNow, blocking,
    current_worker, default_runtime, dump_all, expect_long, is_only_ready, spawn, spawn_blocking,
    spawn_detached, spawn_fifo, spawn_job, spawn_local, try_default_runtime, try_spawn_blocking, yield_hard,
    yield_now, yield_soft,
};
pub use sync::describe_wait::describe_wait;
#[cfg(feature = "macros")]
pub use warpweft_macros::{cooperate, cooperative, main, test};
#[cfg(warpweft_sim)]
pub use warpweft_platform::sim;
pub use warpweft_platform::thread_state::ThreadState;
pub use warpweft_policy as policy;
pub use warpweft_policy::{Fifo, Lifo, ParsePolicyError, Policy, PolicySpec, Preset};
pub use warpweft_task::{JoinError, JoinHandle, TaskInfo, TaskKind, TaskPanic};

/// The macros' expansions use this module. It is not part of the stable interface.
#[doc(hidden)]
pub mod expanded {
    pub use crate::cooperative::{check, is_due, pause, strip};
    pub use crate::runtime::{enter, simulate};
}
