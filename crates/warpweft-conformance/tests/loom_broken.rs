//! Policies that are only wrong when two hooks run at the same time: loom finds them, and the kit reports the
//! duty that they break.
#![cfg(warpweft_loom)]

use warpweft_conformance::owner_and_thieves;
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft_queue::{Fifo, FifoThief, Full, Locked, Owner, Thief};

/// Its `next` takes everything out of the common queue, keeps one task, and puts the others back. A `scan` in
/// between sees nothing.
struct Juggling;

impl Policy for Juggling {
    type Shared = Locked<TaskRef>;
    type Local = ();

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
        Ok((Locked::new(), vec![(); env.workers]))
    }
    fn push(queue: &Self::Shared, _: Option<&mut ()>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        queue.push(task);
        Wake::Any
    }
    fn next(queue: &Self::Shared, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        let mut all = Vec::new();
        queue.pop_batch(&mut all, usize::MAX);
        let mut all = all.into_iter();
        let first = all.next();
        queue.push_batch(all);
        first
    }
    fn scan(queue: &Self::Shared, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
}

#[test]
#[should_panic(expected = "policy `Juggling` breaks a duty: `scan` is exhaustive")]
fn a_policy_that_hides_tasks_for_a_moment_is_rejected() {
    owner_and_thieves("Juggling", Juggling);
}

/// Its `scan` takes a lost race for an empty queue.
struct Discouraged;

struct LocalQueues(Box<[FifoThief<TaskRef>]>, Locked<TaskRef>);

impl Policy for Discouraged {
    type Shared = LocalQueues;
    type Local = Fifo<TaskRef>;

    fn build(&self, env: &PoolEnv) -> Result<(LocalQueues, Vec<Fifo<TaskRef>>), PolicyError> {
        let local_queues = (0..env.workers)
            .map(|_| Fifo::with_capacity(2))
            .collect::<Result<Vec<_>, _>>()?;
        Ok((
            LocalQueues(local_queues.iter().map(Fifo::thief).collect(), Locked::new()),
            local_queues,
        ))
    }
    fn push(
        local_queues: &LocalQueues,
        local_queue: Option<&mut Fifo<TaskRef>>,
        task: TaskRef,
        _: Why,
        _: &Cx<'_>,
    ) -> Wake {
        let homeless = match local_queue {
            Some(local_queue) => local_queue.push(task).err().map(|Full(task)| task),
            None => Some(task),
        };
        if let Some(task) = homeless {
            local_queues.1.push(task);
        }
        Wake::Any
    }
    fn next(_: &LocalQueues, local_queue: &mut Fifo<TaskRef>, _: &Cx<'_>) -> Option<TaskRef> {
        local_queue.pop()
    }
    fn scan(local_queues: &LocalQueues, _: &mut Fifo<TaskRef>, _: &Cx<'_>) -> Option<TaskRef> {
        // `taken` does not distinguish `Empty` and `Lost`.
        local_queues.1.pop().or_else(|| {
            local_queues
                .0
                .iter()
                .find_map(|local_queue| local_queue.steal_one().taken())
        })
    }
}

#[test]
#[should_panic(expected = "policy `Discouraged` breaks a duty: `scan` is exhaustive")]
fn a_policy_whose_scan_gives_up_after_a_lost_race_is_rejected() {
    owner_and_thieves("Discouraged", Discouraged);
}
