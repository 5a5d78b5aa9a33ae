//! How long `blocking` takes to give a worker away, and to come back.
//!
//! ```text
//! cargo bench -p warpweft --bench blocking
//! ```
//!
//! - *hand-off*: from the call of `blocking` until another task runs on the worker, which was the pool's only one. The
//!   closure sleeps in the system until it has.
//! - *busy*: the same with a closure that computes, so that the spare thread needs a CPU of its own.
//! - *round trip*: the call of `blocking` with a closure that waits until another task has run, until the frame goes on.
//! - *empty*: the call with a closure that does nothing.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the system's own threads and locks are what is measured"
)]

use std::sync::mpsc;
use std::time::{Duration, Instant};
use warpweft::{Runtime, blocking, spawn_detached};

const ROUNDS: usize = 20_000;
const RUNS: usize = 5;

fn main() {
    println!("nanoseconds; 1 worker, {ROUNDS} rounds a run");
    for run in 1..=RUNS {
        for (name, measure) in [
            ("hand-off", hand_off as fn() -> Duration),
            ("busy", busy),
            ("round trip", round_trip),
            ("empty", empty),
        ] {
            let runtime = Runtime::builder().workers(1).build().expect("one worker");
            let mut times = runtime
                .spawn_job(move || (0..ROUNDS).map(|_| measure()).collect::<Vec<_>>())
                .wait()
                .expect("no panic");
            times.sort_unstable();
            let at = |share: f64| times[((ROUNDS - 1) as f64 * share) as usize].as_nanos();
            let threads = runtime.threads();
            println!(
                "run {run}  {name:<10}  p50 {:>7}  p99 {:>7}  p99.9 {:>8}   taken back {} of {}",
                at(0.5),
                at(0.99),
                at(0.999),
                threads.taken_back,
                threads.handed_over,
            );
        }
    }
}

fn hand_off() -> Duration {
    let (send, receive) = mpsc::channel();
    spawn_detached(move || send.send(Instant::now()).expect("it waits"));
    let start = Instant::now();
    blocking(|| receive.recv().expect("it is sent")) - start
}

fn busy() -> Duration {
    let (send, receive) = mpsc::channel();
    spawn_detached(move || send.send(Instant::now()).expect("it waits"));
    let start = Instant::now();
    blocking(|| {
        loop {
            if let Ok(ran) = receive.try_recv() {
                return ran;
            }
        }
    }) - start
}

fn round_trip() -> Duration {
    let (send, receive) = mpsc::channel();
    spawn_detached(move || send.send(()).expect("it waits"));
    let start = Instant::now();
    blocking(|| receive.recv().expect("it is sent"));
    start.elapsed()
}

fn empty() -> Duration {
    let start = Instant::now();
    blocking(|| ());
    start.elapsed()
}
