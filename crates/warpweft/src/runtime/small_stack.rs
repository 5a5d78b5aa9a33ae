//! Builds a runtime for a caller on a small stack: a fiber's, or a handled body's.

use super::build_error::BuildError;
use super::handle::Runtime;
use crate::execution::bodies;
use crate::execution::stack_context::{self, StackContext};
use std::panic::resume_unwind;
use warpweft_platform::thread::spawn_named;

/// Returns true if the caller runs on the stack of a fiber or of a handled body.
pub(crate) fn is_here() -> bool {
    !bodies::innermost().is_null() || stack_context::here().and_then(StackContext::label).is_some()
}

/// Runs `build` on a new thread and waits for it. Some parts of a runtime are large on the stack before they
/// are moved to the heap.
///
/// # Errors
///
/// As `build`, or the system starts no thread.
pub(crate) fn on_own_thread(
    build: impl FnOnce() -> Result<Runtime, BuildError> + Send + 'static,
) -> Result<Runtime, BuildError> {
    let thread = spawn_named("warpweft-build", None, build);
    let thread = thread.map_err(|source| BuildError::Build { source })?;
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
