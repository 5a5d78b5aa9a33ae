//! Building a runtime from a stack that is too small for it: a fiber's, or a handled body's.

use super::build_error::BuildError;
use super::handle::Runtime;
use crate::execution::bodies;
use crate::execution::stack_context::{self, StackContext};
use std::panic::resume_unwind;
use warpweft_platform::thread::spawn_named;

/// Whether the calling stack is a fiber's, or a handled body's.
pub(crate) fn is_here() -> bool {
    !bodies::innermost().is_null() || stack_context::here().and_then(StackContext::label).is_some()
}

/// Builds the runtime by `build` on a thread that is made for it, for which the caller waits: some of what is
/// built is large before it has its place.
///
/// # Errors
///
/// As `build`; or the system gives no thread.
pub(crate) fn on_own_thread(
    build: impl FnOnce() -> Result<Runtime, BuildError> + Send + 'static,
) -> Result<Runtime, BuildError> {
    let thread = spawn_named("warpweft-build", None, build);
    let thread = thread.map_err(|source| BuildError::Build { source })?;
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
