//! Orders decide which of a worker's tasks is next. This is the hot axis of a policy: a type, compiled into
//! the worker's loop.
//!
//! ```text
//!   Order (a recipe) ─local_queue()─▶ LocalQueue (the worker's) ─thief()─▶ LocalQueueThief (all workers')
//!
//!   push ──▶ [ oldest … newest ] ──▶ pop: the task whose turn it is
//!               ▲ steal: the oldest   ▲ push_last: a task that has waited before
//! ```
//!
//! Orders nest: an outer order leaves to the inner one what it does not decide. So
//! `PriorityOrder<SlotOrder<FifoOrder>>` is an order, too.

mod any;
mod behind;
mod classes;
mod learn;
mod mixed;
mod plain;
mod priority;
mod shortest;
mod slot;
mod stack;
mod step_times;

use crate::{Cx, PolicyError};
use std::fmt;
use warpweft_queue::{Amount, Full, Glance, Steal};
use warpweft_task::{QueueViewer, TaskRef};

pub use any::{AnyLocalQueue, AnyOrder, AnyThief};
pub use behind::{BehindLocalQueue, BehindOrder, BehindThief};
pub use classes::{ClassPerLevel, Classes, OneClass};
pub use mixed::{Mix, MixedLocalQueue, MixedOrder};
pub use plain::{ChainOrder, FifoLocalQueue, FifoOrder, LifoLocalQueue, LifoOrder, PlainThief};
pub(crate) use priority::MOST_LEVELS;
pub use priority::{PriorityLocalQueue, PriorityOrder, PriorityThief};
pub use shortest::{ShortestLocalQueue, ShortestOrder, ShortestThief};
pub use slot::{SlotLocalQueue, SlotOrder, SlotThief};
pub use stack::{StackLocalQueue, StackOrder, StackThief};

/// The order of a worker's tasks: a recipe. `Display` prints its word in a policy's text.
pub trait Order: Clone + fmt::Display + Send + Sync + 'static {
    /// The queue that keeps a worker's tasks in this order.
    type LocalQueue: LocalQueue;

    /// [`ClassPerLevel`] if it uses the [priority](crate::priority) of a task, and [`OneClass`] if not.
    type Classes: Classes;

    /// True if `pop` favours the task that was pushed last. Then a task that yields to its own local queue
    /// goes behind the newest other one ([`LocalQueue::pop_newest`]), and not before all. By default it goes
    /// to the pool's queue.
    const NEWEST_FIRST: bool;

    /// True if a task that yields to its own local queue has a place of its own there
    /// ([`LocalQueue::give_way`]).
    const GIVES_WAY: bool = false;

    /// Returns how many priorities it distinguishes; the default is none.
    fn priorities(&self) -> u8 {
        0
    }

    /// Returns the least share of each priority, in percent of a worker's time; empty if it guarantees none.
    fn shares(&self) -> &[u8] {
        &[]
    }

    /// Returns within how many calls of `passed_over` the oldest task has a turn, if all levels and slots are
    /// in use. Where nothing is passed over, it is the number of tasks.
    fn turns(&self) -> u64 {
        1
    }

    /// Makes an empty local queue with initial room for `capacity` tasks.
    ///
    /// # Errors
    ///
    /// The capacity, or a setting of the order, is impossible, or memory is short.
    fn local_queue(&self, capacity: usize) -> Result<Self::LocalQueue, PolicyError>;
}

/// The local queue of a worker, as the worker uses it.
pub trait LocalQueue: Send + Sized + 'static {
    /// The same local queue as others use it.
    type Thief: LocalQueueThief<Self>;

    /// True if [`push`](LocalQueue::push) may return another task than the one that it was given.
    const DISPLACES: bool = false;

    /// Adds a task that is new or was woken.
    ///
    /// # Errors
    ///
    /// [`Full`] with a task for which there is no room: this one, or, if it
    /// [displaces](LocalQueue::DISPLACES), the one that it has displaced.
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>>;

    /// Adds a task that has waited elsewhere, without the privileges of a new one.
    ///
    /// # Errors
    ///
    /// [`Full`] with the task.
    #[inline]
    fn push_last(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.push(task)
    }

    /// Adds a task that yields. Only if the order [says so](Order::GIVES_WAY).
    ///
    /// # Errors
    ///
    /// [`Full`] with the task.
    #[inline]
    fn give_way(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.push_last(task)
    }

    /// Makes room for a task that [`push`](LocalQueue::push) returned, and adds it as
    /// [`push_last`](LocalQueue::push_last) does.
    ///
    /// # Errors
    ///
    /// [`Full`] with the task if the local queue cannot grow.
    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>>;

    /// Takes the task whose turn it is; `None` if there is none.
    fn pop(&mut self, cx: &Cx<'_>) -> Option<TaskRef>;

    /// Returns the level of the task that `pop` would seem to take; [`usize::MAX`] if there is none. More
    /// urgent tasks outside of the local queue go before it. An order without priorities has one level, 0.
    fn first_level(&self) -> usize {
        if self.is_empty() { usize::MAX } else { 0 }
    }

    /// Takes in a task that was found outside of the local queue, and returns the one whose turn it is. By
    /// default that is the same: a task that has waited elsewhere runs at once.
    #[inline]
    fn found(&mut self, task: TaskRef, cx: &Cx<'_>) -> Option<TaskRef> {
        let _ = cx;
        Some(task)
    }

    /// Notes that this task is the next one of the worker, wherever it was found. By default it does nothing.
    #[inline]
    fn begins(&mut self, task: &TaskRef, cx: &Cx<'_>) {
        let _ = (task, cx);
    }

    /// Notes that the worker looks for what is overdue. It does so after some sixty tasks of its own, sooner
    /// if they take long, and before it searches. By default it does nothing.
    #[inline]
    fn polled(&mut self, cx: &Cx<'_>) {
        let _ = cx;
    }

    /// Takes the task of a level whose turn it is; `None` if there is none. An order without priorities has
    /// no levels to choose from.
    fn pop_level(&mut self, level: usize, cx: &Cx<'_>) -> Option<TaskRef> {
        let _ = (level, cx);
        None
    }

    /// Takes the task that was pushed last, if `pop` favours that one.
    fn pop_newest(&mut self) -> Option<TaskRef> {
        None
    }

    /// Takes the task that `pop` may pass over forever. `None` also if thieves interfere, and in an order
    /// that passes over nothing.
    fn passed_over(&mut self) -> Option<TaskRef> {
        None
    }

    /// Takes out everything that thieves leave, in the order in which [`push_last`](LocalQueue::push_last)
    /// restores it.
    fn drain(&mut self, cx: &Cx<'_>) -> Vec<TaskRef>;

    /// Returns the number of tasks; thieves may have taken some.
    fn len(&self) -> usize;

    /// Returns true if there is no task. Stays true until the worker pushes or steals.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns for about how many more tasks there is room.
    fn room(&self) -> usize;

    /// Makes a handle to steal with.
    fn thief(&self) -> Self::Thief;
}

/// A local queue as other workers use it.
pub trait LocalQueueThief<L>: Send + Sync + 'static {
    /// Takes a snapshot of the local queue. Two equal glances mean that no thread took a task between them.
    fn glance(&self) -> Glance;

    /// Takes the oldest tasks, as many as `amount` wants and `into` has room for.
    fn steal_into(&self, into: &mut L, amount: Amount) -> Steal<TaskRef>;

    /// Takes the oldest task. Returns [`Steal::Empty`] only if there was none.
    fn steal_one(&self) -> Steal<TaskRef>;

    /// Shows the tasks to a report, and takes none.
    fn show(&self, viewer: &mut QueueViewer);

    /// Takes the oldest task of a level; `None` if there is none, or if other thieves interfere. An order
    /// without priorities has no levels to choose from.
    fn steal_level(&self, level: usize) -> Option<TaskRef> {
        let _ = level;
        None
    }
}
