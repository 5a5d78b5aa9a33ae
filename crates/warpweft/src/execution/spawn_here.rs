//! Fibers that will start on this thread, spawned by a fiber that runs on it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use warpweft_task::Runnable;

/// The fibers of one thread that have not started, oldest first.
#[derive(Debug, Default)]
pub(crate) struct SpawnHere {
    tasks: RefCell<VecDeque<Runnable>>,
    /// True if the last turn was a start.
    had_turn: Cell<bool>,
}

impl SpawnHere {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.borrow().is_empty()
    }

    pub(crate) fn push(&self, task: Runnable) {
        self.tasks.borrow_mut().push_back(task);
    }

    pub(crate) fn take(&self) -> Option<Runnable> {
        let task = self.tasks.borrow_mut().pop_front();
        self.had_turn.set(task.is_some());
        task
    }

    /// Takes the next fiber to start if it is its turn: starts and continuing fibers alternate.
    #[inline]
    pub(crate) fn take_next(&self) -> Option<Runnable> {
        if self.is_empty() || self.had_turn.replace(false) {
            return None;
        }
        self.take()
    }
}
