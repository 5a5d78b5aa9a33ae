//! Functions that make tasks, each in the span of its spawn site. Without the feature `tracing` they are
//! those of the crate `warpweft_task`.

use super::spans::SpawnSpan;
use warpweft_task::spawn::{self, TaskAlloc};
use warpweft_task::{JoinHandle, Runnable, StackRunner};

/// As [`spawn::job`].
/// Contract: as for [`spawn::job`].
pub(crate) unsafe fn job<T, F>(closure: F, info: impl TaskAlloc) -> (Runnable, JoinHandle<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let span = SpawnSpan::of_task("job", &info);
    // SAFETY: by contract the pool outlives its unfinished tasks.
    unsafe { spawn::job(move || span.run(closure), info) }
}

/// As [`spawn::blocking_job`], in that span: the caller has a lock, under which no subscriber is called.
/// Contract: as for [`spawn::job`].
pub(crate) unsafe fn blocking_job<T, F>(
    closure: F,
    span: SpawnSpan,
    info: impl TaskAlloc,
) -> (Runnable, JoinHandle<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    // SAFETY: by contract the pool outlives its unfinished tasks.
    unsafe { spawn::blocking_job(move || span.run(closure), info) }
}

/// As [`spawn::detached_job`].
/// Contract: as for [`spawn::job`].
#[must_use]
pub(crate) unsafe fn detached_job<F>(closure: F, info: impl TaskAlloc) -> Runnable
where
    F: FnOnce() + Send + 'static,
{
    let span = SpawnSpan::of_task("job", &info);
    // SAFETY: by contract the pool outlives its unfinished tasks.
    unsafe { spawn::detached_job(move || span.run(closure), info) }
}

/// As [`spawn::future`].
/// Contract: as for [`spawn::job`].
pub(crate) unsafe fn future<F>(future: F, info: impl TaskAlloc) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let span = SpawnSpan::of_task("future", &info);
    // SAFETY: by contract the pool outlives its unfinished tasks.
    unsafe { spawn::future(span.around(future), info) }
}

/// As [`spawn::on_stack_job`].
/// Contract: as for [`spawn::job`].
pub(crate) unsafe fn on_stack_job<T, F>(
    closure: F,
    runner: impl StackRunner,
    info: impl TaskAlloc,
) -> (Runnable, JoinHandle<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let span = SpawnSpan::of_task("fiber", &info);
    // SAFETY: by contract the pool outlives its unfinished tasks.
    unsafe { spawn::on_stack_job(move || span.run(closure), runner, info) }
}

/// As [`spawn::detached_on_stack_job`].
/// Contract: as for [`spawn::job`].
#[must_use]
pub(crate) unsafe fn detached_on_stack_job<F>(
    closure: F,
    runner: impl StackRunner,
    info: impl TaskAlloc,
) -> Runnable
where
    F: FnOnce() + Send + 'static,
{
    let span = SpawnSpan::of_task("fiber", &info);
    // SAFETY: by contract the pool outlives its unfinished tasks.
    unsafe { spawn::detached_on_stack_job(move || span.run(closure), runner, info) }
}
