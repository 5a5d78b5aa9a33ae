//! What a dump sees of the tasks in a policy's queues.
//!
//! # Invariants
//!
//! - From before the first task is shown until the last one was looked at, no task's memory is freed. So a
//!   task may be looked at that others take out and end meanwhile. See `reclamation.rs`.

use crate::reclamation::{EndedTask, Hold, hold_tasks};
use crate::task_ref::TaskRef;
use crate::task_view::{TaskView, look_at_word};
use std::num::NonZeroUsize;
use warpweft_queue::Peek;

/// Is shown the tasks in a policy's queues, for a dump: up to a number of them.
///
/// ```
/// use warpweft_queue::Locked;
/// use warpweft_task::{QueueViewer, TaskRef};
///
/// fn show(ready: &Locked<TaskRef>, viewer: &mut QueueViewer) {
///     ready.for_each(viewer.room(), |task| viewer.see(task));
/// }
/// # // SAFETY: there is no `Peek`.
/// # let mut viewer = unsafe { QueueViewer::new(10) }.unwrap();
/// # show(&Locked::new(), &mut viewer);
/// # assert_eq!(viewer.room(), 10);
/// ```
#[derive(Debug)]
pub struct QueueViewer {
    tasks: Vec<NonZeroUsize>,
    most: usize,
    _hold: Hold<'static, EndedTask>,
}

impl QueueViewer {
    /// Makes a viewer of up to `most` tasks. Costs a system call. While it exists, tasks that end are not
    /// freed: so it is kept for some milliseconds at most.
    ///
    /// `None` where the kernel has no process-wide barrier (`membarrier` of Linux), in a forked child that
    /// has lost a lock, and in builds for model checkers.
    ///
    /// # Safety
    ///
    /// It is not shown a [`Peek`] that is older than it is: no call of `peek` is on the stack that would have
    /// one to show.
    #[must_use]
    pub unsafe fn new(most: usize) -> Option<Self> {
        Some(Self {
            tasks: Vec::new(),
            most,
            _hold: hold_tasks()?,
        })
    }

    /// Returns how many more tasks it wants to see.
    #[must_use]
    pub fn room(&self) -> usize {
        self.most - self.tasks.len()
    }

    /// Is shown a task. The caller has it, or has locked the queue that has it.
    pub fn see(&mut self, task: &TaskRef) {
        self.add(task.word());
    }

    /// Is shown a task of a queue without a lock.
    pub fn peek(&mut self, task: &Peek<'_, TaskRef>) {
        self.add(task.word());
    }

    fn add(&mut self, word: NonZeroUsize) {
        if self.room() > 0 {
            self.tasks.push(word);
        }
    }

    /// Looks at the tasks that it was shown, but for those that have ended.
    pub fn look(self, mut see: impl FnMut(TaskView)) {
        for &task in &self.tasks {
            // SAFETY: the task was in a queue after the hold began, by the contract of `new`. So its memory
            // is there until the hold ends, after this.
            if let Some(task) = unsafe { look_at_word(task) } {
                see(task);
            }
        }
    }
}
