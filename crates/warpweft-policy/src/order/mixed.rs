//! Orders between newest and oldest first: mostly the newest, and the oldest at chosen times (EBSL 4.3.2 and
//! 5.3.3).
//!
//! All use one stack, and differ in when they take from its bottom, through the owner's thief's end. That is
//! a value: it costs one comparison per task beside the two read-modify-writes of a stack, so one loop is
//! compiled for all of them.

use super::learn::Learner;
use super::plain::{LifoLocalQueue, PlainThief};
use super::{LocalQueue, LocalQueueThief, OneClass, Order};
use crate::{Cx, PolicyError};
use std::fmt;
use std::num::NonZeroUsize;
use warpweft_queue::{Amount, Full, Glance, Lifo, Owner, Steal};
use warpweft_task::{QueueViewer, TaskRef};

/// Decides when the oldest task goes before the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mix {
    /// This number of the newest, then this number of the oldest, and so on.
    Alternate(NonZeroUsize),
    /// At random: the newest with this probability in percent, from 1 to 99.
    Stochastic(u8),
    /// After this number of the newest, as many of the oldest as there were tasks at that moment. It
    /// approximates reversing the stack, except that a task in the middle is not stuck between two growing
    /// ends.
    Reverse(NonZeroUsize),
    /// It learns which is better, comparing after this number of tasks. It takes the oldest, unless its local
    /// queue grows under it and not under the newest (tasks spawn tasks), or tasks take a quarter longer.
    /// Each worker learns for itself.
    Adaptive(NonZeroUsize),
}

/// Mostly newest first, and the oldest at times.
///
/// ```
/// use warpweft_policy::Stealing;
/// use warpweft_policy::order::{Mix, MixedOrder};
/// let policy = Stealing::with_order(MixedOrder::new(Mix::Stochastic(80))?);
/// assert!(policy.to_string().starts_with("stochastic:80+steal=half"));
/// # Ok::<(), warpweft_policy::PolicyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MixedOrder(Mix);

impl MixedOrder {
    /// Makes the order with this mix.
    ///
    /// # Errors
    ///
    /// The percentage is not from 1 to 99: 0 is `fifo`, 100 is `lifo`.
    pub fn new(mix: Mix) -> Result<Self, PolicyError> {
        match mix {
            Mix::Stochastic(percent) if !(1..=99).contains(&percent) => Err(PolicyError::Other(format!(
                "the newest with a probability of {percent} %: it is 1 to 99 (0 would be fifo, 100 lifo)"
            ))),
            _ => Ok(Self(mix)),
        }
    }
}

impl fmt::Display for MixedOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Mix::Alternate(n) => write!(f, "alternate:{n}"),
            Mix::Stochastic(percent) => write!(f, "stochastic:{percent}"),
            Mix::Reverse(n) => write!(f, "reverse:{n}"),
            Mix::Adaptive(n) => write!(f, "adaptive:{n}"),
        }
    }
}

impl Order for MixedOrder {
    type LocalQueue = MixedLocalQueue;
    type Classes = OneClass;
    const NEWEST_FIRST: bool = true;

    fn local_queue(&self, capacity: usize) -> Result<MixedLocalQueue, PolicyError> {
        let run = match self.0 {
            Mix::Alternate(n) | Mix::Reverse(n) => n.get(),
            // It looks at once, to know when it began.
            Mix::Adaptive(_) | Mix::Stochastic(_) => 0,
        };
        Ok(MixedLocalQueue {
            mix: self.0,
            stack: LifoLocalQueue::new(Lifo::with_capacity(capacity)?),
            oldest: false,
            left: run,
            learner: Learner::new(),
        })
    }
}

/// A stack whose owner also takes from its bottom.
pub struct MixedLocalQueue {
    mix: Mix,
    stack: LifoLocalQueue<Lifo<TaskRef>>,
    /// True if it is the turn of the oldest.
    oldest: bool,
    /// The number of further tasks in this turn.
    left: usize,
    /// What it has learned, if it learns.
    learner: Learner,
}

impl MixedLocalQueue {
    /// Returns true if the next task is to be the oldest one.
    #[inline]
    fn turn(&mut self, cx: &Cx<'_>) -> bool {
        if let Mix::Stochastic(newest) = self.mix {
            return cx.random(100) >= usize::from(newest);
        }
        if self.left == 0 {
            self.change(cx);
        }
        self.left = self.left.saturating_sub(1);
        self.oldest
    }

    /// There are no tasks: the time until the next one does not count.
    #[inline]
    fn pause(&mut self) {
        if let Mix::Adaptive(_) = self.mix {
            self.learner.idle();
        }
    }

    /// Changes to the other end, or to the better one.
    #[cold]
    fn change(&mut self, cx: &Cx<'_>) {
        self.oldest = match self.mix {
            Mix::Adaptive(n) => !self.learner.look(cx.now_ns(), self.stack.len(), n.get()),
            _ => !self.oldest,
        };
        self.left = match self.mix {
            Mix::Reverse(_) if self.oldest => self.stack.len(),
            Mix::Alternate(n) | Mix::Reverse(n) | Mix::Adaptive(n) => n.get(),
            Mix::Stochastic(_) => 0,
        };
    }
}

impl LocalQueue for MixedLocalQueue {
    type Thief = PlainThief<Lifo<TaskRef>>;

    #[inline]
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.stack.push(task)
    }

    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.stack.push_grown(task)
    }

    #[inline]
    fn pop(&mut self, cx: &Cx<'_>) -> Option<TaskRef> {
        if self.stack.is_empty() {
            self.pause();
            return None;
        }
        // If thieves are faster at the bottom, it takes the newest.
        let oldest = if self.turn(cx) {
            self.stack.passed_over()
        } else {
            None
        };
        oldest.or_else(|| self.stack.pop(cx))
    }

    fn pop_newest(&mut self) -> Option<TaskRef> {
        self.stack.pop_newest()
    }

    fn passed_over(&mut self) -> Option<TaskRef> {
        self.stack.passed_over()
    }

    fn drain(&mut self, cx: &Cx<'_>) -> Vec<TaskRef> {
        self.stack.drain(cx)
    }

    fn len(&self) -> usize {
        self.stack.len()
    }

    fn room(&self) -> usize {
        self.stack.room()
    }

    fn thief(&self) -> Self::Thief {
        self.stack.thief()
    }
}

impl LocalQueueThief<MixedLocalQueue> for PlainThief<Lifo<TaskRef>> {
    fn glance(&self) -> Glance {
        LocalQueueThief::<LifoLocalQueue<_>>::glance(self)
    }

    fn steal_into(&self, into: &mut MixedLocalQueue, amount: Amount) -> Steal<TaskRef> {
        self.steal_into(&mut into.stack, amount)
    }

    fn steal_one(&self) -> Steal<TaskRef> {
        LocalQueueThief::<LifoLocalQueue<_>>::steal_one(self)
    }

    fn show(&self, viewer: &mut QueueViewer) {
        LocalQueueThief::<LifoLocalQueue<_>>::show(self, viewer);
    }
}
