//! Work stealing: each worker has a local queue of tasks, and thieves take many at once (EBSL chapters 4 and
//! 5).
//!
//! ```text
//!   outside ──▶ injector ────────────────┐
//!   yield ────▶ yielded (multi-queue) ───┤ poll_global, search, scan
//!   no room ──▶ overflow (one of three) ─┤
//!   woken=last ──▶ affine queues ────────┤
//!                                        ▼
//!   push ──▶ [local queue of worker 0] ──▶ next      ◀── one, half, or at least k, by a thief's one CAS
//!   push ──▶ [local queue of worker 1] ──▶ next      ◀── from whom, when: `victims`, `help`, `rebalance`
//! ```
//!
//! With priorities each of these queues is one queue for each level. `next` then also takes what waits there
//! and is more urgent than the worker's own tasks.
//!
//! The order of the local queues is a type, because it is used for every task. Everything else is a value,
//! used on slow paths only: a local queue is full or empty, a task yields, a worker polls after
//! [`INTERVAL`](crate::Policy::INTERVAL) tasks.
//!
//! [`Stealing`] is the configuration, `axes` its values, and `hooks` is what a worker does. The parts are
//! `thief` (one steal), `victims` (from whom), `amount` (how many), `help` and `rebalance` (when), and the
//! queues `pool_queues`, `affine` and `overflow_queue`.
//!
//! # Invariants
//!
//! - A task is in exactly one of: a local queue, the injector, the yielded, the overflow, an affine queue.
//! - `search` may leave a victim's only task once, because its owner is probably about to take it. A second
//!   look that finds it unmoved takes it. `scan` leaves nothing.

mod affine;
mod amount;
mod axes;
mod help;
mod hooks;
mod overflow_queue;
mod pool_queues;
mod rebalance;
#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests;
mod thief;
mod victims;

use crate::YieldTo;
use crate::by_class;
use crate::order::{
    AnyOrder, BehindOrder, ChainOrder, FifoOrder, LifoOrder, MixedOrder, Order, PriorityOrder, ShortestOrder,
    SlotOrder,
};
use std::fmt;
use warpweft_queue::Amount;

pub(crate) use axes::Axes;
pub use axes::{Help, Overflow, Rebalance, StealAmount, Victims, Woken};
pub(crate) use overflow_queue::MOST_QUEUES;

/// Work stealing with first-in, first-out queues: fair, best at the tail.
pub type Fifo = Stealing<FifoOrder>;

/// Work stealing with first-in, first-out queues of rings: [`Overflow::Grow`] adds a ring.
pub type Chained = Stealing<ChainOrder>;

/// Work stealing with last-in, first-out queues: best for locality, and for tasks that spawn tasks.
pub type Lifo = Stealing<LifoOrder>;

/// Work stealing, newest first mostly: alternating, by chance, or reversed at times.
pub type Mixed = Stealing<MixedOrder>;

/// Work stealing, oldest first, with a slot for the task that was pushed last.
pub type Slotted = Stealing<SlotOrder<FifoOrder>>;

/// Work stealing, oldest first, and tasks that yield behind all others of their worker.
pub type FifoBehind = Stealing<BehindOrder<FifoOrder>>;

/// Work stealing, newest first, and tasks that yield behind all others of their worker.
pub type LifoBehind = Stealing<BehindOrder<LifoOrder>>;

/// Work stealing, kinds of tasks with short steps first, as learned.
pub type Shortest = Stealing<ShortestOrder>;

/// Work stealing with levels of urgency.
pub type Prioritised = Stealing<PriorityOrder<FifoOrder>>;

/// Work stealing with levels of urgency, each of which has any of the other orders.
pub type Classed = Stealing<PriorityOrder<AnyOrder>>;

/// The largest capacity that a worker's queue may begin with, in tasks: 128 MiB of slots. It may grow beyond.
pub(crate) const MOST_CAPACITY: usize = 1 << 24;

/// A work-stealing policy with the order `O`.
///
/// ```
/// use warpweft_policy::{Amount, Fifo, Lifo, Overflow};
/// let tail_first = Fifo::new();
/// let local_first = Lifo::new().steal(Amount::One).capacity(128).overflow(Overflow::Locked);
/// assert_eq!(local_first.to_string(), "lifo+steal=one+overflow=locked+capacity=128+yield=global");
/// # let _ = tail_first;
/// ```
#[derive(Clone)]
pub struct Stealing<O> {
    order: O,
    axes: Axes,
}

impl<O: Order + Default> Stealing<O> {
    /// Steals half from a random victim; queues have 256 tasks and grow in place.
    #[must_use]
    pub fn new() -> Self {
        Self::with_order(O::default())
    }
}

impl<O: Order> Stealing<O> {
    /// As [`new`](Stealing::new), with an order that has its own settings.
    #[must_use]
    pub fn with_order(order: O) -> Self {
        let axes = Self::USUAL;
        Self { order, axes }
    }

    /// The default axes of the order.
    pub(crate) const USUAL: Axes = Axes {
        steal: StealAmount::Fixed(Amount::Half),
        victims: Victims::Random,
        help: Help::None,
        overflow: Overflow::Grow,
        capacity: 256,
        // With newest first, tasks that yield in a loop would share their worker with the newest task only.
        yield_to: if O::NEWEST_FIRST {
            YieldTo::Global
        } else {
            YieldTo::Local
        },
        woken: Woken::Waker,
        rebalance: Rebalance::Off,
    };

    /// Sets how many tasks a thief takes at once. Once in eight searches it is one in any case: where fewer
    /// tasks than [`AtLeast`](Amount::AtLeast) wait, a worker must still run them.
    #[must_use]
    pub fn steal(mut self, portion: impl Into<StealAmount>) -> Self {
        self.axes.steal = portion.into();
        self
    }

    /// Sets the victims of a worker.
    #[must_use]
    pub fn victims(mut self, victims: Victims) -> Self {
        self.axes.victims = victims;
        self
    }

    /// Sets whether a worker with many tasks asks others to steal from it.
    #[must_use]
    pub fn help(mut self, help: Help) -> Self {
        self.axes.help = help;
        self
    }

    /// Sets the initial capacity of a worker's queue in tasks: 1 to 16 777 216, rounded up to a power of two.
    #[must_use]
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.axes.capacity = tasks;
        self
    }

    /// Sets what happens when a worker's queue is full.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.axes.overflow = overflow;
        self
    }

    /// Sets the destination of tasks that yield without naming one.
    #[must_use]
    pub fn yield_to(mut self, yield_to: YieldTo) -> Self {
        self.axes.yield_to = yield_to;
        self
    }

    /// Sets the destination of woken tasks.
    #[must_use]
    pub fn woken(mut self, woken: Woken) -> Self {
        self.axes.woken = woken;
        self
    }

    /// Sets whether a worker that has tasks steals from one that has clearly more. By default it does not.
    ///
    /// With [`Rebalance::Every`]`(N)`: if two busy workers spawn nothing, their queue lengths differ by at
    /// most max(3, 1/16) after 61 × (N + difference) steps of the poorer one. Then each task has at least 0.9
    /// of the mean number of turns, if workers are equally fast, and queues longer than 48 tasks. The price:
    /// tasks that wake each other are separated, and the new worker does not have their data in its cache. 16
    /// is a good N.
    #[must_use]
    pub fn rebalance(mut self, rebalance: Rebalance) -> Self {
        self.axes.rebalance = rebalance;
        self
    }

    /// Returns the number of steps within which a ready task runs, with `others` other ready tasks in a pool
    /// of `workers` workers. They are steps of the worker that has the task, or of any worker if the task
    /// came from outside or yielded globally.
    ///
    /// It is 2 × 6 × 61 × `k` × (`others` + 1). Six places have their turn at every 61st step; one of them is
    /// the old end of the worker's local queue. `k` is how many levels, queues or affine queues take turns
    /// within a place, the queues for each level. The factor 2 is there because a task from outside may
    /// continue waiting in a local queue. With polls of `T` at most that takes `T` times as long.
    ///
    /// Three things are excluded. With [`Overflow::LockFree`] and [`Overflow::Multi`] overflowed tasks are
    /// served at random: most probably soon, but without a bound. [`ShortestOrder`] gives turns by time. And
    /// a worker that is stuck in one task makes no steps: its local queue waits until others have nothing and
    /// steal from it; [`Cforall`](crate::Cforall) helps before that.
    #[must_use]
    pub fn steps(&self, others: usize, workers: usize) -> u64 {
        let affine = if self.axes.woken == Woken::Last {
            workers
        } else {
            1
        };
        let queues = pool_queues::yielded_queues(workers).max(affine) as u64;
        let levels = by_class::levels(&self.order) as u64;
        let within = self.order.turns().max(queues.saturating_mul(levels));
        (2 * axes::PLACES as u64 * u64::from(<Self as crate::Policy>::INTERVAL))
            .saturating_mul(within)
            .saturating_mul(others as u64 + 1)
    }

    pub(crate) fn order(&self) -> &O {
        &self.order
    }

    pub(crate) fn axes_mut(&mut self) -> &mut Axes {
        &mut self.axes
    }
}

impl<O: Order + Default> Default for Stealing<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Order> fmt::Display for Stealing<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.order.fmt(f)?;
        self.axes.print(&Self::USUAL, f)
    }
}

impl<O: Order> fmt::Debug for Stealing<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stealing({self})")
    }
}
