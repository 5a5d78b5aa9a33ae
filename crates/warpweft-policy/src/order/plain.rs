//! Oldest first, and newest first.

use super::{LocalQueue, LocalQueueThief, OneClass, Order};
use crate::{Cx, PolicyError};
use std::fmt;
use warpweft_queue::{Amount, Chain, Fifo, Full, Glance, Lifo, Owner, Steal, Thief};
use warpweft_task::{QueueViewer, TaskRef};

/// Oldest first (EBSL B.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FifoOrder;

impl fmt::Display for FifoOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fifo")
    }
}

impl Order for FifoOrder {
    type LocalQueue = FifoLocalQueue<Fifo<TaskRef>>;
    type Classes = OneClass;
    const NEWEST_FIRST: bool = false;

    fn local_queue(&self, capacity: usize) -> Result<Self::LocalQueue, PolicyError> {
        Ok(FifoLocalQueue::new(Fifo::with_capacity(capacity)?))
    }
}

/// Oldest first, in a queue of rings (EBSL 5.3.1: horizontal resizing). It grows by another ring instead of a
/// larger one: nothing is moved, and the memory of a burst is freed after it.
///
/// ```
/// use warpweft_policy::{Chained, PolicySpec};
/// assert_eq!(Chained::new().to_string(), "chain".parse::<PolicySpec>()?.to_string());
/// # Ok::<(), warpweft_policy::ParsePolicyError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainOrder;

impl fmt::Display for ChainOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("chain")
    }
}

impl Order for ChainOrder {
    type LocalQueue = FifoLocalQueue<Chain<TaskRef>>;
    type Classes = OneClass;
    const NEWEST_FIRST: bool = false;

    fn local_queue(&self, capacity: usize) -> Result<Self::LocalQueue, PolicyError> {
        Ok(FifoLocalQueue::new(Chain::with_capacity(capacity)?))
    }
}

/// Newest first; thieves take the oldest (EBSL B.6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LifoOrder;

impl fmt::Display for LifoOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lifo")
    }
}

impl Order for LifoOrder {
    type LocalQueue = LifoLocalQueue<Lifo<TaskRef>>;
    type Classes = OneClass;
    const NEWEST_FIRST: bool = true;

    fn local_queue(&self, capacity: usize) -> Result<Self::LocalQueue, PolicyError> {
        Ok(LifoLocalQueue::new(Lifo::with_capacity(capacity)?))
    }
}

/// The thieves' end of a local queue that is one queue.
#[derive(Debug)]
pub struct PlainThief<Q: Owner<TaskRef>>(Q::Thief);

/// A queue whose owner takes the oldest task.
#[derive(Debug)]
pub struct FifoLocalQueue<Q>(Q);

/// A queue whose owner takes the newest task.
#[derive(Debug)]
pub struct LifoLocalQueue<Q: Owner<TaskRef>> {
    stack: Q,
    /// The owner's access to the oldest task.
    bottom: Q::Thief,
}

impl<Q> FifoLocalQueue<Q> {
    /// Uses a queue that is empty, or holds the first tasks.
    pub fn new(queue: Q) -> Self {
        Self(queue)
    }
}

impl<Q: Owner<TaskRef>> FifoLocalQueue<Q> {
    /// Takes the oldest task.
    #[inline]
    pub(super) fn take(&mut self) -> Option<TaskRef> {
        self.0.pop()
    }
}

impl<Q: Owner<TaskRef>> LifoLocalQueue<Q> {
    /// Uses a stack that is empty, or holds the first tasks.
    pub fn new(stack: Q) -> Self {
        let bottom = stack.thief();
        Self { stack, bottom }
    }
}

/// Makes room in a queue, and pushes.
pub(super) fn push_grown<Q: Owner<TaskRef>>(queue: &mut Q, task: TaskRef) -> Result<(), Full<TaskRef>> {
    match queue.grow() {
        Ok(()) => queue.push(task),
        Err(_) => Err(Full(task)),
    }
}

impl<Q: Owner<TaskRef, Thief: 'static> + 'static> LocalQueue for FifoLocalQueue<Q> {
    type Thief = PlainThief<Q>;

    #[inline]
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.0.push(task)
    }

    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        push_grown(&mut self.0, task)
    }

    #[inline]
    fn pop(&mut self, _: &Cx<'_>) -> Option<TaskRef> {
        self.take()
    }

    fn drain(&mut self, _: &Cx<'_>) -> Vec<TaskRef> {
        std::iter::from_fn(|| self.take()).collect()
    }

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    fn room(&self) -> usize {
        self.0.capacity() - self.0.len()
    }

    fn thief(&self) -> PlainThief<Q> {
        PlainThief(self.0.thief())
    }
}

impl<Q: Owner<TaskRef, Thief: 'static> + 'static> LocalQueue for LifoLocalQueue<Q> {
    type Thief = PlainThief<Q>;

    #[inline]
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.stack.push(task)
    }

    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        push_grown(&mut self.stack, task)
    }

    #[inline]
    fn pop(&mut self, _: &Cx<'_>) -> Option<TaskRef> {
        self.stack.pop()
    }

    fn pop_newest(&mut self) -> Option<TaskRef> {
        self.stack.pop()
    }

    fn passed_over(&mut self) -> Option<TaskRef> {
        self.bottom.steal_one().taken()
    }

    fn drain(&mut self, _: &Cx<'_>) -> Vec<TaskRef> {
        let mut tasks: Vec<_> = std::iter::from_fn(|| self.stack.pop()).collect();
        tasks.reverse();
        tasks
    }

    #[inline]
    fn len(&self) -> usize {
        self.stack.len()
    }

    fn room(&self) -> usize {
        self.stack.capacity() - self.stack.len()
    }

    fn thief(&self) -> PlainThief<Q> {
        PlainThief(self.stack.thief())
    }
}

impl<Q: Owner<TaskRef, Thief: 'static> + 'static> LocalQueueThief<FifoLocalQueue<Q>> for PlainThief<Q> {
    fn glance(&self) -> Glance {
        self.0.glance()
    }

    fn steal_into(&self, into: &mut FifoLocalQueue<Q>, amount: Amount) -> Steal<TaskRef> {
        self.0.steal_into(&mut into.0, amount)
    }

    fn steal_one(&self) -> Steal<TaskRef> {
        self.0.steal_one()
    }

    fn show(&self, viewer: &mut QueueViewer) {
        self.0.peek(viewer.room(), &mut |task| viewer.peek(&task));
    }
}

impl<Q: Owner<TaskRef, Thief: 'static> + 'static> LocalQueueThief<LifoLocalQueue<Q>> for PlainThief<Q> {
    fn glance(&self) -> Glance {
        self.0.glance()
    }

    fn steal_into(&self, into: &mut LifoLocalQueue<Q>, amount: Amount) -> Steal<TaskRef> {
        self.0.steal_into(&mut into.stack, amount)
    }

    fn steal_one(&self) -> Steal<TaskRef> {
        self.0.steal_one()
    }

    fn show(&self, viewer: &mut QueueViewer) {
        self.0.peek(viewer.room(), &mut |task| viewer.peek(&task));
    }
}
