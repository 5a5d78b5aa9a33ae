//! Transfers: tasks that go to and fro between two pools.
//!
//! ```text
//! cargo bench -p warpweft --bench transfers           a table
//! … transfers once                                    one round: three numbers, for a script that runs two
//!                                                     builds in turns
//! ```
//!
//! The first pool has as many workers as there are senders, each with 64 tasks of its own, so that so many
//! threads push to the second pool at the same time; that has one worker, which sends them back. Nanoseconds
//! per transfer, of both directions.

use std::time::Instant;
use warpweft::{Pool, Runtime, stage};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 15;
/// Transfers there and back of all tasks together.
const TRIPS: usize = 200_000;
/// Tasks per sender.
const TASKS: usize = 64;

fn main() {
    if std::env::args().any(|word| word == "once") {
        let figures = [1, 2, 4].map(|senders| format!("{:.1}", transfers(senders)));
        println!("{}", figures.join(" "));
        return;
    }
    println!("nanoseconds per transfer, {ROUNDS} rounds: median [quartiles]");
    for senders in [1, 2, 4] {
        let mut figures: Vec<f64> = (0..ROUNDS).map(|_| transfers(senders)).collect();
        figures.sort_by(f64::total_cmp);
        let [low, median, high] = [1, 2, 3].map(|quarter| figures[(ROUNDS - 1) * quarter / 4]);
        println!("{senders} senders: {median:7.1} [{low:.1}, {high:.1}]");
    }
}

/// Nanoseconds per transfer with so many senders.
fn transfers(senders: usize) -> f64 {
    let runtime = stage("first", Runtime::builder().workers(senders))
        .then("second", Runtime::builder().workers(1))
        .build()
        .expect("two small pools");
    let second = runtime.pool("second").expect("it is there");
    bounce(&runtime, second, senders, TRIPS / 10);
    let start = Instant::now();
    bounce(&runtime, second, senders, TRIPS);
    start.elapsed().as_nanos() as f64 / (2 * TRIPS) as f64
}

fn bounce(runtime: &Runtime, second: &Pool, senders: usize, trips: usize) {
    let tasks = senders * TASKS;
    let handles: Vec<_> = (0..tasks)
        .map(|_| {
            let (first, second) = (runtime.first().clone(), second.clone());
            runtime.spawn(async move {
                for _ in 0..trips / tasks {
                    second.enter().await.expect("it is open");
                    first.enter().await.expect("it is open");
                }
            })
        })
        .collect();
    for handle in handles {
        handle.wait().expect("no panic");
    }
}
