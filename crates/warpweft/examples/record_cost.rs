//! Spawns tasks one after the other, with and without recorded steps, for a count of instructions:
//! `valgrind --tool=callgrind target/release/examples/record_cost COUNT on`.
//!
//! The difference of two counts, divided by that of their tasks, is the cost of one turn: a spawn, a step of
//! the closure, a wake, and a step of the task that spawns.

use std::error::Error;
use warpweft::{JoinError, Runtime, spawn_job};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: record_cost COUNT on|off";
    let count: u64 = arguments.next().ok_or(usage)?.parse()?;
    let steps = match arguments.next().as_deref() {
        Some("on") => true,
        Some("off") => false,
        _ => return Err(usage.into()),
    };
    let runtime = Runtime::builder().workers(1).stuck_after(None).build()?;
    runtime.recorder().record_steps(steps);
    let root = runtime.spawn(async move {
        for n in 0..count {
            spawn_job(move || n).await?;
        }
        Ok::<_, JoinError>(())
    });
    Ok(root.wait()??)
}
