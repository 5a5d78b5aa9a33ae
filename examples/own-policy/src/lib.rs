//! A scheduling policy of one's own: the power of two choices.
//!
//! Each worker has a queue. A task that becomes ready looks at the queues of two workers, chosen by chance,
//! and goes to the shorter one, whose worker is woken for it. So work is spread when it comes, and stealing
//! is for the rest: a classic of load balancing (Mitzenmacher 2001), and not among the policies that
//! Warpweft brings along.
//!
//! ```text
//!   push ──▶ the shorter of two ──▶ [queue of worker 0] ──▶ next      search: the longest queue
//!                              └──▶ [queue of worker 1] ──▶ next      poll_global: another's queue, by turns
//! ```
//!
//! `cargo test` holds it to the duties of a policy; `cargo run --example compare` sets it beside FIFO.

use warpweft::policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why, WorkerId};
use warpweft_queue::Locked;

/// The policy. It has no settings.
#[derive(Debug, Clone, Copy, Default)]
pub struct TwoChoices;

/// What all workers see: the queue of each.
pub struct Shared(Box<[Locked<TaskRef>]>);

/// A worker's own: its number, and whose queue it looks after next.
pub struct Local {
    me: usize,
    turn: usize,
}

impl Shared {
    /// The shorter one of two queues.
    fn shorter(&self, a: usize, b: usize) -> usize {
        if self.0[b].len() < self.0[a].len() { b } else { a }
    }
}

impl Policy for TwoChoices {
    type Shared = Shared;
    type Local = Local;

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let queues = (0..env.workers).map(|_| Locked::new()).collect();
        let locals = (0..env.workers).map(|me| Local { me, turn: me });
        Ok((Shared(queues), locals.collect()))
    }

    /// A task that gives way stays behind all others where it is; every other one goes to the shorter queue.
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let workers = shared.0.len();
        let worker = match (local, why) {
            (Some(local), Why::Yielded) => local.me,
            _ => shared.shorter(cx.random(workers), cx.random(workers)),
        };
        shared.0[worker].push(task);
        Wake::Worker(WorkerId(worker))
    }

    fn next(shared: &Shared, local: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.0[local.me].pop()
    }

    /// A worker in a long task does not look after its queue: so the others do, by turns.
    fn poll_global(shared: &Shared, local: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        local.turn = (local.turn + 1) % shared.0.len();
        shared.0[local.turn].pop()
    }

    fn search(shared: &Shared, _: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.0.iter().max_by_key(|queue| queue.len())?.pop()
    }

    /// Every queue, in a fixed order: the last look before sleep.
    fn scan(shared: &Shared, _: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.0.iter().find_map(Locked::pop)
    }

    fn is_only_ready(shared: &Shared, _: &Local) -> bool {
        shared.0.iter().all(Locked::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::TwoChoices;
    use warpweft::{JoinError, Runtime, spawn_job};

    // The whole kit: nothing lost, nothing twice, nothing starved, honest wakes, panics in each hook.
    warpweft_conformance::conformance!(TwoChoices);

    #[test]
    fn it_runs_a_program() -> Result<(), Box<dyn std::error::Error>> {
        let runtime = Runtime::builder().workers(3).policy(TwoChoices).build()?;
        let sum = runtime.block_on(async {
            let squares: Vec<_> = (0..1_000_u64).map(|n| spawn_job(move || n * n)).collect();
            let mut sum = 0;
            for square in squares {
                sum += square.await?;
            }
            Ok::<_, JoinError>(sum)
        })?;
        assert_eq!(sum, 332_833_500);
        Ok(())
    }
}
