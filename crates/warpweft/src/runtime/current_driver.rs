//! The driver that sockets and timers of the calling thread belong to.

use super::build_error::BuildError;
use super::default::try_default_runtime;
use crate::driver::core::Driver;
use crate::pool::current::with_current;
use std::io;
use std::sync::Arc;

/// The driver of the pool that this thread works for or visits, and the number of its worker; outside of any,
/// of the default runtime.
///
/// # Errors
///
/// The pool is shutting down, this is a forked child, the system gives no poller, or the default runtime
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
