//! Parts that every workload needs around its run: time zero, a task from outside, the check of the result.

use std::future::Future;
use std::sync::mpsc;
use std::time::Instant;

use harness::{LabError, Outcome};

use super::host;
use crate::idioms::{JobPool, TaskPool};

/// Fails unless what was counted is what was expected.
///
/// # Errors
///
/// It is not.
pub fn check<T: PartialEq + std::fmt::Debug>(what: &str, counted: &T, expected: &T) -> Result<(), LabError> {
    if counted == expected {
        return Ok(());
    }
    Err(LabError::Wrong(format!(
        "{what}: {counted:?} counted, {expected:?} expected"
    )))
}

/// The time zero of a run's recorders.
pub fn base() -> Instant {
    host::now()
}

/// Runs a future as a task of the pool and gives back what it says.
///
/// # Errors
///
/// The task was dropped before its end.
pub fn inside<P: TaskPool, T: Send + 'static>(
    pool: &P,
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, LabError> {
    let (done, finished) = mpsc::channel();
    pool.start(async move {
        // The receiver is there: it waits for exactly this.
        done.send(future.await).ok();
    });
    host::receive(&finished).map_err(|_| dropped())
}

/// Runs a closure as a task of the pool and gives back what it says.
///
/// # Errors
///
/// The task was dropped before its end.
pub fn inside_job<P: JobPool, T: Send + 'static>(
    pool: &P,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LabError> {
    let (done, finished) = mpsc::channel();
    pool.start(move || {
        // The receiver is there: it waits for exactly this.
        done.send(job()).ok();
    });
    host::receive(&finished).map_err(|_| dropped())
}

/// A task did not end.
pub(crate) fn dropped() -> LabError {
    LabError::Wrong(String::from("a task was dropped before its end"))
}

/// Nanoseconds for each of `count`, as a figure beside the throughput.
pub(crate) fn each(count: u64, elapsed: std::time::Duration, measure: &str) -> Outcome {
    let nanos = elapsed.as_nanos() as f64 / count.max(1) as f64;
    Outcome::new(count, elapsed).with_measure(measure, nanos)
}
