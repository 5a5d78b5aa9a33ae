//! The free functions that spawn: on the pool of the calling task, or on the default runtime.

use super::task_builder::TaskBuilder;
use warpweft_task::JoinHandle;

/// Spawns a future on the pool of the calling task, or outside of any pool on the [default
/// runtime](crate::default_runtime).
///
/// Costs one allocation. Dropping the handle detaches the task.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// let sum = runtime.block_on(async {
///     let parts: Vec<_> = (0..10u64).map(|n| warpweft::spawn(async move { n * n })).collect();
///     let mut sum = 0;
///     for part in parts {
///         sum += part.await?;
///     }
///     Ok::<_, warpweft::JoinError>(sum)
/// });
/// assert_eq!(sum.ok(), Some(285));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    TaskBuilder::new().spawn(future)
}

/// Spawns a closure on the pool of the calling task, or outside of any pool on the [default
/// runtime](crate::default_runtime).
///
/// Costs one allocation. Dropping the handle detaches the task.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
#[track_caller]
pub fn spawn_job<T, F>(job: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    TaskBuilder::new().spawn_job(job)
}

/// Spawns a closure without a handle, on the pool of the calling task, or outside of any pool on the [default
/// runtime](crate::default_runtime).
///
/// This is the cheapest form: its end costs no atomic read-modify-write. Its panics are
/// told to the function of [`Builder::on_panic`](crate::Builder::on_panic), or written to the standard error.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
#[track_caller]
pub fn spawn_detached<F>(job: F)
where
    F: FnOnce() + Send + 'static,
{
    TaskBuilder::new().spawn_detached(job);
}

/// Spawns a future that is not `Send`, made by `make` on the thread where it stays: on the pool of the
/// calling task, or outside of any pool on the [default runtime](crate::default_runtime).
///
/// `make` itself is `Send`, because any worker may start it. What it makes is polled and dropped on that one
/// thread, so it may hold an [`Rc`](std::rc::Rc) or a thread-local's value across its waits. The thread stays
/// the same, but not the [worker](crate::current_worker) that it carries.
///
/// It is `make` and [`block_on`](crate::block_on) in a [fiber](crate::fiber), whose promises are its own: it
/// costs a stack, and a wait is a switch of stacks. Other tasks of the thread run meanwhile. **A task that
/// computes delays all local futures of its thread**, since no other thread can take them.
///
/// [`cancel`](JoinHandle::cancel) drops the future when something wakes it next. A runtime that shuts down
/// drops it where it waits, on its thread.
///
/// ```
/// use std::{cell::RefCell, rc::Rc};
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// let sum = runtime.block_on(warpweft::spawn_local(|| async {
///     let sum = Rc::new(RefCell::new(0));
///     for n in 1..=3 {
///         warpweft::yield_now().await;
///         *sum.borrow_mut() += n;
///     }
///     sum.take()
/// }));
/// assert_eq!(sum?, 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The handle returns those of every task, and [`JoinError::NoStack`](crate::JoinError::NoStack).
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
#[track_caller]
pub fn spawn_local<M, F>(make: M) -> JoinHandle<F::Output>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future<Output: Send + 'static> + 'static,
{
    TaskBuilder::new().spawn_local(make)
}
