//! A slot for the task that was pushed last, in front of any other order (EBSL 4.3.2, tokio, Go).
//!
//! ```text
//!   push ──▶ [slot] ──the former task──▶ [local queue of the inner order]
//!              │ first, but at most `limit` times in a row
//!   pop  ◀─────┘
//! ```
//!
//! The running task has woken or spawned the new one, so its data is in the cache. The limit keeps two tasks
//! that wake each other from starving the local queue. A thief takes the task in the slot if the local queue
//! is empty, and the task was there when the thief last looked. So a worker in a long task holds up no task.

use super::{LocalQueue, LocalQueueThief, Order};
use crate::{Cx, PolicyError};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use warpweft_queue::{Amount, Full, Glance, Slot, Steal};
use warpweft_task::{QueueViewer, TaskRef};

/// A slot in front of an order.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_policy::{FifoOrder, Stealing};
/// use warpweft_policy::order::SlotOrder;
/// let three = NonZeroUsize::new(3).unwrap();
/// let policy = Stealing::with_order(SlotOrder::new(FifoOrder, three));
/// assert!(policy.to_string().starts_with("slot:3+steal=half"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotOrder<O> {
    inner: O,
    limit: NonZeroUsize,
}

impl<O: Order> SlotOrder<O> {
    /// Makes a slot that goes first at most this often in a row.
    #[must_use]
    pub fn new(inner: O, limit: NonZeroUsize) -> Self {
        Self { inner, limit }
    }
}

impl<O: Order> fmt::Display for SlotOrder<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot:{}", self.limit)?;
        let inner = self.inner.to_string();
        // The orders that a text can name have FIFO behind the slot.
        if inner == "fifo" {
            Ok(())
        } else {
            write!(f, "({inner})")
        }
    }
}

impl<O: Order> Order for SlotOrder<O> {
    type LocalQueue = SlotLocalQueue<O::LocalQueue>;
    type Classes = O::Classes;
    const NEWEST_FIRST: bool = O::NEWEST_FIRST;

    fn priorities(&self) -> u8 {
        self.inner.priorities()
    }

    fn shares(&self) -> &[u8] {
        self.inner.shares()
    }

    fn turns(&self) -> u64 {
        (self.limit.get() as u64 + 1).saturating_mul(self.inner.turns())
    }

    fn local_queue(&self, capacity: usize) -> Result<Self::LocalQueue, PolicyError> {
        Ok(SlotLocalQueue {
            slot: Arc::new(Slot::new()),
            inner: self.inner.local_queue(capacity)?,
            limit: self.limit.get(),
            in_a_row: 0,
        })
    }
}

/// A local queue with a slot in front of it.
pub struct SlotLocalQueue<L> {
    slot: Arc<Slot<TaskRef>>,
    inner: L,
    limit: usize,
    in_a_row: usize,
}

/// A slot and a local queue as other workers use them.
pub struct SlotThief<T> {
    slot: Arc<Slot<TaskRef>>,
    inner: T,
}

impl<L: LocalQueue> LocalQueue for SlotLocalQueue<L> {
    type Thief = SlotThief<L::Thief>;
    const DISPLACES: bool = true;

    #[inline]
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        match self.slot.swap(task) {
            None => Ok(()),
            Some(displaced) => self.inner.push(displaced),
        }
    }

    fn push_last(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.inner.push_last(task)
    }

    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.inner.push_grown(task)
    }

    #[inline]
    fn pop(&mut self, cx: &Cx<'_>) -> Option<TaskRef> {
        if self.in_a_row < self.limit
            && let Some(task) = self.slot.take()
        {
            self.in_a_row += 1;
            return Some(task);
        }
        self.in_a_row = 0;
        self.inner.pop(cx).or_else(|| self.slot.take())
    }

    /// The task in the slot goes before all levels, while the limit allows it.
    fn first_level(&self) -> usize {
        if self.in_a_row < self.limit && !self.slot.is_empty() {
            return 0;
        }
        match self.inner.first_level() {
            usize::MAX if !self.slot.is_empty() => 0,
            level => level,
        }
    }

    fn pop_level(&mut self, level: usize, cx: &Cx<'_>) -> Option<TaskRef> {
        self.inner.pop_level(level, cx)
    }

    fn pop_newest(&mut self) -> Option<TaskRef> {
        self.slot.take().or_else(|| self.inner.pop_newest())
    }

    fn passed_over(&mut self) -> Option<TaskRef> {
        self.inner.passed_over()
    }

    /// The task in the slot goes behind the others.
    fn drain(&mut self, cx: &Cx<'_>) -> Vec<TaskRef> {
        let mut tasks = self.inner.drain(cx);
        tasks.extend(self.slot.take());
        tasks
    }

    fn len(&self) -> usize {
        self.inner.len() + usize::from(!self.slot.is_empty())
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn thief(&self) -> Self::Thief {
        SlotThief {
            slot: Arc::clone(&self.slot),
            inner: self.inner.thief(),
        }
    }
}

impl<L: LocalQueue> LocalQueueThief<SlotLocalQueue<L>> for SlotThief<L::Thief> {
    fn glance(&self) -> Glance {
        let inner = self.inner.glance();
        if inner.len > 0 { inner } else { self.slot.glance() }
    }

    fn steal_into(&self, into: &mut SlotLocalQueue<L>, amount: Amount) -> Steal<TaskRef> {
        match self.inner.steal_into(&mut into.inner, amount) {
            Steal::Empty => self.take_slot(),
            other => other,
        }
    }

    fn steal_one(&self) -> Steal<TaskRef> {
        match self.inner.steal_one() {
            Steal::Empty => self.take_slot(),
            other => other,
        }
    }

    fn steal_level(&self, level: usize) -> Option<TaskRef> {
        self.inner.steal_level(level)
    }

    fn show(&self, viewer: &mut QueueViewer) {
        self.slot.peek(&mut |task| viewer.peek(&task));
        self.inner.show(viewer);
    }
}

impl<T> SlotThief<T> {
    fn take_slot(&self) -> Steal<TaskRef> {
        match self.slot.take() {
            Some(first) => Steal::Taken { first, moved: 0 },
            None => Steal::Empty,
        }
    }
}
