//! The Cforall scheduler (Delisle): two lanes per worker, and *helping* the lane whose head has waited longest.
//!
//! Every second `next` a worker picks a random lane as its target. At the `next` after it, if the target's head is
//! older than eight times the longest of what the worker's own lanes are used to, it takes from there once.
//!
//! Simplified: a lane is a locked queue, as in the original, and its moving average lies under the same lock. The
//! original prefers targets in the same last-level cache (but for 3 picks in 256); a policy is not told the topology
//! yet, so every lane is eligible.
//!
//! What the trait gives: the clock and chance in `Cx`, and a word in each task, which here is the time of its push.

use std::collections::VecDeque;
use warpweft_platform::sync::Mutex;
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};

/// Lanes per worker: two, so that a thief and the owner seldom meet.
const LANES: usize = 2;
/// A target is helped if its age exceeds eight times ours: three in log2, in sixteenths.
const MARGIN: u64 = 3 * 16;

/// A FIFO queue, and what its tasks are used to.
#[derive(Default)]
pub struct Lane {
    tasks: VecDeque<TaskRef>,
    /// How long tasks wait here, as a moving average of log2, in sixteenths.
    wait: u64,
}

/// `log2(ns)` in sixteenths: the exponent, and four bits of the mantissa as its fraction.
fn log2(ns: u64) -> u64 {
    let exponent = u64::from(ns.max(1).ilog2());
    (exponent << 4) | ((u128::from(ns) << 4 >> exponent) as u64 & 15)
}

/// The policy; its constants are the original's.
pub struct Cforall;

/// A worker's place among the lanes, and whom it thinks of helping.
pub struct Local {
    lanes: [usize; LANES],
    ticks: u64,
    target: Option<usize>,
}

fn age(lanes: &[Mutex<Lane>], lane: usize, now: u64) -> Option<u64> {
    lanes[lane]
        .lock()
        .tasks
        .front()
        .map(|task| now.saturating_sub(task.policy_word()))
}

fn pop(lanes: &[Mutex<Lane>], lane: usize, now: u64) -> Option<TaskRef> {
    let mut lane = lanes[lane].lock();
    let task = lane.tasks.pop_front()?;
    // Weight 12 of 16 for the new value.
    lane.wait = (12 * log2(now.saturating_sub(task.policy_word())) + 4 * lane.wait) / 16;
    Some(task)
}

impl Policy for Cforall {
    type Shared = Box<[Mutex<Lane>]>;
    type Local = Local;

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<Local>), PolicyError> {
        let lanes = (0..env.workers * LANES).map(|_| Mutex::default()).collect();
        let local = |me| Local {
            lanes: [me * LANES, me * LANES + 1],
            ticks: 0,
            target: None,
        };
        Ok((lanes, (0..env.workers).map(local).collect()))
    }

    fn push(lanes: &Self::Shared, local: Option<&mut Local>, mut task: TaskRef, _: Why, cx: &Cx<'_>) -> Wake {
        task.set_policy_word(cx.now_ns());
        let lane = match local {
            Some(local) => local.lanes[cx.random(LANES)],
            None => cx.random(lanes.len()),
        };
        lanes[lane].lock().tasks.push_back(task);
        Wake::Any
    }

    fn next(lanes: &Self::Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let now = cx.now_ns();
        local.ticks += 1;
        if let Some(target) = local.target.take() {
            let used_to = local.lanes.map(|lane| lanes[lane].lock().wait).into_iter().max();
            let waits = age(lanes, target, now).map(log2);
            if waits > used_to.map(|wait| wait + MARGIN)
                && let Some(task) = pop(lanes, target, now)
            {
                return Some(task);
            }
        } else if local.ticks.is_multiple_of(2) {
            local.target = Some(cx.random(lanes.len()));
        }
        // Of its own lanes the one whose head has waited longer.
        let lane = local
            .lanes
            .into_iter()
            .max_by_key(|&lane| age(lanes, lane, now))?;
        pop(lanes, lane, now)
    }

    fn search(lanes: &Self::Shared, _: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        pop(lanes, cx.random(lanes.len()), cx.now_ns())
    }

    fn scan(lanes: &Self::Shared, _: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        (0..lanes.len()).find_map(|lane| pop(lanes, lane, cx.now_ns()))
    }
}
