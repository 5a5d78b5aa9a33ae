//! Urgent tasks run before others that are ready: `cargo run --bin priorities`.

use std::sync::{Arc, Mutex, PoisonError};
use warpweft::{JoinError, Runtime, TaskBuilder};

const NAMES: [&str; 3] = ["urgent", "normal", "background"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One worker shows the order. Priorities work with any order of a policy, here first in, first out.
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .policy_spec("priority:3".parse()?)
        .build()?;
    let levels = [runtime.priority(0)?, runtime.priority(1)?, runtime.priority(2)?];
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(async {
        let spawner = {
            let order = Arc::clone(&order);
            // This job keeps the worker until all tasks are ready.
            warpweft::spawn_job(move || {
                let spawn = |n: usize| {
                    let order = Arc::clone(&order);
                    let level = (n + 2) % 3;
                    TaskBuilder::new().priority(levels[level]).spawn_job(move || {
                        order
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(NAMES[level]);
                    })
                };
                (0..9).map(spawn).collect::<Vec<_>>()
            })
        };
        for task in spawner.await? {
            task.await?;
        }
        Ok::<_, JoinError>(())
    })?;
    println!(
        "{}",
        order.lock().unwrap_or_else(PoisonError::into_inner).join(", ")
    );
    Ok(())
}
