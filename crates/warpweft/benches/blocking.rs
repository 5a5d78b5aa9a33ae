//! How long `blocking` takes to give a worker away, and to come back.
//!
//! ```text
//! cargo bench -p warpweft --bench blocking
//! ```
//!
//! - *hand-off*: from the call of `blocking` until another task runs on the worker, which was the pool's only
//!   one. The closure sleeps in the system until it has.
//! - *busy*: the same with a closure that computes, so that the spare thread needs a CPU of its own.
//! - *round trip*: the call of `blocking` with a closure that waits until another task has run, until the
//!   frame goes on.
//! - *empty*: the call with a closure that does nothing.
//! - *pinned*: hand-off and round trip with two workers on a CPU each (one CPU if there is no other), so that
//!   spare threads move when they are given the other worker.
//! - *crowd*: the call with a closure that sleeps 100 µs, by 32 tasks on 2 workers, and all of them per call:
//!   what it costs when threads come and go.
//! - *pin*: the system call alone, to where the thread is already, and to the other CPU and back.

use std::sync::mpsc;
use std::time::{Duration, Instant};
use warpweft::{Pin, Runtime, blocking, spawn_detached, yield_now};
use warpweft_platform::affinity::{allowed, pin};

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
            report(run, name, on(&runtime, measure));
            let threads = runtime.threads();
            if threads.taken_back > 0 {
                println!(
                    "       {} of {} workers taken back",
                    threads.taken_back, threads.handed_over
                );
            }
        }
        let cpus = allowed().expect("this system tells");
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        for (name, measure) in [
            ("pinned", hand_off as fn() -> Duration),
            ("pinned trip", round_trip),
        ] {
            let runtime = Runtime::builder()
                .pin(Pin::Cpus(vec![first, last]))
                .build()
                .expect("two workers");
            report(run, name, on(&runtime, measure));
        }
        crowd(run);
        let stay = move || timed(|| pin(&[first]).expect("allowed"));
        let go = move || timed(|| pin(&[last]).expect("allowed")) + stay();
        for (name, measure) in [
            ("pin, stay", &stay as &(dyn Fn() -> Duration + Sync)),
            ("pin, go twice", &go),
        ] {
            // On a thread of its own, which it leaves pinned.
            let times = std::thread::scope(|threads| {
                let thread = threads.spawn(|| (0..ROUNDS).map(|_| measure()).collect());
                thread.join().expect("no panic")
            });
            report(run, name, times);
        }
    }
}

fn crowd(run: usize) {
    const TASKS: usize = 32;
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    let timed_park = || timed(|| blocking(|| std::thread::sleep(Duration::from_micros(100))));
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            runtime.spawn(async move {
                let mut times = Vec::new();
                for _ in 0..ROUNDS / TASKS {
                    times.push(timed_park());
                    yield_now().await;
                }
                times
            })
        })
        .collect();
    let times: Vec<_> = tasks
        .into_iter()
        .flat_map(|task| task.wait().expect("no panic"))
        .collect();
    let each = start.elapsed().as_nanos() as usize / times.len();
    report(run, "crowd", times);
    println!(
        "       {each} for each call, with {} threads",
        runtime.threads().most
    );
}

fn on(runtime: &Runtime, measure: fn() -> Duration) -> Vec<Duration> {
    runtime
        .spawn_job(move || (0..ROUNDS).map(|_| measure()).collect())
        .wait()
        .expect("no panic")
}

fn report(run: usize, name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_nanos();
    println!(
        "run {run}  {name:<13}  p50 {:>7}  p99 {:>7}  p99.9 {:>8}",
        at(0.5),
        at(0.99),
        at(0.999)
    );
}

fn timed(f: impl FnOnce()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
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
