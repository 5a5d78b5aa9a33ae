//! Building a runtime from a stack that is too small for it: a fiber's, or a handled body's.

use super::build_error::BuildError;
use super::builder::Builder;
use super::handle::Runtime;
use crate::execution::body_link;
use crate::execution::stack_context::{self, StackContext};
use std::panic::resume_unwind;
use warpweft_platform::thread::spawn_named;

/// Whether the calling stack is a fiber's, or a handled body's.
pub(crate) fn is_here() -> bool {
    !body_link::innermost().is_null() || stack_context::here().and_then(StackContext::label).is_some()
}

/// Builds the runtime on a thread of its own, for which the caller waits: some of what is built is large before it has its place.
///
/// # Errors
///
/// As [`Builder::build`].
pub(crate) fn build(builder: Builder) -> Result<Runtime, BuildError> {
    let thread = spawn_named("warpweft-build", None, move || builder.build());
    let thread = thread.map_err(|source| BuildError::Build { source })?;
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
