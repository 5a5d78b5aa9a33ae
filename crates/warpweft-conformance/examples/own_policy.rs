//! A scheduling policy of one's own, and the line that holds it to its duties.
//!
//! *Three buckets*: what was woken goes first, for a thread waits for it; then what was spawned; then the
//! rest.
//!
//! `cargo run --example own_policy` runs a pool with it, `cargo test --example own_policy` tests it.

use warpweft::Runtime;
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft_queue::Locked;

const BUCKETS: usize = 3;

struct Buckets;

impl Policy for Buckets {
    /// Anyone may take from any bucket, so every worker's `scan` sees everything.
    type Shared = [Locked<TaskRef>; BUCKETS];
    /// Which bucket's turn it is to be overdue.
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

    /// By turns: otherwise the later buckets would starve as long as there is something in the first.
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
