//! How a foreground that always computes and a background share the time: `cargo run --release --bin shares`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use warpweft::{Priority, Runtime, TaskBuilder, yield_now};

/// What each task takes.
const TASK: Duration = Duration::from_micros(200);
/// The least share of the background, in percent.
const SHARE: u8 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workers = std::thread::available_parallelism()?.get();
    // Level 0 is the foreground. Tasks without a priority are on it, too.
    let policy = format!("priority:0/{SHARE}").parse()?;
    let runtime = Runtime::builder().workers(workers).policy_spec(policy).build()?;
    let [front, back] = [runtime.priority(0)?, runtime.priority(1)?].map(|level| load(&runtime, level));
    std::thread::sleep(Duration::from_secs(1));
    let [front, back] = [front, back].map(|turns| turns.load(Relaxed));
    println!(
        "the background got {:.1} % of the time; its least share is {SHARE} %",
        100.0 * back as f64 / (front + back) as f64
    );
    Ok(()) // the end of the runtime drops the tasks
}

/// Starts tasks that always have something to compute, eight for each worker. Returns the count of their
/// turns.
fn load(runtime: &Runtime, level: Priority) -> Arc<AtomicU64> {
    let turns = Arc::new(AtomicU64::new(0));
    for _ in 0..8 * runtime.workers() {
        let turns = Arc::clone(&turns);
        let task = TaskBuilder::new().on(runtime).priority(level).spawn(async move {
            loop {
                let start = Instant::now();
                while start.elapsed() < TASK {
                    std::hint::spin_loop();
                }
                turns.fetch_add(1, Relaxed);
                yield_now().await;
            }
        });
        task.detach();
    }
    turns
}
