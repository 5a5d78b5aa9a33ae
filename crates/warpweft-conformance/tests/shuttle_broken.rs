//! A policy that is only wrong when a worker is on its way to sleep: shuttle finds the pool asleep with a
//! task left.
#![cfg(warpweft_shuttle)]

use warpweft_conformance::small_pool;
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft_queue::Locked;

/// Its last look before sleep looks at nothing.
struct Trusting;

impl Policy for Trusting {
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
        queue.pop()
    }
    fn scan(_: &Self::Shared, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        None
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_policy_whose_scan_looks_nowhere_is_rejected() {
    small_pool(|| Trusting);
}
