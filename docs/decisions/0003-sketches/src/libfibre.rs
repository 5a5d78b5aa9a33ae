//! Placement as in libfibre (Karsten, Barghi 2020): a new task stays with its spawner, a woken one goes back to the
//! worker where it last ran.
//!
//! Simplified: queues are locked ones.
//!
//! What the trait gives: `suspended` is called on the worker where the task ran and lends its word; `push` answers
//! with that very worker to be woken. Its queue is in `Shared`, since anyone may push to it.

use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why, WorkerId};
use warpweft_queue::Locked;

/// The policy; it has no options.
pub struct Libfibre;

impl Policy for Libfibre {
    type Shared = Box<[Locked<TaskRef>]>;
    /// The worker's number.
    type Local = usize;

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<usize>), PolicyError> {
        Ok((
            (0..env.workers).map(|_| Locked::new()).collect(),
            (0..env.workers).collect(),
        ))
    }

    fn push(lanes: &Self::Shared, me: Option<&mut usize>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        // One more than the worker's number; 0 is a task that never waited.
        let home = (task.policy_word() as usize).checked_sub(1);
        let lane = match (why, home, me) {
            (Why::Woken, Some(home), _) => home,
            (_, _, Some(me)) => *me,
            (_, _, None) => cx.random(lanes.len()),
        };
        lanes[lane].push(task);
        Wake::Worker(WorkerId(lane))
    }

    fn suspended(_: &Self::Shared, me: &mut usize, mut task: Waiting<'_>, _: &Cx<'_>) {
        task.set_policy_word(*me as u64 + 1);
    }

    fn next(lanes: &Self::Shared, me: &mut usize, _: &Cx<'_>) -> Option<TaskRef> {
        lanes[*me].pop()
    }

    fn search(lanes: &Self::Shared, _: &mut usize, cx: &Cx<'_>) -> Option<TaskRef> {
        lanes[cx.random(lanes.len())].pop()
    }

    fn scan(lanes: &Self::Shared, _: &mut usize, _: &Cx<'_>) -> Option<TaskRef> {
        lanes.iter().find_map(Locked::pop)
    }
}
