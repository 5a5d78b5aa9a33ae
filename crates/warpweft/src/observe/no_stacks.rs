//! No stacks: the feature is off, or this system's are not read.

use super::stack::{NoStack, Stack};
use warpweft_platform::stack_copy::{Describe, NoCopy, StackCopy};

/// A stack that was asked for: why there is none.
#[derive(Debug)]
pub(crate) struct Reading(NoStack);

impl Reading {
    /// As in `stacks.rs`.
    #[allow(clippy::unnecessary_wraps, reason = "as in `stacks.rs`")]
    pub(crate) fn new(_thread: u32, _signal: Option<i32>, _describe: Describe) -> Result<Self, NoStack> {
        Ok(Self(if cfg!(feature = "stacks") {
            NoCopy::Unsupported.into()
        } else {
            NoStack::NotBuilt
        }))
    }

    /// As in `stacks.rs`.
    pub(crate) fn poll(
        &mut self,
        _on_copy: impl FnOnce(&StackCopy) -> bool,
    ) -> Option<Result<Stack, NoStack>> {
        Some(Err(self.0.clone()))
    }

    /// As in `stacks.rs`.
    pub(crate) fn give_up(self) -> Result<Stack, NoStack> {
        Err(self.0)
    }
}
