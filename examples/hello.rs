//! A future, a closure and a fork-join on the same workers: `cargo run --bin hello`.

use warpweft::{JoinError, join, spawn, spawn_job, yield_now};

/// Each half of the work may run on another worker; the caller waits for both.
fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fibonacci(n - 1), || fibonacci(n - 2));
    a + b
}

#[warpweft::main]
async fn main() -> Result<(), JoinError> {
    let compute = spawn_job(|| fibonacci(20));
    let greet = spawn(async {
        yield_now().await;
        "hello from a task"
    });
    println!("{}, fibonacci(20) = {}", greet.await?, compute.await?);
    Ok(())
}
