//! The life cycle of a runtime: bad requests, shutdown, policies that misbehave, idleness.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/in_time.rs"]
mod in_time;

mod chains;
mod ending;
mod from_elsewhere;
mod graceful;
mod last_waits;
mod policies;

use in_time::in_time;
use warpweft::Runtime;

fn one() -> Runtime {
    Runtime::builder().workers(1).build().expect("one worker")
}
