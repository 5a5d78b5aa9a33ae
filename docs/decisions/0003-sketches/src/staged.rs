//! One stage of a staged server (EBSL's staged pools and silos): tasks arrive through a multi-queue, and what they
//! spawn stays in the stage.
//!
//! ```text
//!   stage 1 ──a task hops──▶ [ ][ ][ ][ ] multi-queue ──▶ stage 2: own queues ──hops──▶ …
//! ```
//!
//! A stage is a pool with this policy. To it a hop is a push from outside: the token leaves one pool's hands while
//! it runs, and arrives in another's with its word zeroed.
//!
//! Simplified: the queues of the multi-queue are locked deques; a product would use those of `warpweft-queue`.
//!
//! What the trait gives: `push` without a `Local` is all that another pool needs.

use std::collections::VecDeque;
use warpweft_platform::sync::Mutex;
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft_queue::{Amount, Fifo, FifoThief, Full, Owner, Steal, Thief};

/// Queues of the multi-queue per worker.
const FACTOR: usize = 2;

/// The policy: the capacity of a worker's own queue.
pub struct Stage(
    /// In tasks.
    pub usize,
);

/// What thieves and other stages see.
pub struct Shared {
    /// Tasks with the time of their arrival in their words.
    arrivals: Box<[Mutex<VecDeque<TaskRef>>]>,
    lanes: Box<[FifoThief<TaskRef>]>,
}

impl Shared {
    fn arrive(&self, mut task: TaskRef, cx: &Cx<'_>) {
        task.set_policy_word(cx.now_ns());
        self.arrivals[cx.random(self.arrivals.len())]
            .lock()
            .push_back(task);
    }

    fn oldest(&self, queues: impl Iterator<Item = usize>) -> Option<TaskRef> {
        let head = |&queue: &usize| {
            self.arrivals[queue]
                .lock()
                .front()
                .map_or(u64::MAX, TaskRef::policy_word)
        };
        let queue = queues.min_by_key(head)?;
        self.arrivals[queue].lock().pop_front()
    }
}

impl Policy for Stage {
    type Shared = Shared;
    type Local = Fifo<TaskRef>;

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Fifo<TaskRef>>), PolicyError> {
        let lanes = (0..env.workers)
            .map(|_| Fifo::with_capacity(self.0))
            .collect::<Result<Vec<_>, _>>()?;
        let shared = Shared {
            arrivals: (0..env.workers * FACTOR).map(|_| Mutex::default()).collect(),
            lanes: lanes.iter().map(Fifo::thief).collect(),
        };
        Ok((shared, lanes))
    }

    fn push(shared: &Shared, lane: Option<&mut Fifo<TaskRef>>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        match lane {
            Some(lane) if why != Why::Yielded => {
                if let Err(Full(task)) = lane.push(task) {
                    shared.arrive(task, cx);
                }
            }
            _ => shared.arrive(task, cx),
        }
        Wake::Any
    }

    fn next(_: &Shared, lane: &mut Fifo<TaskRef>, _: &Cx<'_>) -> Option<TaskRef> {
        lane.pop()
    }

    fn overdue(shared: &Shared, _: &mut Fifo<TaskRef>, _: &Cx<'_>) -> Option<TaskRef> {
        shared.oldest(0..shared.arrivals.len())
    }

    fn search(shared: &Shared, lane: &mut Fifo<TaskRef>, cx: &Cx<'_>) -> Option<TaskRef> {
        // The better of two, as multi-queues do.
        let pair = [(); 2].map(|()| cx.random(shared.arrivals.len()));
        let victim = cx.random(shared.lanes.len());
        shared
            .oldest(pair.into_iter())
            .or_else(|| shared.lanes[victim].steal_into(lane, Amount::Half).taken())
    }

    fn scan(shared: &Shared, _: &mut Fifo<TaskRef>, cx: &Cx<'_>) -> Option<TaskRef> {
        let take = |lane: &FifoThief<TaskRef>| loop {
            match lane.steal_one() {
                Steal::Taken { first, .. } => return Some(first),
                Steal::Empty | Steal::Few(_) => return None,
                Steal::Lost => cx.pause(),
            }
        };
        let arrived = shared.arrivals.iter().find_map(|queue| queue.lock().pop_front());
        arrived.or_else(|| shared.lanes.iter().find_map(take))
    }
}
