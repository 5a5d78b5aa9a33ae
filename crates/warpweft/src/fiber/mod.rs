//! Fibers: tasks in direct style, each on a stack of its own.
//!
//! A fiber is a closure like a job, but when it waits it does not hold its thread up: it switches to its
//! thread's loop, which runs other tasks on the same worker. Millions of waits cost no thread, and no
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
//! # What is promised, and what is not
//!
//! - **A fiber that has started stays on its thread**, its *home*; before, it is a task like any other, and
//!   is stolen. So thread-locals mean the same before and after a wait, and what it holds need not be `Send`.
//! - [`block_on`], [`wait`], [`JoinHandle::wait`](crate::JoinHandle::wait), [`join`](crate::join()) and
//!   [`scope`](crate::scope()) switch. **A lock of the standard library does not**: a fiber that waits while
//!   it holds one blocks the thread if another task there wants the same lock, and then itself. Nor may a
//!   thread-local be in use across a wait by code that counts on being left in order (a `RefCell` there may
//!   be found borrowed).
//! - When it is ready and its home carries a worker, it runs after at most one other task and one fiber for
//!   each fiber that was ready before it. If its home is spare or blocked in another task, it asks for a
//!   worker by a task that its policy orders, and a blocked home resumes at most 64 fibers before it gives
//!   that worker back and asks again. A task that computes keeps the fibers of its thread from running.
//! - While the thread is panicking (a wait in a destructor that runs because of a panic) nothing switches:
//!   the thread waits, and gives its worker away. What such a wait waits for must not be a fiber of the same
//!   thread.
//! - **Shutdown unwinds** fibers that wait, each on its home, so that what they hold is dropped; their
//!   joiners get [`JoinError::Shutdown`](crate::JoinError::Shutdown). One that catches the unwinding and
//!   waits again is unwound again, at each wait; one that never ends is a task that never returns. In a build
//!   with `panic = "abort"` the first unwinding ends the process: end fibers before the runtime there.
//!
//! # Costs
//!
//! A fiber that never waits costs a job and two switches. One that waits keeps a stack:
//! [`Builder::fiber_stack_size`](crate::Builder::fiber_stack_size) bytes of address space, one or two pages
//! of memory. Linux since 6.13 guards stacks without mappings; before, each takes two of the process's 65 530
//! mappings (`vm.max_map_count`), so some 32 000 fibers are the end. A fiber that gets no stack ends with
//! [`JoinError::NoStack`](crate::JoinError::NoStack).
//!
//! | file | job |
//! |---|---|
//! | `one` | one fiber, and how it waits |
//! | `fiber_waker` | what a fiber's wakers ring |
//! | `fibers` | a thread's fibers |
//! | `beside` | those that are to start on it |
//! | `scope` | fibers that borrow |
//! | `jump`, `coroutine`, `twin` | switching stacks: on x86-64 Linux; elsewhere; and with threads, for the model checkers and where stacks cannot be switched |
//! | `stack`, `memory` | stacks and the memory for them |
//! | `overflow` | the report of an overflow |
//! | `no_memory`, `no_overflow` | what goes with `twin` |

#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod scope;

pub use crate::coroutine::stack::Fibers;
pub use scope::{Scope, scope};

use crate::execution::listen::block_on;
use crate::execution::stack_context;
use crate::runtime::spawn::TaskBuilder;
use crate::runtime::spawn_error::SpawnError;
use warpweft_task::JoinHandle;

/// Spawns a fiber on the pool of the calling task; outside of any, on the [default
/// runtime](crate::default_runtime).
///
/// Costs one allocation, and a stack when it starts. Dropping the handle detaches it. If there is no stack
/// for it, the handle gives [`JoinError::NoStack`](crate::JoinError::NoStack).
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

/// Spawns a fiber that belongs to the calling one's thread, like the caller: for fibers that mostly talk to
/// each other.
///
/// A transfer between fibers of one thread is a switch of stacks, some ten nanoseconds; one between two
/// threads sets another processor to work, which takes a hundred times as long if that one sleeps. But nobody
/// else starts it, whatever waits for this thread and however idle the others are: so spawn those beside each
/// other that take turns, and the leader of each such group by [`spawn`]. Not for fibers that compute at the
/// same time: they would do so one after the other.
///
/// It starts as soon as a fiber that was woken now would go on: it is behind those that were spawned beside
/// others before, takes turns with those that are ready, and the policy is not asked. Its handle, its panics,
/// its cancellation and the end of the runtime are as with [`spawn`]; whether the caller still lives does not
/// matter.
///
/// If the caller is no fiber, or its thread has no worker because it is in [`blocking`](crate::blocking) or
/// the runtime shuts down, or it visits another runtime, this is [`spawn`].
///
/// Costs what [`spawn`] does, less the way through the policy's queues.
///
/// ```
/// use warpweft::{Runtime, fiber, sync};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let sum = runtime.spawn_fiber(|| {
///     let (numbers, taken) = sync::channel::bounded(0);
///     // Each number is a switch to the other fiber and back, and no other thread is woken.
///     let producer = fiber::spawn_local(move || {
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
pub fn spawn_local<T, F>(body: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    TaskBuilder::new().spawn_fiber_local(body)
}

/// [`spawn`], with the stack taken at once.
///
/// # Errors
///
/// [`SpawnError::NoStack`]: there is no stack for it. `body` was dropped.
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

/// Waits for a future in direct style: in a fiber this switches to other work until the future has a result.
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

/// Gives way: other fibers of this thread, and tasks, have their turn. Whether this is a fiber that can;
/// elsewhere nothing happens.
///
/// If nothing else is known to be ready it goes on in place, at most 16 times in a row; then its worker looks
/// for tasks, and, as often as between tasks, at timers, sockets and what comes from outside.
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
