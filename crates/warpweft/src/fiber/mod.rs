//! Fibers: tasks in direct style, each with its own stack.
//!
//! A fiber is a closure like a job, but when it waits it does not block its thread. It switches to its
//! thread's loop, which runs other tasks on the same worker. Millions of waits need no further threads and no
//! `async`.
//!
//! ```
//! use warpweft::{Runtime, fiber};
//!
//! let runtime = Runtime::builder().workers(1).build()?;
//! let sum = runtime.spawn_fiber(|| {
//!     let parts: Vec<_> = (1..=3u64).map(|n| fiber::spawn(move || n * n)).collect();
//!     // Each of these waits switches to other fibers and tasks.
//!     parts.into_iter().map(|part| part.wait()).sum::<Result<u64, _>>()
//! });
//! assert_eq!(sum.wait()??, 14);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! - **A fiber that has started stays on its thread.** Before that it is a task like any other, and may be
//!   stolen. So thread-locals mean the same before and after a wait, and what it holds need not be `Send`.
//! - [`block_on`], [`wait`], [`JoinHandle::wait`](crate::JoinHandle::wait), [`join`](crate::join()) and
//!   [`scope`](crate::scope()) switch.
//! - **A lock of the standard library does not switch.** Do not wait while you hold one. If another task of
//!   the same thread wants that lock, both are blocked for ever.
//! - **Other code of the thread runs during a wait**, and uses the same thread-locals. If a `RefCell` in one
//!   stays borrowed across a wait, that code finds it borrowed.
//! - **A scoped thread-local must not be set across a wait.** Such code, for example `scoped_tls::set`, puts
//!   the address of a local variable into a thread-local, calls a closure, and takes the address back. Two
//!   fibers may end in another order than they began. Then the thread-local keeps the address of a stack that
//!   is gone. Code of other crates that does so is sound on threads and in futures, and not on fibers.
//! - If its thread carries a worker, a fiber that is ready runs after at most one other task, and one fiber
//!   for each that was ready before it. If its thread is spare or blocked in another task, the thread
//!   requests a worker by a task that its policy orders. A blocked thread resumes at most 64 fibers before it
//!   returns that worker and requests one again. A task that computes keeps the fibers of its thread from
//!   running.
//! - While the thread is panicking (a wait in a destructor that runs because of a panic) nothing switches:
//!   the thread waits, and passes its worker on. Such a wait must not wait for a fiber of the same thread.
//! - **Shutdown unwinds** fibers that wait, each on its thread, so that what they hold is dropped; their
//!   joiners get [`JoinError::Shutdown`](crate::JoinError::Shutdown). A fiber that catches the unwinding and
//!   waits again is unwound again, at each wait. One that never ends is a task that never returns. In a build
//!   with `panic = "abort"` the first unwinding ends the process: end fibers before the runtime there.
//!
//! # Costs
//!
//! A fiber that never waits costs a job and two switches. One that waits keeps a stack:
//! [`Builder::fiber_stack_size`](crate::Builder::fiber_stack_size) bytes of address space, and one or two
//! pages of memory. Linux since 6.13 guards stacks without mappings. Before, each stack takes two of the
//! process's 65 530 mappings (`vm.max_map_count`), which limits a process to some 32 000 fibers. A fiber that
//! gets no stack ends with [`JoinError::NoStack`](crate::JoinError::NoStack).
//!
//! | file | job |
//! |---|---|
//! | `scope` | fibers that borrow |
//!
//! The mechanism is in `execution/` and `coroutine/`; see `README.md` in `execution/`.

#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod scope;

pub use crate::coroutine::stack::Fibers;
pub use scope::{Scope, scope};

use crate::execution::block_on::block_on;
use crate::execution::stack_context;
use crate::runtime::spawn_error::SpawnError;
use crate::runtime::task_builder::TaskBuilder;
use warpweft_task::JoinHandle;

/// Spawns a fiber on the pool of the calling task, or outside of any pool on the [default
/// runtime](crate::default_runtime).
///
/// Costs one allocation, and a stack when it starts. Dropping the handle detaches it. If there is no stack
/// for it, the handle returns [`JoinError::NoStack`](crate::JoinError::NoStack).
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
#[track_caller]
pub fn spawn<T, F>(body: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    TaskBuilder::new().spawn_fiber(body)
}

/// Spawns a fiber on the calling fiber's thread, for fibers that mostly communicate with each other.
///
/// A transfer between fibers of one thread is a switch of stacks, some ten nanoseconds. One between two
/// threads takes a hundred times as long if the other thread sleeps. But no other thread starts this fiber,
/// even if this thread is busy and others are idle. So use it for fibers that take turns, and spawn the
/// leader of each such group by [`spawn`]. Fibers that compute at the same time would run one after the
/// other.
///
/// It starts behind fibers that were spawned here before, takes turns with those that are ready, and the
/// policy is not asked. Its handle, its panics, its cancellation and the end of the runtime are as with
/// [`spawn`]. It does not end with its caller.
///
/// If the caller is not a fiber, or its thread has no worker because it is in [`blocking`](crate::blocking)
/// or the runtime shuts down, or it has entered another runtime, this is [`spawn`].
///
/// Costs as much as [`spawn`], without the policy's queues.
///
/// ```
/// use warpweft::{Runtime, fiber, sync};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let sum = runtime.spawn_fiber(|| {
///     let (numbers, taken) = sync::channel::bounded(0);
///     // Each number is a switch to the other fiber and back, and no other thread is woken.
///     let producer = fiber::spawn_here(move || {
///         for n in 1..=100u64 {
///             numbers.send(n).wait().ok();
///         }
///     });
///     let mut sum = 0;
///     while let Ok(n) = taken.recv().wait() {
///         sum += n;
///     }
///     producer.wait().map(|()| sum)
/// });
/// assert_eq!(sum.wait()??, 5050);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// As [`spawn`].
#[track_caller]
pub fn spawn_here<T, F>(body: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    TaskBuilder::new().spawn_fiber_here(body)
}

/// The same as [`spawn`], but reserves the stack at once.
///
/// # Errors
///
/// [`SpawnError::NoStack`] if there is no stack for it. `body` was dropped.
///
/// # Panics
///
/// As [`spawn`].
#[track_caller]
pub fn try_spawn<T, F>(body: F) -> Result<JoinHandle<T>, SpawnError>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    TaskBuilder::new().try_spawn_fiber(body)
}

/// Waits for a future in direct style. In a fiber this switches to other work until the future has a result.
/// Elsewhere it is [`block_on`].
///
/// ```
/// use warpweft::{Runtime, fiber, yield_now};
/// let runtime = Runtime::builder().workers(1).build()?;
/// let answer = runtime.spawn_fiber(|| {
///     fiber::wait(async {
///         yield_now().await;
///         42
///     })
/// });
/// assert_eq!(answer.wait().ok(), Some(42));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[allow(
    clippy::inline_always,
    reason = "each return behind a switch of stacks is mispredicted"
)]
#[inline(always)]
pub fn wait<F: Future>(future: F) -> F::Output {
    block_on(future)
}

/// Yields to other fibers of this thread and to tasks. Returns true in a fiber that can yield; elsewhere it
/// does nothing.
///
/// If nothing else is known to be ready, it continues in place, at most 16 times in a row. Then its worker
/// looks for tasks, and, as often as between tasks, at timers, sockets and tasks from outside.
#[allow(
    clippy::inline_always,
    reason = "each return behind a switch of stacks is mispredicted"
)]
#[inline(always)]
pub fn yield_now() -> bool {
    match stack_context::here() {
        Some(context) => context.give_way(),
        None => false,
    }
}
