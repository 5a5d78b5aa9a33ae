//! Work stealing: a queue per worker, and thieves that take many tasks at once (EBSL chapter 4, appendix B).
//!
//! ```text
//!   outside ──▶ injector (locked) ───────┐ overdue, search, scan
//!   yielded (LIFO) ──▶ yielded (locked) ─┤
//!   no room, cannot grow ──▶ overflow ───┤
//!                                        ▼
//!   push ──▶ [own queue of worker 0] ──▶ next      ◀── half, one, or at least k, by a thief's one CAS
//!   push ──▶ [own queue of worker 1] ──▶ next
//! ```
//!
//! # Invariants
//!
//! - A task lies in exactly one of: a worker's queue, the injector, the yielded, the overflow.
//! - `search` may spare a victim's only task once: its owner is probably about to take it. A second look that finds
//!   it unmoved takes it. `scan` spares nothing.

use crate::order::{FifoOrder, LifoOrder, Order};
use crate::{Count, Cx, Policy, PolicyError, PoolEnv, Wake};
use std::fmt;
use std::marker::PhantomData;
use warpweft_queue::{Amount, CapacityError, Full, Glance, Locked, Owner, Steal, Thief};
use warpweft_task::{TaskRef, Why};

/// Work stealing with first-in, first-out queues: fair, best at the tail.
pub type Fifo = Stealing<FifoOrder>;

/// Work stealing with last-in, first-out queues: best for locality, and for tasks that spawn tasks.
pub type Lifo = Stealing<LifoOrder>;

/// The largest capacity that a worker's queue may begin with, in tasks: 128 MiB of slots. It may grow beyond.
pub(crate) const MOST_CAPACITY: usize = 1 << 24;

/// Where a task goes for which its worker's queue has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The queue doubles in place, while thieves are at work (EBSL B.7).
    Grow,
    /// Into one locked queue of the pool, as in Go and tokio.
    Locked,
}

/// Where a task goes that yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YieldTo {
    /// Into its worker's own queue (EBSL's soft yield). With FIFO that is behind all others; with LIFO behind the newest,
    /// so that it gives way to one task, the one whose data is still in the cache.
    Local,
    /// Into a queue of the pool that workers look at now and then (EBSL's hard yield).
    Global,
}

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
pub struct Stealing<O> {
    pub(crate) capacity: usize,
    pub(crate) steal: Amount,
    pub(crate) overflow: Overflow,
    pub(crate) yield_to: YieldTo,
    order: PhantomData<O>,
}

impl<O: Order> Stealing<O> {
    /// Half per steal, queues of 256 tasks that grow in place.
    #[must_use]
    pub fn new() -> Self {
        Self {
            capacity: 256,
            steal: Amount::Half,
            overflow: Overflow::Grow,
            // With LIFO, tasks that yield in a loop would share their worker with the newest task only.
            yield_to: if O::PASSES_OVER {
                YieldTo::Global
            } else {
                YieldTo::Local
            },
            order: PhantomData,
        }
    }

    /// How many tasks a thief takes at once.
    #[must_use]
    pub fn steal(mut self, amount: Amount) -> Self {
        self.steal = amount;
        self
    }

    /// The capacity of a worker's queue in tasks, at first: 1 to 16 777 216, rounded up to a power of two.
    #[must_use]
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.capacity = tasks;
        self
    }

    /// What happens when a worker's queue is full.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Where yielded tasks go.
    #[must_use]
    pub fn yield_to(mut self, yield_to: YieldTo) -> Self {
        self.yield_to = yield_to;
        self
    }
}

impl<O: Order> Default for Stealing<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> Clone for Stealing<O> {
    fn clone(&self) -> Self {
        Self {
            order: PhantomData,
            ..*self
        }
    }
}

impl<O: Order> fmt::Display for Stealing<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(O::NAME)?;
        match self.steal {
            Amount::One => f.write_str("+steal=one")?,
            Amount::Half => f.write_str("+steal=half")?,
            Amount::AtLeast(least) => write!(f, "+steal=atleast:{least}")?,
        }
        f.write_str(match self.overflow {
            Overflow::Grow => "+overflow=grow",
            Overflow::Locked => "+overflow=locked",
        })?;
        write!(f, "+capacity={}", self.capacity)?;
        f.write_str(match self.yield_to {
            YieldTo::Local => "+yield=local",
            YieldTo::Global => "+yield=global",
        })
    }
}

impl<O: Order> fmt::Debug for Stealing<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stealing({self})")
    }
}

type LaneThief<O> = <<O as Order>::Queue as Owner<TaskRef>>::Thief;

/// What the workers of a [`Stealing`] pool share.
pub struct Shared<O: Order> {
    lanes: Box<[LaneThief<O>]>,
    injector: Locked<TaskRef>,
    yielded: Locked<TaskRef>,
    overflow: Locked<TaskRef>,
    steal: Amount,
    grow: bool,
    yield_global: bool,
}

/// A worker's own half of a [`Stealing`] pool.
pub struct Local<O: Order> {
    lane: O::Queue,
    /// What each victim looked like when its only task was spared.
    spared: Box<[Option<Glance>]>,
    /// Searches so far; now and then one takes less than `AtLeast` asks for.
    searches: u32,
    /// Whose turn it is to be overdue.
    turn: u32,
}

impl<O: Order> Policy for Stealing<O> {
    type Shared = Shared<O>;
    type Local = Local<O>;

    fn build(&self, env: &PoolEnv) -> Result<(Shared<O>, Vec<Local<O>>), PolicyError> {
        if self.capacity > MOST_CAPACITY {
            return Err(CapacityError::TooLarge {
                asked: self.capacity,
                limit: MOST_CAPACITY,
            }
            .into());
        }
        let mut locals: Vec<Local<O>> = Vec::with_capacity(env.workers);
        for _ in 0..env.workers {
            let lane = O::Queue::with_capacity(self.capacity)?;
            locals.push(Local {
                lane,
                spared: vec![None; env.workers].into(),
                searches: 0,
                turn: 0,
            });
        }
        let shared = Shared {
            lanes: locals.iter().map(|local| local.lane.thief()).collect(),
            injector: Locked::new(),
            yielded: Locked::new(),
            overflow: Locked::new(),
            steal: self.steal,
            grow: self.overflow == Overflow::Grow,
            yield_global: self.yield_to == YieldTo::Global,
        };
        Ok((shared, locals))
    }

    #[inline]
    fn push(shared: &Shared<O>, local: Option<&mut Local<O>>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let Some(local) = local else {
            shared.injector.push(task);
            return Wake::Any;
        };
        if why == Why::Yielded && (shared.yield_global || O::PASSES_OVER) {
            yielded(shared, local, task, cx);
        } else if let Err(Full(task)) = local.lane.push(task) {
            no_room(shared, local, task, cx);
        }
        Wake::Any
    }

    #[inline]
    fn next(_shared: &Shared<O>, local: &mut Local<O>, _cx: &Cx<'_>) -> Option<TaskRef> {
        local.lane.pop()
    }

    fn overdue(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        // By turns: as long as one place never runs dry, the others would wait for ever.
        local.turn = local.turn.wrapping_add(1);
        (0..4).find_map(|place| match local.turn.wrapping_add(place) % 4 {
            0 => from_injector(shared, local, cx),
            1 => shared.yielded.pop(),
            2 => shared.overflow.pop(),
            _ => {
                // The bottom of its own stack, which newer tasks may bury for ever.
                let me = cx.worker().filter(|_| O::PASSES_OVER)?;
                shared.lanes[me.0].steal_one().taken()
            }
        })
    }

    fn search(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        if let Some(task) = from_pool_queues(shared, local, cx) {
            return Some(task);
        }
        local.searches = local.searches.wrapping_add(1);
        // Where fewer than k tasks lie, somebody must run them all the same (EBSL's rare small steal).
        let amount = if local.searches.is_multiple_of(8) {
            Amount::One
        } else {
            shared.steal
        };
        let lanes = shared.lanes.len();
        let first = cx.random(lanes);
        (first..lanes)
            .chain(0..first)
            .find_map(|victim| rob(shared, local, victim, amount, cx))
    }

    fn scan(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        if let Some(task) = local.lane.pop().or_else(|| from_pool_queues(shared, local, cx)) {
            return Some(task);
        }
        shared.lanes.iter().find_map(|lane| {
            loop {
                match lane.steal_one() {
                    Steal::Taken { first, .. } => return Some(first),
                    Steal::Empty | Steal::Few(_) => return None,
                    // Somebody else took something, or the queue grows: it is not known to be empty.
                    Steal::Lost => cx.pause(),
                }
            }
        })
    }

    fn alone(shared: &Shared<O>, local: &Local<O>) -> bool {
        local.lane.is_empty()
            && shared.injector.is_empty()
            && shared.yielded.is_empty()
            && shared.overflow.is_empty()
    }
}

/// A yielded task that does not simply go to the end of its worker's queue.
fn yielded<O: Order>(shared: &Shared<O>, local: &mut Local<O>, task: TaskRef, cx: &Cx<'_>) {
    if shared.yield_global {
        return shared.yielded.push(task);
    }
    let newest = local.lane.pop();
    for task in [Some(task), newest].into_iter().flatten() {
        if let Err(Full(task)) = local.lane.push(task) {
            no_room(shared, local, task, cx);
        }
    }
}

#[cold]
fn no_room<O: Order>(shared: &Shared<O>, local: &mut Local<O>, task: TaskRef, cx: &Cx<'_>) {
    let task = if shared.grow && local.lane.grow().is_ok() {
        cx.count(Count::Grown, 1);
        match local.lane.push(task) {
            Ok(()) => return,
            Err(Full(task)) => task,
        }
    } else {
        task
    };
    cx.count(Count::Overflowed, 1);
    shared.overflow.push(task);
}

/// One task from outside; a fair share of the others comes along into the worker's own queue.
fn from_injector<O: Order>(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
    take_share(&shared.injector, local, cx)
}

fn from_pool_queues<O: Order>(shared: &Shared<O>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
    from_injector(shared, local, cx)
        .or_else(|| take_share(&shared.overflow, local, cx))
        .or_else(|| shared.yielded.pop())
}

/// The oldest task of a pool-wide queue. If the worker has nothing of its own, its share of the others comes along,
/// so that the lock is taken once for many.
fn take_share<O: Order>(queue: &Locked<TaskRef>, local: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
    let waiting = queue.len();
    if waiting == 0 {
        return None;
    }
    let first = queue.pop()?;
    let room = local.lane.capacity() - local.lane.len();
    if local.lane.is_empty() {
        let share = (waiting / cx.workers()).min(room / 2);
        let mut batch = Vec::with_capacity(share);
        queue.pop_batch(&mut batch, share);
        let mut rest = batch.into_iter();
        while let Some(task) = rest.next() {
            if let Err(Full(task)) = local.lane.push(task) {
                queue.push(task);
                rest.by_ref().for_each(|task| queue.push(task));
            }
        }
    }
    Some(first)
}

/// Steals from one victim, unless its only task is new there.
fn rob<O: Order>(
    shared: &Shared<O>,
    local: &mut Local<O>,
    victim: usize,
    amount: Amount,
    cx: &Cx<'_>,
) -> Option<TaskRef> {
    if cx.worker().is_some_and(|me| me.0 == victim) {
        return None;
    }
    let lane = &shared.lanes[victim];
    let glance = lane.glance();
    if glance.len == 0 {
        return None;
    }
    if glance.len == 1 && local.spared[victim] != Some(glance) {
        local.spared[victim] = Some(glance);
        cx.count(Count::Spared, 1);
        return None;
    }
    cx.count(Count::StealAttempts, 1);
    match lane.steal_into(&mut local.lane, amount) {
        Steal::Taken { first, moved } => {
            cx.count(Count::Steals, 1);
            cx.count(Count::Stolen, moved as u64 + 1);
            Some(first)
        }
        Steal::Lost => {
            cx.count(Count::StealsLost, 1);
            None
        }
        Steal::Empty | Steal::Few(_) => None,
    }
}
