//! A stack whose frame waits while other tasks run on top of it.

use super::stack_context::StackContext;

/// Marks a stack on which other tasks run, until it is dropped.
pub(super) struct UnderTask<'a>(&'a StackContext, bool);

impl<'a> UnderTask<'a> {
    pub(super) fn new(context: &'a StackContext) -> Self {
        Self(context, context.is_under_task.replace(true))
    }
}

impl Drop for UnderTask<'_> {
    fn drop(&mut self) {
        self.0.is_under_task.set(self.1);
    }
}
