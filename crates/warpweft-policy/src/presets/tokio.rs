//! The multi-thread scheduler of tokio: a LIFO slot and a ring of 256 per worker, one injector.

use super::ring::{self, RING, make, refill, steal_half, take_one};
use crate::{Count, Cx, Policy, PolicyError, PoolEnv, Wake, WorkerId};
use std::fmt;
use warpweft_queue::{Fifo, FifoThief, Locked, Owner, Thief};
use warpweft_task::{QueueViewer, TaskRef, Why};

/// How often in a row the slot goes before the ring.
const SLOT_IN_A_ROW: u32 = 3;
/// Tasks between two reads of the clock, and the first interval between polls of the injector.
const EVENTS: u32 = 61;
/// The wanted time between two polls of the injector.
const TARGET_NS: u64 = 200_000;
/// The interval's limits, in tasks.
const INTERVALS: (u64, u64) = (2, 127);

/// As tokio schedules tasks. A task that another task spawns or wakes goes to a slot of its worker. The
/// former task of the slot goes to a ring of 256, half of which overflows into the injector. The slot goes
/// first three times in a row. The injector has every 61st step at first. Then it has a step every 200 µs, by
/// a moving average of the length of a step (weight of a new one 1/10), but every 2 to 127 steps. A task that
/// yields goes to the back of the ring. Thieves take half of a ring; they do not take from a slot.
///
/// # What is promised
///
/// A ready task with `M` other ready tasks in the pool is taken within [`Tokio::steps`]`(M)` steps, 61 × (M +
/// 257), of its worker (of any, if it is in the injector). With polls of `T` at most that takes `T` times as
/// long. tokio itself polls the injector at least every 127 steps; here the pool does so every 61.
///
/// A task in the slot waits until the running one ends its step: no other worker can reach it (tokio#4730).
///
/// ```
/// use warpweft_policy::Tokio;
/// assert_eq!(Tokio.to_string(), "tokio");
/// assert_eq!(Tokio::steps(0), 61 * 257);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokio;

impl Tokio {
    /// Returns within how many steps of its worker a task runs when `others` are ready.
    #[must_use]
    #[inline]
    pub fn steps(others: usize) -> u64 {
        u64::from(Self::INTERVAL).saturating_mul((others + RING + 1) as u64)
    }
}

impl fmt::Display for Tokio {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tokio")
    }
}

/// What thieves see: the rings and the injector.
pub struct Shared {
    rings: Box<[FifoThief<TaskRef>]>,
    injector: Locked<TaskRef>,
}

/// A worker's slot and ring, and the interval at which it polls the injector.
pub struct Local {
    slot: Option<TaskRef>,
    in_a_row: u32,
    ring: Fifo<TaskRef>,
    ticks: u32,
    pace: PollInterval,
}

/// The length of a step, and the interval that follows from it.
pub(super) struct PollInterval {
    /// The moving average, in nanoseconds; 0 if nothing is known.
    mean_ns: u64,
    /// When the clock was last read; `None` if the worker had nothing to do since.
    since: Option<u64>,
    pub(super) interval: u32,
}

impl PollInterval {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            mean_ns: 0,
            since: None,
            interval: EVENTS,
        }
    }

    /// Learns after `EVENTS` steps.
    #[inline]
    pub(super) fn learn(&mut self, now: u64) {
        if let Some(since) = self.since.replace(now) {
            let step = now.saturating_sub(since) / u64::from(EVENTS);
            self.mean_ns = match self.mean_ns {
                0 => step,
                mean => (9 * mean + step) / 10,
            };
            let wanted = TARGET_NS / self.mean_ns.max(1);
            // Between 2 and 127.
            self.interval = wanted.clamp(INTERVALS.0, INTERVALS.1) as u32;
        }
    }
}

impl Policy for Tokio {
    type Shared = Shared;
    type Local = Local;

    #[inline]
    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let own = |_| {
            Ok(Local {
                slot: None,
                in_a_row: 0,
                ring: make()?,
                ticks: 0,
                pace: PollInterval::new(),
            })
        };
        let owns = (0..env.workers)
            .map(own)
            .collect::<Result<Vec<Local>, PolicyError>>()?;
        let shared = Shared {
            rings: owns.iter().map(|own| own.ring.thief()).collect(),
            injector: Locked::new(),
        };
        Ok((shared, owns))
    }

    #[inline]
    fn push(shared: &Shared, own: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let Some(own) = own else {
            shared.injector.push(task);
            return Wake::Any;
        };
        let to_ring = if why == Why::Yielded {
            Some(task)
        } else {
            own.slot.replace(task)
        };
        match to_ring {
            Some(task) => {
                ring::push(&mut own.ring, &shared.injector, task, cx);
                Wake::Any
            }
            // Its worker is awake, and no other worker could take it.
            None => Wake::None,
        }
    }

    #[inline]
    fn watches_waits(_: &Self::Shared) -> bool {
        false
    }

    #[inline]
    fn next(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        own.ticks = own.ticks.wrapping_add(1);
        if own.ticks.is_multiple_of(EVENTS) {
            own.pace.learn(cx.now_ns());
        }
        if own.ticks.is_multiple_of(own.pace.interval)
            && let Some(task) = shared.injector.pop()
        {
            return Some(task);
        }
        if own.in_a_row < SLOT_IN_A_ROW
            && let Some(task) = own.slot.take()
        {
            own.in_a_row += 1;
            return Some(task);
        }
        own.in_a_row = 0;
        own.ring.pop().or_else(|| own.slot.take())
    }

    #[inline]
    fn poll_global(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let task = refill(&mut own.ring, &shared.injector, cx);
        cx.count(Count::GlobalPolls, u64::from(task.is_some()));
        task
    }

    #[inline]
    fn search(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        own.pace.since = None;
        if let Some(task) = refill(&mut own.ring, &shared.injector, cx) {
            return Some(task);
        }
        Self::steal_from_stuck(shared, own, cx)
    }

    #[inline]
    fn steal_from_stuck(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let workers = shared.rings.len();
        let first = cx.random(workers);
        (first..workers).chain(0..first).find_map(|victim| {
            if cx.worker().is_some_and(|me| me.0 == victim) {
                return None;
            }
            steal_half(&shared.rings[victim], &mut own.ring, cx)
        })
    }

    #[inline]
    fn scan(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let own = own.slot.take().or_else(|| own.ring.pop());
        own.or_else(|| shared.injector.pop())
            .or_else(|| shared.rings.iter().find_map(|ring| take_one(ring, cx)))
    }

    fn queued(shared: &Shared, worker: WorkerId) -> Option<usize> {
        shared.rings.get(worker.0).map(|ring| ring.glance().len)
    }

    fn queued_shared(shared: &Shared) -> Option<usize> {
        Some(shared.injector.len())
    }

    fn show_queued(shared: &Shared, viewer: &mut QueueViewer) {
        for ring in &shared.rings {
            ring.peek(viewer.room(), &mut |task| viewer.peek(&task));
        }
        shared.injector.for_each(viewer.room(), |task| viewer.see(task));
    }

    #[inline]
    fn is_only_ready(shared: &Shared, own: &Local) -> bool {
        own.slot.is_none() && own.ring.is_empty() && shared.injector.is_empty()
    }
}
