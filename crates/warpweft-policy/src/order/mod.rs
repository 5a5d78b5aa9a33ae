//! Orders: which of a worker's own tasks is next. The hot axis of a policy: a type, compiled into the
//! worker's loop.
//!
//! ```text
//!   Order (a recipe) ──lane()──▶ Lane (the worker's) ──thief()──▶ LaneThief (everybody's)
//!
//!   push ──▶ [ oldest … newest ] ──▶ pop: whose turn it is
//!               ▲ steal: the oldest   ▲ push_last: one that has waited before
//! ```
//!
//! Orders nest: one that is made of another passes to it what it does not decide itself. So
//! `PriorityOrder<SlotOrder<FifoOrder>>` is an order, too.

mod learn;
mod mixed;
mod plain;
mod priority;
mod slot;

use crate::{Cx, PolicyError};
use std::fmt;
use warpweft_queue::{Amount, Full, Glance, Steal};
use warpweft_task::TaskRef;

pub use mixed::{Mix, MixedLocalQueue, MixedOrder};
pub use plain::{ChainOrder, FifoLocalQueue, FifoOrder, LifoLocalQueue, LifoOrder, PlainThief};
pub(crate) use priority::MOST_LEVELS;
pub use priority::{PriorityLocalQueue, PriorityOrder, PriorityThief};
pub use slot::{SlotLocalQueue, SlotOrder, SlotThief};

/// The order of a worker's own tasks: a recipe. What it prints is the word of a policy's text.
pub trait Order: Clone + fmt::Display + Send + Sync + 'static {
    /// What keeps a worker's tasks in this order.
    type LocalQueue: LocalQueue;

    /// True if `pop` favours what was pushed last. Then a task that yields to its own local queue goes behind
    /// the newest other one ([`LocalQueue::pop_newest`]), and not before all; and by default it goes to the
    /// pool's queue.
    const NEWEST_FIRST: bool;

    /// True if the order looks at the [priority](crate::priority) of a task. Then what waits outside of the
    /// local queues is kept apart by levels, too, and a worker compares it with [`LocalQueue::first_level`]
    /// before each task of its own. Without it none of this is compiled.
    const BY_PRIORITY: bool = false;

    /// How many priorities it tells apart; none, unless it says otherwise.
    fn priorities(&self) -> u8 {
        0
    }

    /// Within how many looks after what was passed over, or where nothing is, within how many tasks, the
    /// oldest task has a turn, if all levels and slots are in use.
    fn turns(&self) -> u64 {
        1
    }

    /// An empty local queue for so many tasks, for the time being.
    ///
    /// # Errors
    ///
    /// The capacity, or what the order was given, is impossible, or memory is short.
    fn local_queue(&self, capacity: usize) -> Result<Self::LocalQueue, PolicyError>;
}

/// A worker's own tasks, in the hands of the worker.
pub trait LocalQueue: Send + Sized + 'static {
    /// The same local queue in the hands of others.
    type Thief: LocalQueueThief<Self>;

    /// True if [`push`](LocalQueue::push) may give back another task than the one that it was given.
    const DISPLACES: bool = false;

    /// Adds a task that is new or was woken.
    ///
    /// # Errors
    ///
    /// [`Full`] with a task for which there is no room: this one, or, if it [displaces](LocalQueue::DISPLACES), the one that
    /// it has displaced.
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>>;

    /// Adds a task that has waited elsewhere: without the privileges of a new one.
    ///
    /// # Errors
    ///
    /// [`Full`] with the task.
    #[inline]
    fn push_last(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.push(task)
    }

    /// Makes room for a task that [`push`](LocalQueue::push) gave back, and adds it as
    /// [`push_last`](LocalQueue::push_last) does.
    ///
    /// # Errors
    ///
    /// [`Full`] with the task if the local queue cannot grow.
    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>>;

    /// The task whose turn it is. `None`: there is none.
    fn pop(&mut self, cx: &Cx<'_>) -> Option<TaskRef>;

    /// The level of what `pop` would give, as it seems; [`usize::MAX`] if there is nothing. What waits
    /// outside of the local queue, and is more urgent, goes before it. An order without priorities has one
    /// level, 0.
    fn first_level(&self) -> usize {
        if self.is_empty() { usize::MAX } else { 0 }
    }

    /// The task that was pushed last, where that is the one that `pop` favours.
    fn pop_newest(&mut self) -> Option<TaskRef> {
        None
    }

    /// The task that `pop` may pass over forever. `None` also if thieves are at it, and in an order that
    /// passes over nothing.
    fn passed_over(&mut self) -> Option<TaskRef> {
        None
    }

    /// Takes everything out that thieves leave, in the order in which [`push_last`](LocalQueue::push_last)
    /// puts it back as it was.
    fn drain(&mut self, cx: &Cx<'_>) -> Vec<TaskRef>;

    /// How many tasks there are; thieves may have taken some.
    fn len(&self) -> usize;

    /// Returns true if there is no task. Stays true until the worker pushes or steals.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For about how many more tasks there is room.
    fn room(&self) -> usize;

    /// A handle to steal with.
    fn thief(&self) -> Self::Thief;
}

/// A local queue in the hands of other workers.
pub trait LocalQueueThief<L>: Send + Sync + 'static {
    /// Looks at the local queue. Two equal glances: no thread took a task between them.
    fn glance(&self) -> Glance;

    /// Takes the oldest tasks, as many as `amount` says and `into` has room for.
    fn steal_into(&self, into: &mut L, amount: Amount) -> Steal<TaskRef>;

    /// Takes the oldest task. [`Steal::Empty`] only if there was none.
    fn steal_one(&self) -> Steal<TaskRef>;
}
