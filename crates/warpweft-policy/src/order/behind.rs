//! A second queue behind any other order, for tasks that yield.
//!
//! ```text
//!   push ─────▶ [local queue of the inner order] ──▶ pop
//!   give_way ─▶ [behind, oldest first] ────────────▶ pop, if the other one is empty; passed_over, by turns
//! ```
//!
//! A task that yields waits until others have done something. In a queue that it shares with them, what it
//! waits for is behind all others that yield: each of them has its turn for nothing. Here a task that was
//! woken goes before all that yield. So that those do not starve, they have a turn with every second call of
//! `passed_over`, which comes after [`INTERVAL`](crate::Policy::INTERVAL) tasks.

use super::{LocalQueue, LocalQueueThief, OneClass, Order};
use crate::{Cx, PolicyError};
use std::fmt;
use warpweft_queue::{Amount, Fifo, FifoThief, Full, Glance, Owner as _, Steal, Thief as _};
use warpweft_task::{QueueViewer, TaskRef};

/// An order, and behind it a queue for tasks that yield.
///
/// ```
/// use warpweft_policy::order::BehindOrder;
/// use warpweft_policy::{FifoOrder, Stealing};
/// let policy = Stealing::with_order(BehindOrder::new(FifoOrder));
/// assert!(policy.to_string().starts_with("fifo-behind+steal=half"));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BehindOrder<O> {
    inner: O,
}

impl<O: Order<Classes = OneClass>> BehindOrder<O> {
    /// Makes a queue behind an order. The order has no priorities: each level would need a queue behind it.
    #[must_use]
    pub fn new(inner: O) -> Self {
        Self { inner }
    }
}

impl<O: Order> fmt::Display for BehindOrder<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-behind", self.inner)
    }
}

impl<O: Order<Classes = OneClass>> Order for BehindOrder<O> {
    type LocalQueue = BehindLocalQueue<O::LocalQueue>;
    type Classes = OneClass;
    const NEWEST_FIRST: bool = false;
    const GIVES_WAY: bool = true;

    fn turns(&self) -> u64 {
        self.inner.turns().saturating_mul(2)
    }

    fn local_queue(&self, capacity: usize) -> Result<Self::LocalQueue, PolicyError> {
        Ok(BehindLocalQueue {
            inner: self.inner.local_queue(capacity)?,
            behind: Fifo::with_capacity(capacity)?,
            inner_had_turn: false,
        })
    }
}

/// A local queue with another one behind it.
pub struct BehindLocalQueue<L> {
    inner: L,
    behind: Fifo<TaskRef>,
    /// True if `passed_over` looked into the inner queue the last time.
    inner_had_turn: bool,
}

/// Both queues as other workers use them.
pub struct BehindThief<T> {
    inner: T,
    behind: FifoThief<TaskRef>,
}

impl<L: LocalQueue> LocalQueue for BehindLocalQueue<L> {
    type Thief = BehindThief<L::Thief>;
    const DISPLACES: bool = L::DISPLACES;

    #[inline]
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.inner.push(task)
    }

    fn push_last(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.inner.push_last(task)
    }

    #[inline]
    fn give_way(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        let Err(Full(task)) = self.behind.push(task) else {
            return Ok(());
        };
        match self.behind.grow() {
            Ok(()) => self.behind.push(task),
            Err(_) => Err(Full(task)),
        }
    }

    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.inner.push_grown(task)
    }

    #[inline]
    fn pop(&mut self, cx: &Cx<'_>) -> Option<TaskRef> {
        self.inner.pop(cx).or_else(|| self.behind.pop())
    }

    fn pop_newest(&mut self) -> Option<TaskRef> {
        self.inner.pop_newest()
    }

    fn passed_over(&mut self) -> Option<TaskRef> {
        self.inner_had_turn = !self.inner_had_turn;
        if self.inner_had_turn {
            self.inner.passed_over().or_else(|| self.behind.pop())
        } else {
            self.behind.pop().or_else(|| self.inner.passed_over())
        }
    }

    /// Those that yielded are restored to the other queue, behind the others there.
    fn drain(&mut self, cx: &Cx<'_>) -> Vec<TaskRef> {
        let mut tasks = self.inner.drain(cx);
        tasks.extend(std::iter::from_fn(|| self.behind.pop()));
        tasks
    }

    fn len(&self) -> usize {
        self.inner.len() + self.behind.len()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.inner.is_empty() && self.behind.is_empty()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn thief(&self) -> Self::Thief {
        BehindThief {
            inner: self.inner.thief(),
            behind: self.behind.thief(),
        }
    }
}

impl<L: LocalQueue> LocalQueueThief<BehindLocalQueue<L>> for BehindThief<L::Thief> {
    /// Each mark changes with what is taken there, and grows, so their sum changes with either.
    fn glance(&self) -> Glance {
        let (inner, behind) = (self.inner.glance(), self.behind.glance());
        Glance {
            len: inner.len + behind.len,
            mark: inner.mark.wrapping_add(behind.mark),
        }
    }

    fn steal_into(&self, into: &mut BehindLocalQueue<L>, amount: Amount) -> Steal<TaskRef> {
        match self.inner.steal_into(&mut into.inner, amount) {
            Steal::Empty => self.behind.steal_into(&mut into.behind, amount),
            other => other,
        }
    }

    fn steal_one(&self) -> Steal<TaskRef> {
        match self.inner.steal_one() {
            Steal::Empty => self.behind.steal_one(),
            other => other,
        }
    }

    fn show(&self, viewer: &mut QueueViewer) {
        self.inner.show(viewer);
        self.behind.peek(viewer.room(), &mut |task| viewer.peek(&task));
    }
}
