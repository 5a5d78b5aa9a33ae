//! How long a dump of many sleeping tasks takes while two workers compute.
//!
//! ```text
//! cargo run --release -p warpweft --example dump_speed [TASKS [--plain]]
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warpweft::sync::Notify;
use warpweft::{Finding, Runtime, TaskState};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tasks: usize = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let runtime = Runtime::builder().workers(2).build()?;
    let stop = Arc::new(Notify::new());
    let sleepers: Vec<_> = (0..tasks)
        .map(|_| {
            let stop = Arc::clone(&stop);
            runtime.spawn(async move { stop.notified().await })
        })
        .collect();
    let asleep = |runtime: &Runtime| {
        let waits = |task: &&warpweft::TaskDump| task.state == TaskState::Waiting && !task.waits.is_empty();
        runtime.dump().tasks.iter().filter(waits).count()
    };
    while asleep(&runtime) < tasks {}
    let over = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..2)
        .map(|_| {
            let over = Arc::clone(&over);
            runtime.spawn(async move {
                let mut sum = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    sum = sum.wrapping_add(warpweft::spawn_job(|| black_box(1)).await.unwrap_or(0));
                }
                sum
            })
        })
        .collect();
    let mut times = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        let dump = runtime.dump();
        times.push(start.elapsed());
        // Nobody has notified the sleepers yet: after a second that is worth a suspicion.
        let is_suspicion = |finding: &Finding| matches!(finding, Finding::Unattended { .. });
        assert!(dump.tasks.len() >= tasks && dump.findings.iter().all(is_suspicion));
    }
    over.store(true, Ordering::Relaxed);
    for task in load {
        task.wait()?;
    }
    stop.notify_all();
    for sleeper in sleepers {
        sleeper.wait()?;
    }
    times.sort();
    let [median, slowest] = [times[times.len() / 2], times[times.len() - 1]];
    if std::env::args().any(|argument| argument == "--plain") {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!("{} {}", ms(median), ms(slowest));
        return Ok(());
    }
    println!("{tasks} tasks: median {:?}, slowest {:?}", median, slowest);
    Ok(())
}
