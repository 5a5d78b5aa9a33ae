//! Work stealing: a lane of tasks per worker, and thieves that take many at once (EBSL chapters 4 and 5).
//!
//! ```text
//!   outside ──▶ injector ────────────────┐
//!   gave way ──▶ yielded (multi-queue) ──┤ overdue, search, scan
//!   no room ──▶ overflow (one of three) ─┤
//!   woken=last ──▶ home of each worker ──┤
//!                                        ▼
//!   push ──▶ [lane of worker 0] ──▶ next      ◀── one, half, or at least k, by a thief's one CAS
//!   push ──▶ [lane of worker 1] ──▶ next      ◀── which victim: `victims`, `help`, `level`
//! ```
//!
//! With priorities each of these queues is one for each level, and what waits there and is more urgent than a
//! worker's own tasks goes before them: `next` looks, too.
//!
//! The order of the lanes is a type, for it is asked for every task. Everything else is a value that is
//! looked at where the way of a task is slow already: a lane is full or empty, a task gives way, a worker
//! looks up after [`INTERVAL`](crate::Policy::INTERVAL) tasks.
//!
//! [`Stealing`] is the recipe; `hooks` is what a worker does; `pool_queues`, `affine`, `spill`, `victims`,
//! `amount`, `help` and `level` are the parts that it uses.
//!
//! # Invariants
//!
//! - A task lies in exactly one of: a lane, the injector, the yielded, the overflow, a home.
//! - `search` may spare a victim's only task once: its owner is probably about to take it. A second look that
//!   finds it unmoved takes it. `scan` spares nothing.

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

use crate::by_class;
use crate::order::{ChainOrder, FifoOrder, LifoOrder, MixedOrder, Order, PriorityOrder, SlotOrder};
use std::fmt;
use warpweft_queue::Amount;

pub(crate) use axes::Axes;
pub use axes::{Help, Overflow, Rebalance, StealAmount, Victims, Woken, YieldTo};
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

/// Work stealing with levels of urgency.
pub type Prioritised = Stealing<PriorityOrder<FifoOrder>>;

/// The largest capacity that a worker's queue may begin with, in tasks: 128 MiB of slots. It may grow beyond.
pub(crate) const MOST_CAPACITY: usize = 1 << 24;

/// A work-stealing policy with the order `O`.
///
/// ```
/// use warpweft_policy::{Fifo, Lifo, Overflow};
/// use warpweft_queue::Amount;
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
    /// Half per steal, from anybody, queues of 256 tasks that grow in place.
    #[must_use]
    pub fn new() -> Self {
        Self::with_order(O::default())
    }
}

impl<O: Order> Stealing<O> {
    /// As [`new`](Stealing::new), with an order that has settings of its own.
    #[must_use]
    pub fn with_order(order: O) -> Self {
        let axes = Self::USUAL;
        Self { order, axes }
    }

    /// The axes as they are with the order alone.
    pub(crate) const USUAL: Axes = Axes {
        steal: StealAmount::Fixed(Amount::Half),
        victims: Victims::Random,
        help: Help::None,
        overflow: Overflow::Grow,
        capacity: 256,
        // Newest first, tasks that yield in a loop would share their worker with the newest task only.
        yield_to: if O::NEWEST_FIRST {
            YieldTo::Global
        } else {
            YieldTo::Local
        },
        woken: Woken::Waker,
        rebalance: Rebalance::Off,
    };

    /// How many tasks a thief takes at once. Once in eight searches it is one, whatever this says: where
    /// fewer than [`AtLeast`](Amount::AtLeast) lie, somebody must run them all the same.
    #[must_use]
    pub fn steal(mut self, portion: impl Into<StealAmount>) -> Self {
        self.axes.steal = portion.into();
        self
    }

    /// From whom a worker steals.
    #[must_use]
    pub fn victims(mut self, victims: Victims) -> Self {
        self.axes.victims = victims;
        self
    }

    /// Whether a worker with much to do asks others to take of it.
    #[must_use]
    pub fn help(mut self, help: Help) -> Self {
        self.axes.help = help;
        self
    }

    /// The capacity of a worker's queue in tasks, at first: 1 to 16 777 216, rounded up to a power of two.
    #[must_use]
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.axes.capacity = tasks;
        self
    }

    /// What happens when a worker's queue is full.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.axes.overflow = overflow;
        self
    }

    /// Where tasks go that give way and do not say themselves where to.
    #[must_use]
    pub fn yield_to(mut self, yield_to: YieldTo) -> Self {
        self.axes.yield_to = yield_to;
        self
    }

    /// Where woken tasks go.
    #[must_use]
    pub fn woken(mut self, woken: Woken) -> Self {
        self.axes.woken = woken;
        self
    }

    /// Whether a worker that has tasks takes of one that has clearly more. Usually it does not.
    ///
    /// With [`Rebalance::Every`]`(N)`: of two workers that are never idle, and spawn nothing, the one with
    /// fewer tasks has at least as many as the other one, but for 3 or a sixteenth, after 61 × (N + the
    /// difference) steps of its own. Then each task has 0.9 of the mean number of turns, and more, if workers
    /// are as fast as each other, and queues longer than 48 tasks. The price: tasks that wake each other are
    /// torn apart, and what the one worker had in its cache the other one has not. 16 is a good N.
    #[must_use]
    pub fn rebalance(mut self, rebalance: Rebalance) -> Self {
        self.axes.rebalance = rebalance;
        self
    }

    /// Within how many steps of the worker where it lies (of any worker, if it came from outside or gave way
    /// globally) a ready task runs, with `others` other ready tasks in a pool of so many workers.
    ///
    /// It is 2 × 6 × 61 × `k` × (`others` + 1): six places have their turn at every 61st step, one of which
    /// is the old end of the worker's own lane; `k` is how many levels, queues or homes take turns within a
    /// place, queues and homes for each level. Twice, for a task from outside may go on waiting in a lane.
    /// With polls of `T` at most that takes `T` times as long.
    ///
    /// Two axes are outside of it. With [`Overflow::LockFree`] and [`Overflow::Multi`] what overflows is
    /// served by chance: soon, most probably, and nobody can say when. And a worker that is stuck in one task
    /// makes no steps: what lies in its lane waits until others have nothing and steal it;
    /// [`Cforall`](crate::Cforall) helps before that.
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
        (2 * hooks::PLACES as u64 * u64::from(<Self as crate::Policy>::INTERVAL))
            .saturating_mul(within)
            .saturating_mul(others as u64 + 1)
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
