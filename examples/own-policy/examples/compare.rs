//! The policy beside FIFO, on tasks of very different length: `cargo run --release --example compare`.

use own_policy::TwoChoices;
use std::time::{Duration, Instant};
use warpweft::{Builder, Fifo, JoinError, Runtime, spawn_job};

/// Spins for a while: every 50th task a hundred times longer.
fn work(number: u64) -> u64 {
    let rounds = if number.is_multiple_of(50) { 200_000 } else { 2_000 };
    (0..rounds).fold(number, |sum, round| std::hint::black_box(sum ^ round))
}

fn run(builder: Builder) -> Result<Duration, Box<dyn std::error::Error>> {
    let runtime = builder.build()?;
    let start = Instant::now();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..5_000).map(|number| spawn_job(move || work(number))).collect();
        for task in tasks {
            task.await?;
        }
        Ok::<_, JoinError>(())
    })?;
    Ok(start.elapsed())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("two choices: {:?}", run(Runtime::builder().policy(TwoChoices))?);
    println!("fifo:        {:?}", run(Runtime::builder().policy(Fifo::new()))?);
    Ok(())
}
