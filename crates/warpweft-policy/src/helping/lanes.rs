//! A worker's local queues, their view for others, and the age of their tasks.

use super::{Helping, PLACES};
use crate::by_class::Ranked;
use crate::order::{Classes as _, LocalQueue as _, LocalQueueThief as _, Order};
use crate::{Count, Cx, priority};
use warpweft_platform::CachePadded;
use warpweft_platform::counter::Gauge;
use warpweft_queue::Full;
use warpweft_task::TaskRef;

/// Returns `log2(ns)` in sixteenths: the exponent, and four bits of the mantissa as its fraction.
pub(super) fn log2(ns: u64) -> u32 {
    let ns = ns.max(1);
    let exponent = ns.ilog2();
    // The four bits below the highest one.
    let fraction = (u128::from(ns) << 4 >> exponent) as u32 & 15;
    exponent << 4 | fraction
}

/// Writes the time of arrival into the task's word. Beside a priority there is room for two years of uptime;
/// later the ages, which are hints, are wrong.
#[inline]
pub(super) fn stamp<O: Order>(task: &mut TaskRef, now: u64) {
    task.set_policy_word(if O::Classes::BY_PRIORITY {
        priority::keep(task.policy_word(), now)
    } else {
        now
    });
}

#[inline]
fn stamp_of<O: Order>(task: &TaskRef) -> u64 {
    if O::Classes::BY_PRIORITY {
        priority::own(task.policy_word())
    } else {
        task.policy_word()
    }
}

/// A local queue as others see it.
pub(super) struct SharedQueue<O: Order> {
    pub(super) thief: <O::LocalQueue as crate::order::LocalQueue>::Thief,
    /// The approximate time of arrival of its oldest task.
    pub(super) mark: CachePadded<Gauge>,
}

/// The shared state of the workers of a [`Helping`] pool.
pub struct Shared<O: Order> {
    pub(super) lanes: Box<[SharedQueue<O>]>,
    pub(super) injector: Ranked<O::Classes>,
    pub(super) injected: CachePadded<Gauge>,
    pub(super) config: Helping<O>,
}

/// A worker's own half of a [`Helping`] pool.
pub struct Local<O: Order> {
    pub(super) lanes: Box<[OwnQueue<O>]>,
    /// The number of its first local queue.
    pub(super) first: usize,
    /// Local queues of others behind the same cache; the injector counts as near.
    pub(super) near: Box<[usize]>,
    /// Local queues of all others, and the injector.
    pub(super) all: Box<[usize]>,
    /// The local queue that it may help next.
    pub(super) target: Option<usize>,
    /// Pops until it reads the clock.
    pub(super) until_clock: u32,
    /// Pops until it chooses a local queue to help; the pop after that helps.
    pub(super) until_choice: u32,
    /// The time at which it last read the clock.
    pub(super) now: u64,
    /// The local queue to which it pushed last.
    pub(super) pushed: usize,
    /// The local queue from which it popped last.
    pub(super) popped: usize,
    pub(super) turn: u32,
}

/// The owner's end of a local queue.
pub(super) struct OwnQueue<O: Order> {
    pub(super) queue: O::LocalQueue,
    /// How long tasks wait here: a moving average of log2, in sixteenths.
    pub(super) wait: u32,
}

impl<O: Order> Local<O> {
    #[inline]
    pub(super) fn push(&mut self, shared: &Shared<O>, lane: usize, task: TaskRef, cx: &Cx<'_>) {
        let queue = &mut self.lanes[lane].queue;
        if queue.is_empty() {
            shared.lanes[self.first + lane].mark.set(self.now);
        }
        if let Err(Full(task)) = queue.push(task) {
            self.grow(shared, lane, task, cx);
        }
    }

    #[cold]
    fn grow(&mut self, shared: &Shared<O>, lane: usize, task: TaskRef, cx: &Cx<'_>) {
        cx.count(Count::Grown, 1);
        let Err(Full(task)) = self.lanes[lane].queue.push_grown(task) else {
            return;
        };
        cx.count(Count::Overflowed, 1);
        shared.inject(task, self.now);
    }

    /// Pops from its local queue with the oldest mark; of equally old ones, from the one whose turn it is.
    /// With levels the most urgent local queues come first.
    #[inline]
    pub(super) fn pop(&mut self, shared: &Shared<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        let count = self.lanes.len();
        let (mut best, mut first, mut oldest) = (None, 0, u64::MAX);
        let mut lane = self.popped;
        for _ in 0..count {
            lane = if lane + 1 < count { lane + 1 } else { 0 };
            let mark = shared.lanes[self.first + lane].mark.get();
            let queue = &self.lanes[lane].queue;
            let level = if O::Classes::BY_PRIORITY {
                queue.first_level()
            } else {
                0
            };
            let is_better = best.is_none() || level < first || level == first && mark < oldest;
            if is_better && !queue.is_empty() {
                (best, first, oldest) = (Some(lane), level, mark);
            }
        }
        let lane = best?;
        self.popped = lane;
        let task = self.lanes[lane].queue.pop(cx)?;
        let stamp = stamp_of::<O>(&task);
        if !O::NEWEST_FIRST {
            shared.lanes[self.first + lane].mark.set(stamp);
        }
        let (weight, wait) = (shared.config.weight, &mut self.lanes[lane].wait);
        *wait = (weight * log2(self.now.saturating_sub(stamp)) + (16 - weight) * *wait) / 16;
        Some(task)
    }

    /// Takes the oldest task that newer tasks may bury forever. The local queues take turns.
    pub(super) fn passed_over(&mut self, shared: &Shared<O>) -> Option<TaskRef> {
        let count = self.lanes.len();
        (0..count).find_map(|place| {
            let lane = (self.turn as usize / PLACES as usize + place) % count;
            let task = self.lanes[lane].queue.passed_over()?;
            shared.lanes[self.first + lane].mark.set(stamp_of::<O>(&task));
            Some(task)
        })
    }

    /// Chooses the local queue to help at the next pop.
    #[inline]
    pub(super) fn choose(&mut self, far: u32, cx: &Cx<'_>) {
        let lanes = if (cx.random(256) as u32) < far {
            &self.all
        } else {
            &self.near
        };
        self.target = Some(lanes[cx.random(lanes.len())]);
    }

    /// Takes a task from the local queue if that one has waited much longer than own tasks usually do.
    #[inline]
    pub(super) fn help(&self, shared: &Shared<O>, lane: usize, cx: &Cx<'_>) -> Option<TaskRef> {
        if !shared.has(lane) {
            return None;
        }
        let used_to = self.lanes.iter().map(|lane| lane.wait).max().unwrap_or(0);
        let age = log2(self.now.saturating_sub(shared.mark(lane)));
        if age <= used_to + (shared.config.age_log2 << 4) {
            return None;
        }
        cx.count(Count::StealAttempts, 1);
        let task = shared.steal(lane)?;
        cx.count(Count::Steals, 1);
        cx.count(Count::Stolen, 1);
        Some(task)
    }
}

impl<O: Order> Shared<O> {
    /// Returns true if the local queue, or the injector behind the last local queue, seems to have a task.
    #[inline]
    pub(super) fn has(&self, lane: usize) -> bool {
        match self.lanes.get(lane) {
            Some(lane) => lane.thief.glance().len != 0,
            None => !self.injector.is_empty(),
        }
    }

    #[inline]
    pub(super) fn mark(&self, lane: usize) -> u64 {
        self.lanes
            .get(lane)
            .map_or(&self.injected, |lane| &lane.mark)
            .get()
    }

    /// Takes the oldest task of the local queue, or of the injector behind the last local queue. Tries once.
    pub(super) fn steal(&self, lane: usize) -> Option<TaskRef> {
        let Some(lane) = self.lanes.get(lane) else {
            return self.take_injected();
        };
        let task = lane.thief.steal_one().taken()?;
        lane.mark.set(stamp_of::<O>(&task));
        Some(task)
    }

    pub(super) fn inject(&self, task: TaskRef, now: u64) {
        if self.injector.is_empty() {
            self.injected.set(now);
        }
        self.injector.push(task);
    }

    /// Takes the oldest task of the most urgent class that came from outside.
    pub(super) fn take_injected(&self) -> Option<TaskRef> {
        self.injected_by_turns(0)
    }

    /// Takes a task from outside; the classes take turns.
    pub(super) fn injected_by_turns(&self, turn: u32) -> Option<TaskRef> {
        self.noted(self.injector.pop_by_turns(turn as usize)?)
    }

    /// Takes a task from outside that is more urgent than all of this worker's.
    #[inline]
    pub(super) fn more_urgent(&self, own: &Local<O>) -> Option<TaskRef> {
        let class = self.injector.first()?;
        let levels = own.lanes.iter().map(|lane| lane.queue.first_level());
        let limit = levels.min().unwrap_or(usize::MAX);
        if class >= limit {
            return None;
        }
        self.noted(self.injector.pop_above(limit)?)
    }

    fn noted(&self, task: TaskRef) -> Option<TaskRef> {
        self.injected.set(stamp_of::<O>(&task));
        Some(task)
    }
}
