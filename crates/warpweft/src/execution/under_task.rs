//! A stack whose frame waits while other tasks run on top of it.

use super::part_of_fork::PartOfFork;
use super::stack_context::StackContext;
use crate::fork::stealable::Stealable;
use std::ptr;

/// Marks a stack on which other tasks run, until it is dropped.
pub(super) struct UnderTask<'a> {
    context: &'a StackContext,
    was_under: bool,
    /// The other tasks are no part of it, nor is what they take.
    part: *const PartOfFork,
    /// Nor are they parts of the stolen fork that the stack runs.
    ancestor: *const Stealable,
}

impl<'a> UnderTask<'a> {
    pub(super) fn new(context: &'a StackContext) -> Self {
        Self {
            context,
            was_under: context.is_under_task.replace(true),
            part: context.part.replace(ptr::null()),
            ancestor: context.forks().replace_ancestor(ptr::null()),
        }
    }
}

impl Drop for UnderTask<'_> {
    fn drop(&mut self) {
        self.context.is_under_task.set(self.was_under);
        self.context.part.set(self.part);
        self.context.forks().replace_ancestor(self.ancestor);
    }
}
