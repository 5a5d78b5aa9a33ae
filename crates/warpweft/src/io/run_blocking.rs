//! Operations for which the system blocks a thread: files and names.

use crate::execution::token::with_token;
use crate::runtime::spawn_blocking;
use std::future::poll_fn;
use std::io;
use std::panic::resume_unwind;
use std::pin::pin;
use warpweft_task::JoinError;

/// Calls `operation` on a thread for closures that block, and returns its result. If the future is dropped
/// after the operation has begun, the operation runs to its end. It is under no token: a future that has a
/// grace may use files in it.
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
    let mut operation = pin!(with_token(None, || spawn_blocking(operation)).into_future());
    match poll_fn(|cx| with_token(None, || operation.as_mut().poll(cx))).await {
        Ok(result) => result,
        Err(JoinError::Panicked(panic)) => resume_unwind(panic.into_payload()),
        Err(JoinError::Shutdown) => Err(crate::driver::shut_down()),
        Err(JoinError::Forked) => Err(crate::driver::forked()),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}
