//! Cancels a task that waits, a task that computes, and a scope of tasks: `cargo run --bin cancellation`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use warpweft::time::{sleep, timeout};
use warpweft::{JoinError, JoinHandle, Runtime, cooperative, scope_async, spawn, spawn_job};

const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(20);

/// Counts for ever. The checks that the attribute puts into the loop see that the task was cancelled.
#[cooperative]
fn count(turns: &AtomicUsize) {
    loop {
        turns.fetch_add(1, Relaxed);
    }
}

/// Counts those that are dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

async fn cancel(what: &str, task: JoinHandle<()>) {
    sleep(MOMENT).await;
    task.cancel();
    match task.await {
        Err(JoinError::Cancelled) => println!("{what}: cancelled"),
        Err(error) => println!("{what}: {error}"),
        Ok(_) => println!("{what}: ended before"),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().workers(2).build()?;
    runtime.block_on(async {
        cancel("a future that waits", spawn(sleep(HOUR))).await;
        let turns = Arc::new(AtomicUsize::new(0));
        cancel("a closure that computes", spawn_job(move || count(&turns))).await;
    });

    // A scope that is dropped cancels its tasks; here the time limit drops it.
    let ended = Arc::new(AtomicUsize::new(0));
    let scope = scope_async(|scope| {
        for _ in 0..3 {
            let dropped = Dropped(Arc::clone(&ended));
            drop(scope.spawn(async move {
                let _dropped = dropped;
                sleep(HOUR).await;
            }));
        }
        async {}
    });
    let late = runtime.block_on(timeout(MOMENT, scope)).is_err();
    // The end of the runtime waits until the tasks are gone.
    drop(runtime);
    println!(
        "a scope of tasks: late {late}, {} of 3 dropped",
        ended.load(Relaxed)
    );
    Ok(())
}
