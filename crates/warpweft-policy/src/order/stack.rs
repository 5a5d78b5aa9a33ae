//! The order of work-stealing deques, as rayon has it.
//!
//! ```text
//!   push ─────▶ [oldest … newest] ─▶ pop
//!   give_way ─▶ [behind] ──────────▶ pop, after one task that was below when it came
//!   pool's queue, oldest first ────▶ one at a time, when the stack is empty
//! ```
//!
//! A task that yields lets one other task run: the newest of the stack. To push it below that one is not
//! enough, because where several yield, each would let another one run that yields, and an older task would
//! wait for ever. In `behind` a task is not in the way of the next one that yields.
//!
//! # Invariants
//!
//! - While `behind` is not empty, `due` and the number of `levels` together are at least its length: thieves
//!   only take from it. So each task there has its turn.

use super::plain::push_grown;
use super::{LocalQueue, LocalQueueThief, OneClass, Order};
use crate::{Cx, PolicyError};
use std::fmt;
use warpweft_queue::{Amount, Fifo, FifoThief, Full, Glance, Lifo, LifoThief, Owner as _, Steal, Thief as _};
use warpweft_task::{QueueViewer, TaskRef};

/// Newest first, as [`LifoOrder`](super::LifoOrder), and the oldest task has no turn before that: it waits
/// until all newer ones have run, or a thief takes it. This is the order of work-stealing deques (Chase and
/// Lev 2005; rayon). Where tasks wake each other all the time, an older one may wait for ever.
///
/// A task that yields [to its worker](crate::YieldTo::Local) lets one other task run. Tasks from outside of
/// the pool run oldest first: a worker takes one of them when it has nothing.
///
/// No text names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackOrder;

impl fmt::Display for StackOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stack")
    }
}

impl Order for StackOrder {
    type LocalQueue = StackLocalQueue;
    type Classes = OneClass;
    const NEWEST_FIRST: bool = true;
    const GIVES_WAY: bool = true;

    fn local_queue(&self, capacity: usize) -> Result<Self::LocalQueue, PolicyError> {
        Ok(StackLocalQueue {
            stack: Lifo::with_capacity(capacity)?,
            behind: Fifo::with_capacity(1)?,
            levels: Vec::new(),
            due: 0,
        })
    }
}

/// A stack, and the tasks that let one of it run.
pub struct StackLocalQueue {
    stack: Lifo<TaskRef>,
    behind: Fifo<TaskRef>,
    /// For each task in `behind` that waits: how long the stack is when one that was there has been taken.
    levels: Vec<usize>,
    /// How many of the tasks in `behind` have waited.
    due: usize,
}

/// Both queues as other workers use them.
pub struct StackThief {
    stack: LifoThief<TaskRef>,
    behind: FifoThief<TaskRef>,
}

impl StackLocalQueue {
    /// Takes a task while there are some that yield.
    #[cold]
    fn pop_beside_yields(&mut self) -> Option<TaskRef> {
        if self.due > 0 {
            self.due -= 1;
            let task = self.behind.pop();
            if task.is_some() {
                return task;
            }
            // Thieves have taken them.
            (self.due, self.levels) = (0, Vec::new());
        }
        let Some(task) = self.stack.pop() else {
            self.levels.pop();
            return self.behind.pop();
        };
        let (left, waiting) = (self.stack.len(), self.levels.len());
        self.levels.retain(|level| *level < left);
        self.due += waiting - self.levels.len();
        Some(task)
    }
}

impl LocalQueue for StackLocalQueue {
    type Thief = StackThief;

    #[inline]
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.stack.push(task)
    }

    fn give_way(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        match self.behind.push(task) {
            Ok(()) => {}
            Err(Full(task)) => push_grown(&mut self.behind, task)?,
        }
        self.levels.push(self.stack.len().saturating_sub(1));
        Ok(())
    }

    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        push_grown(&mut self.stack, task)
    }

    #[inline]
    fn pop(&mut self, _: &Cx<'_>) -> Option<TaskRef> {
        if self.due > 0 || !self.levels.is_empty() {
            return self.pop_beside_yields();
        }
        self.stack.pop()
    }

    fn pop_newest(&mut self) -> Option<TaskRef> {
        self.stack.pop()
    }

    fn drain(&mut self, _: &Cx<'_>) -> Vec<TaskRef> {
        let mut tasks: Vec<_> = std::iter::from_fn(|| self.stack.pop()).collect();
        tasks.extend(std::iter::from_fn(|| self.behind.pop()));
        tasks.reverse();
        tasks
    }

    #[inline]
    fn len(&self) -> usize {
        self.stack.len() + self.behind.len()
    }

    /// None for a share of the pool's queue: in the stack its tasks would run newest first.
    fn room(&self) -> usize {
        0
    }

    fn thief(&self) -> StackThief {
        StackThief {
            stack: self.stack.thief(),
            behind: self.behind.thief(),
        }
    }
}

impl LocalQueueThief<StackLocalQueue> for StackThief {
    /// Each mark changes with what is taken there, and grows, so their sum changes with either.
    fn glance(&self) -> Glance {
        let (stack, behind) = (self.stack.glance(), self.behind.glance());
        Glance {
            len: stack.len + behind.len,
            mark: stack.mark.wrapping_add(behind.mark),
        }
    }

    fn steal_into(&self, into: &mut StackLocalQueue, amount: Amount) -> Steal<TaskRef> {
        match self.stack.steal_into(&mut into.stack, amount) {
            Steal::Empty => self.behind.steal_one(),
            other => other,
        }
    }

    fn steal_one(&self) -> Steal<TaskRef> {
        match self.stack.steal_one() {
            Steal::Empty => self.behind.steal_one(),
            other => other,
        }
    }

    fn show(&self, viewer: &mut QueueViewer) {
        self.stack.peek(viewer.room(), &mut |task| viewer.peek(&task));
        self.behind.peek(viewer.room(), &mut |task| viewer.peek(&task));
    }
}
