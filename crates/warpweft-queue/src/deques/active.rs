//! The deque that a worker works on.

use crate::{Full, Lifo, Owner, Thief, Word};
use std::fmt;

/// A worker's active deque. Only that worker uses it.
///
/// ```compile_fail,E0277
/// # use warpweft_queue::Active;
/// fn shared<S: Sync>() {}
/// shared::<Active<Box<u8>>>();
/// ```
pub struct Active<T: Word> {
    pub(super) worker: usize,
    pub(super) stack: Option<Lifo<T>>,
}

impl<T: Word> Active<T> {
    /// Adds a task at the bottom. No lock, no read-modify-write instruction.
    ///
    /// # Errors
    ///
    /// [`Full`] with the task if there is no room, or no deque yet: [`Deques::push`](crate::Deques::push)
    /// helps.
    #[inline]
    pub fn push(&mut self, task: T) -> Result<(), Full<T>> {
        match &mut self.stack {
            Some(stack) => stack.push(task),
            None => Err(Full(task)),
        }
    }

    /// Takes the youngest task, without a lock, as [`Lifo`] does.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.stack.as_mut()?.pop()
    }

    /// Takes the oldest task, as a thief would.
    pub fn pop_top(&mut self) -> Option<T> {
        self.stack.as_ref()?.thief().steal_one().taken()
    }

    /// Returns true if there is no task. Stays true until this worker pushes or takes over a deque.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stack.as_ref().is_none_or(Lifo::is_empty)
    }
}

impl<T: Word> fmt::Debug for Active<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Active")
            .field("worker", &self.worker)
            .field("stack", &self.stack)
            .finish()
    }
}
