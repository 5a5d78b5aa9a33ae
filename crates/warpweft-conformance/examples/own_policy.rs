//! A complete scheduling policy, and the line that tests its duties.
//!
//! *Three buckets*: woken tasks go first, because a thread waits for them; then spawned tasks; then the
//! others.
//!
//! `cargo run --example own_policy` runs a pool with it, `cargo test --example own_policy` tests it.

use warpweft::Runtime;
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft_queue::Locked;

const BUCKETS: usize = 3;

struct Buckets;

impl Policy for Buckets {
    /// Any worker may take from any bucket, so every worker's `scan` sees everything.
    type Shared = [Locked<TaskRef>; BUCKETS];
    /// The bucket whose turn it is in `poll_global`.
    type Local = usize;

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<usize>), PolicyError> {
        Ok((Default::default(), vec![0; env.workers]))
    }

    fn push(buckets: &Self::Shared, local: Option<&mut usize>, task: TaskRef, why: Why, _: &Cx<'_>) -> Wake {
        let bucket = match (local, why) {
            (None, _) | (_, Why::Yielded) => BUCKETS - 1,
            (Some(_), Why::Woken) => 0,
            (Some(_), _) => 1,
        };
        buckets[bucket].push(task);
        Wake::Any
    }

    fn next(buckets: &Self::Shared, _: &mut usize, _: &Cx<'_>) -> Option<TaskRef> {
        buckets.iter().find_map(Locked::pop)
    }

    /// In turn: otherwise the later buckets would starve as long as the first has tasks.
    fn poll_global(buckets: &Self::Shared, turn: &mut usize, _: &Cx<'_>) -> Option<TaskRef> {
        *turn = (*turn + 1) % BUCKETS;
        buckets[*turn..]
            .iter()
            .chain(&buckets[..*turn])
            .find_map(Locked::pop)
    }

    fn scan(buckets: &Self::Shared, _: &mut usize, _: &Cx<'_>) -> Option<TaskRef> {
        buckets.iter().find_map(Locked::pop)
    }
}

warpweft_conformance::conformance!(Buckets);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().workers(2).policy(Buckets).build()?;
    println!("{}", runtime.spawn_job(|| "scheduled by buckets").wait()?);
    Ok(())
}
