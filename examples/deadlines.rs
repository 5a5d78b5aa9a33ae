//! Deadlines that first in, first out misses: `cargo run --release --bin deadlines`.
//!
//! A burst of tasks comes in random order. Their deadlines can all be met, with time to spare, if the order
//! is right. It prints how many are missed under each policy.

use std::sync::mpsc;
use std::time::{Duration, Instant};
use warpweft::{Runtime, TaskBuilder};

/// What a task takes.
const TASK: Duration = Duration::from_micros(100);
/// One task is due in each such time: half of it is to spare.
const EVERY: Duration = Duration::from_micros(200);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tasks = std::env::args()
        .nth(1)
        .map_or(Ok(500), |text| text.parse::<u32>())?;
    println!("{tasks} tasks of {TASK:?} at once, one due every {EVERY:?}, on one worker");
    for policy in ["fifo", "edf"] {
        let missed = missed(policy, tasks)?;
        let rate = 100.0 * f64::from(missed) / f64::from(tasks);
        println!("{policy}: {missed} missed, {rate:.1} %");
    }
    Ok(())
}

/// Returns how many tasks ended after their deadlines.
fn missed(policy: &str, tasks: u32) -> Result<u32, Box<dyn std::error::Error>> {
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .policy_spec(policy.parse()?)
        .build()?;
    // The worker is held until all tasks are ready.
    let (open, gate) = mpsc::channel::<()>();
    let held = runtime.spawn_job(move || gate.recv());
    let start = Instant::now() + EVERY * tasks / 10 + Duration::from_millis(1);
    let mut handles = Vec::new();
    for number in 0..tasks {
        // A permutation: the factor is a prime number that does not divide the number of tasks.
        let turn = u64::from(number) * 7_919 % u64::from(tasks);
        let due = start + EVERY * (turn as u32 + 1);
        let mut task = TaskBuilder::new().on(&runtime);
        if let Ok(deadline) = runtime.deadline(due) {
            task = task.deadline(deadline);
        }
        handles.push(task.spawn_job(move || {
            let begin = Instant::now();
            while begin.elapsed() < TASK {
                std::hint::spin_loop();
            }
            Instant::now() > due
        }));
    }
    while Instant::now() < start {
        std::thread::yield_now();
    }
    open.send(())?;
    held.wait()??;
    let mut missed = 0;
    for handle in handles {
        missed += u32::from(handle.wait()?);
    }
    Ok(missed)
}
