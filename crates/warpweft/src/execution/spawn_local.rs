//! Fibers that are to start on this thread, beside one that runs on it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use warpweft_task::Runnable;

/// Those of one thread, oldest first.
#[derive(Debug, Default)]
pub(crate) struct SpawnLocal {
    tasks: RefCell<VecDeque<Runnable>>,
    /// Whether the last turn was the start of one.
    had_turn: Cell<bool>,
}

impl SpawnLocal {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.borrow().is_empty()
    }

    pub(crate) fn push(&self, task: Runnable) {
        self.tasks.borrow_mut().push_back(task);
    }

    /// The next one that is to start.
    pub(crate) fn take(&self) -> Option<Runnable> {
        let task = self.tasks.borrow_mut().pop_front();
        self.had_turn.set(task.is_some());
        task
    }

    /// The same, if it is its turn: starts and fibers that go on take turns.
    #[inline]
    pub(crate) fn take_in_turn(&self) -> Option<Runnable> {
        if self.is_empty() || self.had_turn.replace(false) {
            return None;
        }
        self.take()
    }
}
