//! Fair work stealing: workers help where tasks wait much longer than their own (T. Delisle, the scheduler of
//! C∀).
//!
//! ```text
//!   worker 0   [ queue 0 ] [ queue 1 ]     its tasks usually wait for 2 µs
//!   worker 1   [ queue 2 ] [ queue 3 ]     queue 2: the last task that was taken came 40 µs ago
//!                 ▲
//!                 └── one pop chooses a queue at random, the next one compares: 40 > 8 × 2, so it takes one
//! ```
//!
//! # Time stamps
//!
//! A worker reads the clock once in [`clock_every`](Helping::clock_every) pops and remembers the time. A push
//! writes the remembered time into the task's word, a line that the push has just touched. A local queue's
//! *mark* is the stamp of the task that was last taken from its old end, or of the one that found it empty.
//! It is about as old as the oldest task, and a plain store. So fairness costs a store per push and per pop,
//! and a clock read per eight pops. In return, stamps are too old by at most eight steps. They decide between
//! times that differ eightfold.
//!
//! # Invariants
//!
//! - A task is in a worker's local queue or in the injector. Only its worker pushes to a local queue; all
//!   workers take from it.
//! - `next` takes from others in at most one of two pops, so own tasks run at least every other time.
//!   `poll_global` goes round the injector, the old end of the worker's local queues, and the local queue of
//!   another worker whose mark is the oldest.
//! - With an order that has levels, the most urgent of a worker's local queues is the next one, and more
//!   urgent tasks from outside go before it. Ages decide among equally urgent local queues.
//! - Marks and averages are hints. If they are wrong, help comes too early or too late, and from
//!   `poll_global` in any case.

mod lanes;

use crate::WorkerId;
use crate::by_class::{self, Ranked};
use crate::order::{Classes as _, FifoOrder, LocalQueue as _, LocalQueueThief as _, Order};
use crate::{Count, Cx, Policy, PolicyError, PoolEnv, Wake};
use lanes::{Local, OwnQueue, Shared, SharedQueue, stamp};
use std::fmt;
use warpweft_platform::CachePadded;
use warpweft_platform::counter::Gauge;
use warpweft_queue::Steal;
use warpweft_task::{QueueViewer, TaskRef, Why};

/// The scheduler of C∀: fair work stealing over FIFO local queues.
pub type Cforall = Helping<FifoOrder>;

/// The largest number of local queues of a worker.
const MOST_LANES: usize = 16;

/// The number of places that `poll_global` polls in turn.
const PLACES: u32 = 3;

/// Work stealing with the order `O` within a local queue, and help between workers by the age of waiting
/// tasks.
///
/// The constants are those of C∀, and may be changed:
///
/// | what | constant |
/// |---|---|
/// | local queues of a worker | [`lanes`](Self::lanes): 2 |
/// | a local queue to help is chosen once in this number of pops, and tried at the next one | [`every`](Self::every): 2 |
/// | help if the other's age exceeds the largest of the own averages 2^n times | [`age_log2`](Self::age_log2): 3 |
/// | local queues behind another last-level cache are chosen this many times in 256 | [`far`](Self::far): 3 |
/// | weight of a new wait in the moving average, in sixteenths | [`weight`](Self::weight): 12 |
///
/// Caches are known if the workers are pinned; otherwise all workers are near.
///
/// # What is promised
///
/// A ready task with `M` other ready tasks in the pool is taken within [`steps`](Self::steps)`(M, workers)`
/// steps of any workers, 183 × (M + local queues in the pool + 1). With polls of `T` at most that takes `T`
/// times as long. That holds when the task's worker is stuck. When it is not, and the order is FIFO, its
/// worker takes it within `4 × (M + 2)` steps ([`own_steps`](Self::own_steps)).
///
/// ```
/// use warpweft_policy::{Cforall, Helping, LifoOrder};
/// assert_eq!(Cforall::new().to_string(), "cforall");
/// let helped = Helping::<LifoOrder>::new().lanes(1).age_log2(2);
/// assert_eq!(helped.to_string(), "cforall+order=lifo+lanes=1+age=2");
/// ```
#[derive(Clone)]
pub struct Helping<O> {
    lanes: usize,
    every: u32,
    age_log2: u32,
    far: u32,
    weight: u32,
    clock_every: u32,
    capacity: usize,
    order: O,
}

impl<O: Order + Default> Helping<O> {
    /// Uses the order with its defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::around(O::default())
    }
}

impl<O: Order + Default> Default for Helping<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Order> Helping<O> {
    /// Uses an order with the constants of C∀; local queues hold 128 tasks and grow in place.
    #[must_use]
    pub fn around(order: O) -> Self {
        Self {
            lanes: 2,
            every: 2,
            age_log2: 3,
            far: 3,
            weight: 12,
            clock_every: 8,
            capacity: 128,
            order,
        }
    }

    /// Sets how many local queues a worker has: 1 to 16.
    #[must_use]
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes;
        self
    }

    /// Sets once in how many pops a worker chooses a local queue to help: 2 or more, so that its own tasks
    /// have their turn.
    #[must_use]
    pub fn every(mut self, pops: u32) -> Self {
        self.every = pops;
        self
    }

    /// Sets how many times older another local queue's oldest task must be to be helped, as a power of two: 0
    /// to 32.
    #[must_use]
    pub fn age_log2(mut self, factor: u32) -> Self {
        self.age_log2 = factor;
        self
    }

    /// Sets in how many of 256 choices local queues behind other last-level caches are eligible.
    #[must_use]
    pub fn far(mut self, of_256: u32) -> Self {
        self.far = of_256;
        self
    }

    /// Sets the weight of a new wait in the moving average: 1 to 16 sixteenths.
    #[must_use]
    pub fn weight(mut self, sixteenths: u32) -> Self {
        self.weight = sixteenths;
        self
    }

    /// Sets once in how many pops a worker reads the clock: 1 or more.
    #[must_use]
    pub fn clock_every(mut self, pops: u32) -> Self {
        self.clock_every = pops;
        self
    }

    /// Sets how many tasks a local queue holds at first.
    #[must_use]
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.capacity = tasks;
        self
    }

    /// Returns within how many steps of any worker a task runs when `others` are ready in a pool of
    /// `workers`. The number of levels and the number of local queues of a worker multiply it: they take
    /// turns.
    #[must_use]
    pub fn steps(&self, others: usize, workers: usize) -> u64 {
        let lanes = self.lanes * workers + 1;
        let turns = if O::Classes::BY_PRIORITY {
            self.lanes * by_class::levels(&self.order)
        } else {
            1
        };
        u64::from(PLACES * Self::INTERVAL)
            .saturating_mul((others + lanes) as u64)
            .saturating_mul(turns as u64)
    }

    /// Returns within how many steps of its worker a task runs that was pushed there, in FIFO local queues.
    #[must_use]
    pub fn own_steps(&self, others: usize) -> u64 {
        4 * (others as u64 + 2)
    }

    /// Checks that the constants are possible.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let wrong = if !(1..=MOST_LANES).contains(&self.lanes) {
            format!("{} lanes per worker: there may be 1 to {MOST_LANES}", self.lanes)
        } else if self.every < 2 {
            let every = self.every;
            format!("help at every {every}th pop: it is 2 or more, or own tasks would never be taken")
        } else if self.age_log2 > 32 {
            format!(
                "help beyond 2^{} times the own age: it is 2^0 to 2^32",
                self.age_log2
            )
        } else if self.far > 256 {
            format!("far lanes in {} of 256 choices: it is 0 to 256", self.far)
        } else if !(1..=16).contains(&self.weight) {
            format!("a weight of {} sixteenths: it is 1 to 16", self.weight)
        } else if self.clock_every == 0 {
            String::from("the clock at every 0th pop: it is 1 or more")
        } else if !self.order.shares().is_empty() {
            format!("shares in `{}`: only `Stealing` keeps them", self.order)
        } else {
            return Ok(());
        };
        Err(PolicyError::Other(wrong))
    }
}

impl<O: Order> fmt::Display for Helping<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cforall")?;
        if O::NEWEST_FIRST {
            write!(f, "+order={}", self.order)?;
        }
        let usual = Self::around(self.order.clone());
        for (name, value, usual) in [
            ("lanes", self.lanes, usual.lanes),
            ("every", self.every as usize, usual.every as usize),
            ("age", self.age_log2 as usize, usual.age_log2 as usize),
            ("far", self.far as usize, usual.far as usize),
            ("weight", self.weight as usize, usual.weight as usize),
            ("clock", self.clock_every as usize, usual.clock_every as usize),
            ("capacity", self.capacity, usual.capacity),
        ] {
            if value != usual {
                write!(f, "+{name}={value}")?;
            }
        }
        Ok(())
    }
}

impl<O: Order> fmt::Debug for Helping<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Helping({self})")
    }
}

impl<O: Order> Policy for Helping<O> {
    type Shared = Shared<O>;
    type Local = Local<O>;
    const INHERITS_PRIORITY: bool = O::Classes::BY_PRIORITY;

    fn priorities(&self) -> u8 {
        self.order.priorities()
    }

    fn build(&self, env: &PoolEnv) -> Result<(Shared<O>, Vec<Local<O>>), PolicyError> {
        self.check()?;
        let lane = |_| {
            let queue = self.order.local_queue(self.capacity)?;
            Ok(OwnQueue { queue, wait: 0 })
        };
        let (mut lanes, mut owns) = (Vec::new(), Vec::new());
        for me in 0..env.workers {
            let own: Box<[OwnQueue<O>]> = (0..self.lanes).map(lane).collect::<Result<_, PolicyError>>()?;
            lanes.extend(own.iter().map(|lane| SharedQueue {
                thief: lane.queue.thief(),
                mark: CachePadded::new(Gauge::default()),
            }));
            let others = |near: bool| {
                let is_near = move |other: &usize| {
                    let cache = |worker: usize| env.places.get(worker).map(|place| place.cache);
                    !near || cache(*other) == cache(me)
                };
                let workers = (0..env.workers).filter(|&other| other != me).filter(is_near);
                let lanes = workers.flat_map(|other| other * self.lanes..(other + 1) * self.lanes);
                lanes.chain([env.workers * self.lanes]).collect()
            };
            owns.push(Local {
                lanes: own,
                first: me * self.lanes,
                near: others(true),
                all: others(false),
                target: None,
                until_clock: 0,
                until_choice: 0,
                now: 0,
                pushed: 0,
                popped: 0,
                turn: 0,
            });
        }
        let shared = Shared {
            lanes: lanes.into(),
            injector: Ranked::new(by_class::levels(&self.order)),
            injected: CachePadded::new(Gauge::default()),
            config: self.clone(),
        };
        Ok((shared, owns))
    }

    #[inline]
    fn push(
        shared: &Shared<O>,
        own: Option<&mut Local<O>>,
        mut task: TaskRef,
        why: Why,
        cx: &Cx<'_>,
    ) -> Wake {
        match own {
            Some(own) if !(O::NEWEST_FIRST && why == Why::Yielded) => {
                stamp::<O>(&mut task, own.now);
                // In turn instead of at random: it is as even, and free.
                own.pushed = if own.pushed + 1 < own.lanes.len() {
                    own.pushed + 1
                } else {
                    0
                };
                own.push(shared, own.pushed, task, cx);
            }
            own => {
                let now = own.map_or_else(|| cx.now_ns(), |own| own.now);
                stamp::<O>(&mut task, now);
                shared.inject(task, now);
            }
        }
        Wake::Any
    }

    #[inline]
    fn watches_waits(_: &Self::Shared) -> bool {
        false
    }

    #[inline]
    fn next(shared: &Shared<O>, own: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        let config = &shared.config;
        if own.until_clock == 0 {
            own.until_clock = config.clock_every;
            own.now = cx.now_ns();
        }
        own.until_clock -= 1;
        if O::Classes::BY_PRIORITY
            && let Some(task) = shared.more_urgent(own)
        {
            return Some(task);
        }
        if let Some(target) = own.target.take() {
            let helped = own.help(shared, target, cx);
            if helped.is_some() {
                return helped;
            }
        } else if own.until_choice == 0 {
            own.until_choice = config.every - 2;
            own.choose(config.far, cx);
        } else {
            own.until_choice -= 1;
        }
        own.pop(shared, cx)
    }

    fn poll_global(shared: &Shared<O>, own: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        own.turn = own.turn.wrapping_add(1);
        let task = (0..PLACES).find_map(|place| match own.turn.wrapping_add(place) % PLACES {
            0 => shared.injected_by_turns(own.turn / PLACES),
            // Tasks that newer ones may bury forever.
            1 => own.passed_over(shared),
            _ => {
                // Equally old ones have turns.
                let start = own.turn as usize % own.all.len();
                let (before, rest) = own.all.split_at(start);
                let lanes = rest.iter().chain(before).copied();
                let oldest = lanes
                    .filter(|&lane| shared.has(lane))
                    .min_by_key(|&lane| shared.mark(lane));
                oldest.and_then(|lane| shared.steal(lane))
            }
        });
        cx.count(Count::GlobalPolls, u64::from(task.is_some()));
        task
    }

    /// With priorities `next` also takes from shared queues.
    fn drain(shared: &Shared<O>, own: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        if O::Classes::BY_PRIORITY {
            own.pop(shared, cx)
        } else {
            Self::next(shared, own, cx)
        }
    }

    fn search(shared: &Shared<O>, own: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        own.now = cx.now_ns();
        // One at random, then all.
        let start = cx.random(own.all.len());
        let (before, rest) = own.all.split_at(start);
        let lanes = rest.iter().chain(before);
        lanes.copied().filter(|&lane| shared.has(lane)).find_map(|lane| {
            cx.count(Count::StealAttempts, 1);
            let task = shared.steal(lane)?;
            cx.count(Count::Steals, 1);
            cx.count(Count::Stolen, 1);
            Some(task)
        })
    }

    fn scan(shared: &Shared<O>, own: &mut Local<O>, cx: &Cx<'_>) -> Option<TaskRef> {
        if let Some(task) = own.pop(shared, cx).or_else(|| shared.take_injected()) {
            return Some(task);
        }
        shared.lanes.iter().find_map(|lane| {
            loop {
                match lane.thief.steal_one() {
                    Steal::Taken { first, .. } => return Some(first),
                    Steal::Empty | Steal::Few(_) => return None,
                    // Another thread took something, or the local queue grows: it is not known to be empty.
                    Steal::Lost => cx.pause(),
                }
            }
        })
    }

    fn queued(shared: &Shared<O>, worker: WorkerId) -> Option<usize> {
        let lanes = shared.config.lanes;
        let first = worker.0.checked_mul(lanes)?;
        let own = shared.lanes.get(first..first + lanes)?;
        Some(own.iter().map(|lane| lane.thief.glance().len).sum())
    }

    fn queued_shared(shared: &Shared<O>) -> Option<usize> {
        Some(shared.injector.len())
    }

    fn show_queued(shared: &Shared<O>, viewer: &mut QueueViewer) {
        for lane in &shared.lanes {
            lane.thief.show(viewer);
        }
        shared.injector.show(viewer);
    }

    fn is_only_ready(shared: &Shared<O>, own: &Local<O>) -> bool {
        // `next` helps others, too.
        own.lanes.iter().all(|lane| lane.queue.is_empty()) && !own.all.iter().any(|&lane| shared.has(lane))
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests;
