//! Programs whose cost `cargo xtask observe` compares: with and without recorded steps, and in a build whose
//! recorder is left out.
//!
//! ```text
//! observe_cost spawn|cycle|turn|yield COUNT on|off     prints nanoseconds
//! observe_cost export COUNT on                         prints bytes and events of a trace
//! ```
//!
//! The difference of two counts of instructions, divided by that of their tasks, is the cost of a task:
//! `valgrind --tool=callgrind target/release/examples/observe_cost turn COUNT on`.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;
use warpweft::sync::Notify;
use warpweft::{JoinError, Runtime, spawn, spawn_job, yield_now};

/// How many closures are outstanding.
const BATCH: u64 = 1000;
/// How many tasks are in a ring.
const RING: usize = 5;

/// Spawns closures in batches, and awaits each of them.
async fn batches(count: u64) -> Result<(), JoinError> {
    for _ in 0..count / BATCH {
        let tasks: Vec<_> = (0..BATCH).map(|n| spawn_job(move || n)).collect();
        for task in tasks {
            task.await?;
        }
    }
    Ok(())
}

/// A ring of tasks: each wakes the next one, and waits.
async fn ring(count: u64) -> Result<(), JoinError> {
    let places: Vec<_> = (0..RING).map(|_| Arc::new(Notify::new())).collect();
    let task = |at: usize| {
        let (own, next) = (places[at].clone(), places[(at + 1) % RING].clone());
        spawn(async move {
            for _ in 0..count / RING as u64 {
                own.notified().await;
                next.notify_one();
            }
        })
    };
    let tasks: Vec<_> = (0..RING).map(task).collect();
    places[0].notify_one();
    for task in tasks {
        task.await?;
    }
    Ok(())
}

/// Spawns a closure and awaits it: two steps, a spawn and a wake, so four records.
async fn turns(count: u64) -> Result<(), JoinError> {
    for n in 0..count {
        spawn_job(move || n).await?;
    }
    Ok(())
}

/// Two tasks give way to each other: each turn is a step and nothing else.
async fn yields(count: u64) -> Result<(), JoinError> {
    let task = || {
        spawn(async move {
            for _ in 0..count / 2 {
                yield_now().await;
            }
        })
    };
    let tasks = [task(), task()];
    for task in tasks {
        task.await?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: observe_cost spawn|cycle|turn|yield|export COUNT on|off";
    let what = arguments.next().ok_or(usage)?;
    let count: u64 = arguments.next().ok_or(usage)?.parse()?;
    let steps = match arguments.next().as_deref() {
        Some("on") => true,
        Some("off") => false,
        _ => return Err(usage.into()),
    };
    let runtime = Runtime::builder().workers(1).stuck_after(None).build()?;
    let recorder = runtime.recorder();
    recorder.record_steps(steps);
    // Steps are timed by the tasks' own thread, so that its start does not count.
    let timed = runtime.spawn(async move {
        let start = Instant::now();
        match what.as_str() {
            "spawn" => batches(count).await,
            "cycle" => ring(count).await,
            "turn" | "export" => turns(count).await,
            "yield" => yields(count).await,
            _ => return Ok(None),
        }
        .map(|()| Some((what, start.elapsed())))
    });
    let (what, time) = timed.wait()??.ok_or(usage)?;
    if what == "export" {
        let snapshot = recorder.snapshot();
        let mut bytes = Vec::new();
        snapshot.write_perfetto(&mut bytes)?;
        println!("{} {}", bytes.len(), snapshot.events().count());
    } else {
        println!("{}", time.as_nanos());
    }
    Ok(())
}
