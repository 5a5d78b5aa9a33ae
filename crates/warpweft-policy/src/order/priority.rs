//! Levels of urgency: the highest level that has a task goes first.
//!
//! A task's level is its [priority](crate::priority), which its spawner may choose. Level 0 is the highest,
//! and a task without a priority is on the middle level. Strict priorities starve. So tasks on lower levels
//! count as passed over, and the levels take turns in `poll_global`. Beyond that a level may have a least
//! *share* of a worker's time.

use super::{ClassPerLevel, LocalQueue, LocalQueueThief, Order};
use crate::{Cx, PolicyError, priority};
use std::fmt;
use std::num::NonZeroUsize;
use warpweft_queue::{Amount, Full, Glance, Steal};
use warpweft_task::{QueueViewer, TaskRef};

/// The largest number of levels.
pub(crate) const MOST_LEVELS: usize = 64;

/// Levels of urgency, each with its own order: `priority:3` has the levels 0, 1 (normal) and 2.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_policy::{FifoOrder, Stealing};
/// use warpweft_policy::order::PriorityOrder;
/// let three = NonZeroUsize::new(3).unwrap();
/// let policy = Stealing::with_order(PriorityOrder::new(FifoOrder, three));
/// assert!(policy.to_string().starts_with("priority:3+steal=half"));
/// assert_eq!(warpweft_policy::Policy::priorities(&policy), 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityOrder<O> {
    inner: O,
    levels: NonZeroUsize,
    /// The least share of each level in percent. Without shares all are 0.
    shares: [u8; MOST_LEVELS],
}

impl<O: Order> PriorityOrder<O> {
    /// Makes an order with this number of levels, at most 64.
    #[must_use]
    pub fn new(inner: O, levels: NonZeroUsize) -> Self {
        let shares = [0; MOST_LEVELS];
        Self {
            inner,
            levels,
            shares,
        }
    }

    /// Makes an order with a level for each least share, in percent. A level that has tasks gets at least its
    /// share of each worker's time. What is left over goes to the most urgent level.
    ///
    /// A worker keeps its own account of its last 10 ms, and reads the clock before each task. A level
    /// without tasks saves nothing up.
    ///
    /// ```
    /// use warpweft_policy::{FifoOrder, Stealing};
    /// use warpweft_policy::order::PriorityOrder;
    /// // Strict, except that the last level has a tenth of the time.
    /// let policy = Stealing::with_order(PriorityOrder::with_shares(FifoOrder, &[0, 0, 10])?);
    /// assert!(policy.to_string().starts_with("priority:0/0/10+steal=half"));
    /// # Ok::<(), warpweft_policy::PolicyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There are fewer than two levels or more than 64, no level has a share, or the shares are more than
    /// 100 % together.
    pub fn with_shares(inner: O, shares: &[u8]) -> Result<Self, PolicyError> {
        let count = shares.len();
        let sum: usize = shares.iter().map(|&share| usize::from(share)).sum();
        let levels = NonZeroUsize::new(count).filter(|_| (2..=MOST_LEVELS).contains(&count));
        let problem = match levels {
            None => format!("{count} levels with a share: there may be 2 to {MOST_LEVELS}"),
            Some(_) if sum > 100 => format!("shares of {sum} % together: they may be 1 to 100 %"),
            Some(_) if sum == 0 => {
                String::from("shares of 0 % together: without shares, say how many levels")
            }
            Some(levels) => {
                let mut order = Self::new(inner, levels);
                order.shares[..count].copy_from_slice(shares);
                return Ok(order);
            }
        };
        Err(PolicyError::Other(problem))
    }
}

impl<O: Order> fmt::Display for PriorityOrder<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shares() {
            [] => write!(f, "priority:{}", self.levels)?,
            [first, rest @ ..] => {
                write!(f, "priority:{first}")?;
                rest.iter().try_for_each(|share| write!(f, "/{share}"))?;
            }
        }
        let inner = self.inner.to_string();
        // It is the usual order of a level.
        if inner == "fifo" {
            Ok(())
        } else {
            write!(f, "({inner})")
        }
    }
}

impl<O: Order> Order for PriorityOrder<O> {
    type LocalQueue = PriorityLocalQueue<O::LocalQueue>;
    type Classes = ClassPerLevel;
    const NEWEST_FIRST: bool = O::NEWEST_FIRST;

    fn priorities(&self) -> u8 {
        // With more there is no local queue.
        let levels = self.levels.get();
        if levels > MOST_LEVELS { 0 } else { levels as u8 }
    }

    fn shares(&self) -> &[u8] {
        let shares = &self.shares[..self.levels.get().min(MOST_LEVELS)];
        if shares.iter().any(|&share| share > 0) {
            shares
        } else {
            &[]
        }
    }

    fn turns(&self) -> u64 {
        (self.levels.get() as u64).saturating_mul(self.inner.turns())
    }

    fn local_queue(&self, capacity: usize) -> Result<Self::LocalQueue, PolicyError> {
        let levels = self.levels.get();
        if levels > MOST_LEVELS {
            return Err(PolicyError::Other(format!(
                "{levels} levels of priority: there may be 1 to {MOST_LEVELS}"
            )));
        }
        let levels: Result<_, _> = (0..levels).map(|_| self.inner.local_queue(capacity)).collect();
        Ok(PriorityLocalQueue {
            levels: levels?,
            turn: 0,
        })
    }
}

/// A local queue for each level.
pub struct PriorityLocalQueue<L> {
    levels: Box<[L]>,
    turn: usize,
}

/// The same as other workers use it.
pub struct PriorityThief<T>(Box<[T]>);

impl<L: LocalQueue> PriorityLocalQueue<L> {
    #[inline]
    pub(super) fn level_mut(&mut self, level: usize) -> &mut L {
        &mut self.levels[level]
    }

    #[inline]
    pub(super) fn is_level_empty(&self, level: usize) -> bool {
        self.levels[level].is_empty()
    }

    #[inline]
    fn level_of(&mut self, task: &TaskRef) -> &mut L {
        &mut self.levels[priority::level(task.policy_word(), self.levels.len())]
    }
}

impl<L: LocalQueue> LocalQueue for PriorityLocalQueue<L> {
    type Thief = PriorityThief<L::Thief>;
    const DISPLACES: bool = L::DISPLACES;

    #[inline]
    fn push(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.level_of(&task).push(task)
    }

    fn push_last(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.level_of(&task).push_last(task)
    }

    fn push_grown(&mut self, task: TaskRef) -> Result<(), Full<TaskRef>> {
        self.level_of(&task).push_grown(task)
    }

    #[inline]
    fn pop(&mut self, cx: &Cx<'_>) -> Option<TaskRef> {
        self.levels.iter_mut().find_map(|level| level.pop(cx))
    }

    fn first_level(&self) -> usize {
        let first = self.levels.iter().position(|level| !level.is_empty());
        first.unwrap_or(usize::MAX)
    }

    fn pop_level(&mut self, level: usize, cx: &Cx<'_>) -> Option<TaskRef> {
        self.levels.get_mut(level)?.pop(cx)
    }

    fn pop_newest(&mut self) -> Option<TaskRef> {
        self.levels.iter_mut().find_map(LocalQueue::pop_newest)
    }

    fn passed_over(&mut self) -> Option<TaskRef> {
        self.turn = (self.turn + 1) % self.levels.len();
        let (before, from_turn) = self.levels.split_at_mut(self.turn);
        from_turn.iter_mut().chain(before).find_map(|level| {
            let oldest = level.passed_over();
            // If a level passes over nothing, the oldest task is at its thief's end.
            oldest.or_else(|| level.thief().steal_one().taken())
        })
    }

    fn drain(&mut self, cx: &Cx<'_>) -> Vec<TaskRef> {
        self.levels.iter_mut().flat_map(|level| level.drain(cx)).collect()
    }

    fn len(&self) -> usize {
        self.levels.iter().map(LocalQueue::len).sum()
    }

    fn room(&self) -> usize {
        self.levels.iter().map(LocalQueue::room).min().unwrap_or_default()
    }

    fn thief(&self) -> Self::Thief {
        PriorityThief(self.levels.iter().map(LocalQueue::thief).collect())
    }
}

impl<L: LocalQueue> LocalQueueThief<PriorityLocalQueue<L>> for PriorityThief<L::Thief> {
    fn glance(&self) -> Glance {
        let glances = self.0.iter().map(LocalQueueThief::glance);
        glances.fold(Glance { len: 0, mark: 0 }, |all, one| Glance {
            len: all.len + one.len,
            // A change of one mark changes the whole. Two changes that cancel each other out are a wrong
            // hint.
            mark: all.mark.rotate_left(1) ^ one.mark,
        })
    }

    fn steal_into(&self, into: &mut PriorityLocalQueue<L>, amount: Amount) -> Steal<TaskRef> {
        first_that_is_not_empty(self.0.iter().zip(&mut into.levels), |(level, into)| {
            level.steal_into(into, amount)
        })
    }

    fn steal_one(&self) -> Steal<TaskRef> {
        first_that_is_not_empty(self.0.iter(), LocalQueueThief::steal_one)
    }

    fn steal_level(&self, level: usize) -> Option<TaskRef> {
        self.0.get(level)?.steal_one().taken()
    }

    fn show(&self, viewer: &mut QueueViewer) {
        self.0.iter().for_each(|level| level.show(viewer));
    }
}

/// Tries the levels from the highest to the lowest. The result is empty only if all are; a level where a race
/// was lost may have tasks.
fn first_that_is_not_empty<I>(
    levels: impl Iterator<Item = I>,
    mut steal: impl FnMut(I) -> Steal<TaskRef>,
) -> Steal<TaskRef> {
    let mut whole = Steal::Empty;
    for level in levels {
        match steal(level) {
            Steal::Empty => {}
            taken @ Steal::Taken { .. } => return taken,
            lost_or_few => whole = lost_or_few,
        }
    }
    whole
}
