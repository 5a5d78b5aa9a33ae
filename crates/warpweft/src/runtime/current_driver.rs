//! Finds the driver for sockets and timers of the calling thread.

use super::build_error::BuildError;
use super::default::try_default_runtime;
use super::shutdown::is_own_thread;
use crate::driver::core::Driver;
use crate::pool::current::{WorkerRef, with_current};
use std::io;
use std::sync::Arc;

/// Returns the driver of the pool that this thread works for or has entered, with the number of its worker.
/// Outside of any pool it returns the driver of the default runtime.
///
/// # Errors
///
/// The pool is shutting down, this is a forked child, the system provides no poller, or the default runtime
/// cannot be built.
pub(crate) fn current_driver() -> io::Result<(Arc<Driver>, Option<usize>)> {
    let (driver, worker) = with_current(|worker_ref| match worker_ref {
        Some(worker_ref) => Ok::<_, io::Error>((worker_ref.driver()?, worker_ref.worker)),
        None => Ok((default_driver()?, None)),
    })?;
    driver.check()?;
    Ok((driver, worker))
}

/// Returns the driver of the default runtime, for an external thread that waits on although its pool has shut
/// down. `None` on a thread for whose end that pool waits.
///
/// # Errors
///
/// As [`current_driver`].
#[cold]
pub(crate) fn driver_elsewhere() -> io::Result<Option<Arc<Driver>>> {
    let is_own = |worker_ref: &WorkerRef| is_own_thread(&*worker_ref.keep());
    if with_current(|worker_ref| worker_ref.is_some_and(is_own)) {
        return Ok(None);
    }
    default_driver().map(Some)
}

fn default_driver() -> io::Result<Arc<Driver>> {
    let driver = try_default_runtime().map_err(BuildError::into_io)?.driver()?;
    driver.check()?;
    Ok(driver)
}
