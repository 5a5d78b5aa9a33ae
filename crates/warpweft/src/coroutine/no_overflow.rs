//! No overflow reports: where a fiber's stack is a thread's (see `on_thread.rs`), the system reports its
//! overflow.

use super::stack::StackMemory;
use std::panic::Location;
use warpweft_platform::stack_copy::StackDescription;
use warpweft_task::TaskInfo;

/// As in `overflow.rs`; it says nothing about a fiber.
#[derive(Debug)]
pub(crate) struct Label;

impl Label {
    pub(crate) fn of(_what: &'static str, stack: &StackMemory) -> Self {
        debug_assert!(stack.bottom() < stack.top() && stack.bytes() > 0);
        Self
    }

    #[allow(clippy::unused_self, reason = "as in `overflow.rs`")]
    pub(crate) fn write_location(&self, _location: &'static Location<'static>) {}

    #[allow(clippy::unused_self, reason = "as in `overflow.rs`")]
    pub(crate) fn write(&self, _info: TaskInfo<'_>) {}

    #[allow(clippy::unused_self, reason = "as in `overflow.rs`")]
    pub(crate) fn site(&self) -> (Option<Box<str>>, Option<&'static Location<'static>>) {
        (None, None)
    }
}

/// As in `overflow.rs`.
pub(crate) const FIBER: &str = "fiber";
/// As in `overflow.rs`.
pub(crate) const NOTED_FIBER: usize = 1;

/// As in `overflow.rs`; it says nothing.
pub(crate) fn describe(_note: &mut StackDescription) {}

/// As in `overflow.rs`.
pub(crate) type Find = fn() -> *const Label;

/// As in `overflow.rs`; it finds nothing.
#[derive(Debug)]
pub(crate) struct Finder;

pub(crate) static OF_POOLS: Finder = Finder;
pub(crate) static OUTSIDE: Finder = Finder;

impl Finder {
    #[allow(clippy::unused_self, reason = "as in `overflow.rs`")]
    pub(crate) fn watch(&self, _find: Find) {}
}
