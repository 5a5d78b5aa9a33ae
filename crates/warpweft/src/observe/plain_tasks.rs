//! Functions that make tasks: without the feature `tracing` those of the crate `warpweft_task`.

use super::spans::SpawnSpan;
use warpweft_task::spawn::{self, TaskAlloc};
use warpweft_task::{JoinHandle, Runnable};

pub(crate) use warpweft_task::spawn::{detached_job, detached_on_stack_job, future, job, on_stack_job};

/// As in `tasks.rs`.
/// Contract: as for [`spawn::job`].
pub(crate) unsafe fn blocking_job<T, F>(
    closure: F,
    _span: SpawnSpan,
    info: impl TaskAlloc,
) -> (Runnable, JoinHandle<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    // SAFETY: by contract the pool outlives its unfinished tasks.
    unsafe { spawn::blocking_job(closure, info) }
}
