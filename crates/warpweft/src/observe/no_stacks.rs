//! No stacks: the feature is off, or this system's are not read.

use super::stack::{NoStack, Stack};
use std::time::Duration;
use warpweft_platform::stack_copy::{Describe, NoCopy, StackCopy};

/// As in `stacks.rs`.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "as in `stacks.rs`")]
pub(crate) struct Ends {
    pub(crate) names_ns: u64,
    pub(crate) addresses_ns: u64,
}

/// As in `stacks.rs`.
pub(crate) const PATIENCE: Duration = Duration::ZERO;

/// Returns why no stack is read in this program.
#[allow(clippy::unnecessary_wraps, reason = "as in `stacks.rs`")]
pub(crate) fn why_none() -> Option<NoStack> {
    Some(if cfg!(feature = "stacks") {
        NoCopy::Unsupported.into()
    } else {
        NoStack::NotBuilt
    })
}

/// As in `stacks.rs`: there is nothing to read.
pub(crate) fn prepare() {}

/// As in `stacks.rs`: there is nothing to name.
pub(super) fn named_soon(_stack: &Stack) -> Option<Stack> {
    None
}

/// As in `stacks.rs`. It is not called while there is a reason for none.
#[allow(clippy::needless_pass_by_value, reason = "as in `stacks.rs`")]
pub(crate) fn of_copies(copies: Vec<StackCopy>, _ends: Ends) -> Vec<Result<Stack, NoStack>> {
    copies.iter().map(|_| Err(NoStack::NotRead)).collect()
}

/// A stack that was asked for: why there is none.
#[derive(Debug)]
pub(crate) struct Reading(NoStack);

impl Reading {
    /// As in `stacks.rs`.
    #[allow(clippy::unnecessary_wraps, reason = "as in `stacks.rs`")]
    pub(crate) fn new(_thread: u32, _signal: Option<i32>, _describe: Describe) -> Result<Self, NoStack> {
        Ok(Self(why_none().unwrap_or(NoStack::NotBuilt)))
    }

    /// As in `stacks.rs`.
    pub(crate) fn poll(
        &mut self,
        _on_copy: impl FnOnce(&StackCopy) -> bool,
    ) -> Option<Result<Stack, NoStack>> {
        Some(Err(self.0.clone()))
    }

    /// As in `stacks.rs`.
    #[allow(clippy::unused_self, reason = "as in `stacks.rs`")]
    pub(crate) fn early(&self) -> Option<Stack> {
        None
    }

    /// As in `stacks.rs`.
    pub(crate) fn give_up(self) -> Result<Stack, NoStack> {
        Err(self.0)
    }
}
