//! How late timers are beside tasks that compute for long, also if these are more than the workers.
//! `cargo run --release -p warpweft --example long_tasks`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use warpweft::Runtime;
use warpweft::time::sleep;

const PAUSE: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (workers, long) in [(2, 2), (2, 3), (4, 4), (4, 5), (2, 8)] {
        // What it is for is not a stall here.
        let runtime = Runtime::builder()
            .workers(workers)
            .report_stalls_after(None)
            .build()?;
        let (worst, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, told) = (Arc::clone(&worst), Arc::clone(&over));
        let ticks = runtime.spawn(async move {
            while !told.load(Ordering::Relaxed) {
                let due = Instant::now() + PAUSE;
                sleep(PAUSE).await;
                let late = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
                seen.fetch_max(late, Ordering::Relaxed);
            }
        });
        std::thread::sleep(10 * PAUSE);
        let compute = || {
            let start = Instant::now();
            while start.elapsed() < LONG {
                std::hint::spin_loop();
            }
        };
        let jobs: Vec<_> = (0..long).map(|_| runtime.spawn_job(compute)).collect();
        for job in jobs {
            job.wait()?;
        }
        over.store(true, Ordering::Relaxed);
        ticks.wait()?;
        let worst = worst.load(Ordering::Relaxed) as f64 / 1e3;
        println!("{long} long tasks on {workers} workers: {worst:.1} ms late at most");
    }
    Ok(())
}
