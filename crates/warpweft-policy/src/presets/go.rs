//! The scheduler of Go: a ring of 256 and a *run next* slot per worker, one global queue.

use super::ring::{self, RING, make, refill, steal_half, take_one};
use crate::{Count, Cx, Policy, PolicyError, PoolEnv, Wake, WorkerId};
use std::fmt;
use warpweft_queue::{Fifo, FifoThief, Full, Locked, Owner, Thief};
use warpweft_task::{QueueViewer, TaskRef, Why};

/// Rounds through all victims before a worker gives up. In the last round it also takes from the slots.
const ROUNDS: usize = 4;

/// As Go schedules goroutines. A task that another task spawns or wakes runs next. The others are in a ring
/// of 256, half of which overflows into a global queue; that one also gets tasks that yield, and has every
/// 61st step. Thieves take half of a ring, and from the slot last.
///
/// In Go a chain of tasks that run next shares one time slice, and is preempted after 10 ms. Nothing is
/// preempted here; every second call of `poll_global` takes from the ring instead.
///
/// # What is promised
///
/// A ready task with `M` other ready tasks in the pool is taken within [`Go::steps`]`(M)` steps, 122 × (M +
/// 257), of its worker (of any, if it is in the global queue). With polls of `T` at most that takes `T` times
/// as long.
///
/// ```
/// use warpweft_policy::Go;
/// assert_eq!(Go.to_string(), "go");
/// assert_eq!(Go::steps(0), 122 * 257);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Go;

impl Go {
    /// Returns within how many steps of its worker a task runs when `others` are ready.
    #[must_use]
    #[inline]
    pub fn steps(others: usize) -> u64 {
        u64::from(2 * Self::INTERVAL).saturating_mul((others + RING + 1) as u64)
    }
}

impl fmt::Display for Go {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("go")
    }
}

/// What thieves see: the rings, the slots, and the global queue.
pub struct Shared {
    rings: Box<[FifoThief<TaskRef>]>,
    next: Box<[FifoThief<TaskRef>]>,
    global: Locked<TaskRef>,
}

/// A worker's slot and ring.
pub struct Local {
    /// Holds at most one task: a push takes the old one out.
    next: Fifo<TaskRef>,
    ring: Fifo<TaskRef>,
    turn: u32,
}

impl Policy for Go {
    type Shared = Shared;
    type Local = Local;

    #[inline]
    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let own = |_| {
            Ok(Local {
                next: Fifo::with_capacity(2)?,
                ring: make()?,
                turn: 0,
            })
        };
        let owns = (0..env.workers)
            .map(own)
            .collect::<Result<Vec<Local>, PolicyError>>()?;
        let shared = Shared {
            rings: owns.iter().map(|own| own.ring.thief()).collect(),
            next: owns.iter().map(|own| own.next.thief()).collect(),
            global: Locked::new(),
        };
        Ok((shared, owns))
    }

    #[inline]
    fn push(shared: &Shared, own: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        match own {
            Some(own) if why != Why::Yielded => {
                let before = own.next.pop();
                // The slot may still be full: a thief has claimed its task and not yet taken it out.
                let homeless = own.next.push(task).err().map(|Full(task)| task);
                for task in before.into_iter().chain(homeless) {
                    ring::push(&mut own.ring, &shared.global, task, cx);
                }
            }
            _ => shared.global.push(task),
        }
        Wake::Any
    }

    #[inline]
    fn watches_waits(_: &Self::Shared) -> bool {
        false
    }

    #[inline]
    fn next(_: &Shared, own: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        own.next.pop().or_else(|| own.ring.pop())
    }

    #[inline]
    fn poll_global(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        own.turn = own.turn.wrapping_add(1);
        let from_ring = own.turn.is_multiple_of(2);
        let task = from_ring.then(|| own.ring.pop()).flatten();
        let task = task.or_else(|| refill(&mut own.ring, &shared.global, cx));
        cx.count(Count::GlobalPolls, u64::from(task.is_some()));
        task
    }

    #[inline]
    fn search(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        if let Some(task) = refill(&mut own.ring, &shared.global, cx) {
            return Some(task);
        }
        Self::steal_from_stuck(shared, own, cx)
    }

    #[inline]
    fn steal_from_stuck(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let workers = cx.workers();
        let first = cx.random(workers);
        (0..ROUNDS * workers).find_map(|attempt| {
            let victim = (first + attempt) % workers;
            if cx.worker().is_some_and(|me| me.0 == victim) {
                return None;
            }
            let stolen = steal_half(&shared.rings[victim], &mut own.ring, cx);
            if stolen.is_some() {
                return stolen;
            }
            // A task that was just woken is about to run: it is left to its worker until nothing else is
            // found.
            let last = attempt >= (ROUNDS - 1) * workers;
            last.then(|| shared.next[victim].steal_one().taken()).flatten()
        })
    }

    #[inline]
    fn scan(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let own = own.next.pop().or_else(|| own.ring.pop());
        own.or_else(|| shared.global.pop()).or_else(|| {
            let places = shared.rings.iter().chain(&shared.next);
            places.into_iter().find_map(|place| take_one(place, cx))
        })
    }

    fn queued(shared: &Shared, worker: WorkerId) -> Option<usize> {
        let ring = shared.rings.get(worker.0)?;
        Some(ring.glance().len + shared.next.get(worker.0)?.glance().len)
    }

    fn queued_shared(shared: &Shared) -> Option<usize> {
        Some(shared.global.len())
    }

    fn show_queued(shared: &Shared, viewer: &mut QueueViewer) {
        for ring in shared.next.iter().chain(&shared.rings) {
            ring.peek(viewer.room(), &mut |task| viewer.peek(&task));
        }
        shared.global.for_each(viewer.room(), |task| viewer.see(task));
    }

    #[inline]
    fn is_only_ready(shared: &Shared, own: &Local) -> bool {
        own.next.is_empty() && own.ring.is_empty() && shared.global.is_empty()
    }
}
