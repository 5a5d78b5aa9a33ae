//! What the system does only while a thread waits for it: files, names.

use crate::runtime::spawn_blocking;
use std::io;
use std::panic::resume_unwind;
use warpweft_task::JoinError;

/// Calls `operation` on a thread for closures that block, and gives its result. If the future is dropped, the
/// operation goes on alone once it has begun.
///
/// # Errors
///
/// Its own; and if it was not called, why: the runtime shuts down, this is a forked child, there is no
/// thread.
///
/// # Panics
///
/// If `operation` does.
pub(crate) async fn run_blocking<T: Send + 'static>(
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match spawn_blocking(operation).await {
        Ok(result) => result,
        Err(JoinError::Panicked(panic)) => resume_unwind(panic),
        Err(JoinError::Shutdown) => Err(crate::driver::shut_down()),
        Err(JoinError::Forked) => Err(crate::driver::forked()),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}
