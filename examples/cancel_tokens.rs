//! Cancels all that a token reaches: a loop on all workers, a fiber that waits, and a future that says
//! goodbye: `cargo run --bin cancel_tokens`.

use std::time::{Duration, Instant};
use warpweft::cancel::{self, CancelToken};
use warpweft::time::sleep;
use warpweft::{JoinError, Runtime, fiber, par_for};

const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn std::error::Error>> {
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
