//! Several pools in one runtime: transfers, closures that run elsewhere, bounds, admission, silos, limits,
//! and refusals.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/eventually.rs"]
mod eventually;

mod admission;
mod bounds;
mod lifetimes;
mod permits;
mod transfers;

use warpweft::{Builder, PolicySpec, Pool, Runtime};

/// Builds a pool of that many workers under that policy.
fn of(workers: usize, policy: &str) -> Builder {
    let policy: PolicySpec = policy.parse().expect("a policy");
    Runtime::builder().workers(workers).policy_spec(policy)
}

fn here() -> String {
    Pool::current()
        .map(|pool| pool.name().to_owned())
        .expect("in a pool")
}
