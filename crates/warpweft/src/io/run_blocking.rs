//! Operations for which the system blocks a thread: files and names.

use crate::runtime::spawn_blocking;
use std::io;
use std::panic::resume_unwind;
use warpweft_task::JoinError;

/// Calls `operation` on a thread for closures that block, and returns its result. If the future is dropped
/// after the operation has begun, the operation runs to its end.
///
/// # Errors
///
/// Its own; or, if it was not called, the reason: the runtime shuts down, this is a forked child, or there is
/// no thread.
///
/// # Panics
///
/// If `operation` does.
pub(crate) async fn run_blocking<T: Send + 'static>(
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match spawn_blocking(operation).await {
        Ok(result) => result,
        Err(JoinError::Panicked(panic)) => resume_unwind(panic.into_payload()),
        Err(JoinError::Shutdown) => Err(crate::driver::shut_down()),
        Err(JoinError::Forked) => Err(crate::driver::forked()),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}
