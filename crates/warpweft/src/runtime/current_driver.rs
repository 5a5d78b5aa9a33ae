//! Finds the driver for sockets and timers of the calling thread.

use super::build_error::BuildError;
use super::default::try_default_runtime;
use crate::driver::core::Driver;
use crate::pool::current::with_current;
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
        None => Ok((
            try_default_runtime().map_err(BuildError::into_io)?.driver()?,
            None,
        )),
    })?;
    driver.check()?;
    Ok((driver, worker))
}
