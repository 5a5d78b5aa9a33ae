//! Cancels a task that waits, a task that computes, a scope of tasks, and all that a token reaches:
//! `cargo run --bin cancellation`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use warpweft::cancel::{self, CancelToken};
use warpweft::time::{sleep, timeout};
use warpweft::{JoinError, JoinHandle, Runtime, cooperative, fiber, par_for, scope_async, spawn, spawn_job};

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
    tree()
}

/// Cancels a request: a loop on all workers, a fiber that waits, and a future that says goodbye.
fn tree() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().workers(2).build()?;
    let request = CancelToken::new();
    let asked = request.clone();
    let goodbye = runtime.spawn(request.run_async(async move {
        asked.cancelled().await;
        sleep(Duration::from_millis(1)).await;
        "goodbye"
    }));
    // What is spawned under the token inherits it.
    let (fiber, leaves) = request.run(|| {
        (
            runtime.spawn_fiber(|| fiber::wait(sleep(HOUR))),
            runtime.spawn_job(|| par_for(0..usize::MAX, 1, |_| ())),
        )
    })?;
    runtime.block_on(sleep(MOMENT));
    request.cancel();
    let ended = |result: Result<(), JoinError>| matches!(result, Err(JoinError::Cancelled));
    println!(
        "a fiber that waits: {}",
        if ended(fiber.wait()) { "cancelled" } else { "ended" }
    );
    println!(
        "a loop without an end: {}",
        if ended(leaves.wait()) {
            "cancelled"
        } else {
            "ended"
        }
    );
    println!("a future that was asked says {}", goodbye.wait()??);
    // A deadline is a token that cancels itself.
    let late = cancel::with_deadline(Instant::now() + MOMENT, || par_for(0..usize::MAX, 1, |_| ()));
    println!("a loop with a deadline: {late:?}");
    Ok(())
}
