//! Functions that make tasks.

use crate::cell::allocate;
pub use crate::cell::{SpawnInfo, TaskAlloc};
use crate::header::JoinerWaker;
use crate::join::JoinHandle;
use crate::kinds::{Async, Job, OnStack, Work};
use crate::on_stack::StackRunner;
use crate::runnable::Runnable;

/// A task that calls `closure` once.
///
/// # Safety
///
/// The pool outlives its unfinished tasks: it ends none of them later than itself.
pub unsafe fn job<T, F>(closure: F, info: impl TaskAlloc) -> (Runnable, JoinHandle<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    with_handle(Job::<_, true, false>(closure), info)
}

/// As [`job`], for a closure that may block: a report of its panic says so.
///
/// # Safety
///
/// As for [`job`].
pub unsafe fn blocking_job<T, F>(closure: F, info: impl TaskAlloc) -> (Runnable, JoinHandle<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    with_handle(Job::<_, true, true>(closure), info)
}

/// A task that calls `closure` once and has no handle. Its end costs no atomic read-modify-write.
///
/// # Safety
///
/// As for [`job`].
#[must_use]
pub unsafe fn detached_job<F>(closure: F, info: impl TaskAlloc) -> Runnable
where
    F: FnOnce() + Send + 'static,
{
    detached(Job::<_, false, false>(closure), info)
}

/// A task that drives `future` to its end.
///
/// # Safety
///
/// As for [`job`].
pub unsafe fn future<F>(future: F, info: impl TaskAlloc) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    with_handle(Async(future), info)
}

/// A task that `runner` runs, once, with `closure` as its body.
///
/// # Safety
///
/// As for [`job`].
pub unsafe fn on_stack_job<T, F>(
    closure: F,
    runner: impl StackRunner,
    info: impl TaskAlloc,
) -> (Runnable, JoinHandle<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let runner = Some(runner);
    with_handle(OnStack { closure, runner }, info)
}

/// A [`on_stack_job`] task without a handle.
///
/// # Safety
///
/// As for [`job`].
#[must_use]
pub unsafe fn detached_on_stack_job<F>(closure: F, runner: impl StackRunner, info: impl TaskAlloc) -> Runnable
where
    F: FnOnce() + Send + 'static,
{
    let runner = Some(runner);
    detached(OnStack { closure, runner }, info)
}

fn detached<W: Work>(work: W, info: impl TaskAlloc) -> Runnable {
    let header = allocate::<_, ()>(work, info);
    // SAFETY: the runnable of a fresh task is ours.
    unsafe { Runnable::from_header(header) }
}

fn with_handle<W: Work>(work: W, info: impl TaskAlloc) -> (Runnable, JoinHandle<W::Output>) {
    let header = allocate::<_, JoinerWaker>(work, info);
    // SAFETY: the runnable of a fresh task is ours.
    let runnable = unsafe { Runnable::from_header(header) };
    // SAFETY: its handle is ours, too: `allocate` counted it.
    (runnable, unsafe { JoinHandle::from_header(header) })
}
