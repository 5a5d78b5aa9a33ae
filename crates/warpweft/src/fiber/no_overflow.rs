//! Where a fiber's stack is a thread's (see `on_thread.rs`), the system reports its overflow.

use super::stack::Stack;
use std::panic::Location;
use warpweft_task::TaskInfo;

/// As in `overflow.rs`: nothing is to be said of a fiber.
#[derive(Debug)]
pub(crate) struct Label;

impl Label {
    pub(crate) fn of(_what: &'static str, stack: &Stack) -> Self {
        debug_assert!(stack.limit() < stack.top() && stack.bytes() > 0);
        Self
    }

    #[allow(clippy::unused_self, reason = "as in `overflow.rs`")]
    pub(crate) fn write_location(&self, _location: &'static Location<'static>) {}

    #[allow(clippy::unused_self, reason = "as in `overflow.rs`")]
    pub(super) fn write(&self, _info: TaskInfo<'_>) {}
}

pub(crate) fn watch() {}
