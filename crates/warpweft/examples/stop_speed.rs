//! How soon what is stopped has stopped: cancellations, deadlines, and shutdowns.
//!
//! ```text
//! stop_speed [ROUNDS [TEXT]]     prints a line for each of which the name has the text: median,
//!                                90th and 99th percentile, and maximum, in µs
//! ```

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use warpweft::cancel::{CancelToken, with_deadline};
use warpweft::time::sleep;
use warpweft::{GracefulShutdown, Runtime, TaskBuilder, block_on, par_for};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Long after the end of the program.
const NEVER: Duration = Duration::from_secs(100_000);
/// The leaves of a loop, each of about a microsecond.
const LEAVES: usize = 1_000_000;
/// How many tasks sleep beside a shutdown.
const SLEEPERS: usize = 100_000;

fn main() -> Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(200), |text| text.parse())?;
    let runtime = Runtime::builder().workers(2).build()?;
    println!("µs after the call, or after the deadline, of {rounds}: median, p90, p99, most");
    row("a loop of 10⁶ leaves of 1 µs, cancelled", rounds, || {
        cancelled_loop(&runtime)
    });
    row("the same, at its deadline", rounds, || late_loop(&runtime));
    row("a fiber that sleeps, cancelled", rounds, || {
        cancelled(&runtime, |token| {
            let token = token.clone();
            drop(runtime.spawn_fiber(move || token.run(|| block_on(sleep(NEVER)))));
        })
    });
    row("a future that sleeps, cancelled", rounds, || {
        cancelled(&runtime, |token| {
            drop(runtime.spawn(token.run_async(sleep(NEVER))));
        })
    });
    row("1000 tasks that sleep, the last of them", rounds, || {
        cancelled(&runtime, |token| {
            for _ in 0..1000 {
                drop(runtime.spawn(token.run_async(sleep(NEVER))));
            }
        })
    });
    drop(runtime);
    row("a graceful shutdown, after its last task", rounds, graceful);
    row("the drop of an idle runtime that has slept", rounds, idle);
    let few = rounds.div_ceil(20);
    for kind in ["nothing", "job", "fiber", "future", "blocking", "spawn_blocking"] {
        for sleepers in [0, SLEEPERS] {
            let name = format!("shutdown, after its limit: {kind} is stuck, {sleepers} tasks sleep");
            row(&name, few, || stuck(kind, sleepers));
        }
    }
    Ok(())
}

/// Measures in rounds, and prints the line.
fn row(name: &str, rounds: usize, mut measure: impl FnMut() -> Result<Duration>) {
    if std::env::args().nth(2).is_some_and(|text| !name.contains(&text)) {
        return;
    }
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        match measure() {
            Ok(time) => times.push(time.as_nanos() as f64 / 1e3),
            Err(error) => return println!("{name}: {error}"),
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize];
    println!(
        "{name}: {:.0}, {:.0}, {:.0}, {:.0}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}

/// A leaf of about a microsecond.
fn leaf(n: usize) {
    let mut value = n as u64;
    for _ in 0..300 {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

fn cancelled_loop(runtime: &Runtime) -> Result<Duration> {
    let (token, begun) = (CancelToken::new(), Arc::new(AtomicBool::new(false)));
    let (under, begins) = (token.clone(), Arc::clone(&begun));
    let task = runtime.spawn_job(move || {
        let ended = under.run(|| {
            par_for(0..LEAVES, 1, |n| {
                leaf(n);
                begins.store(true, SeqCst);
            });
        });
        (ended, Instant::now())
    });
    while !begun.load(SeqCst) {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(2));
    let start = Instant::now();
    token.cancel();
    let (ended, end) = task.wait()?;
    if ended.is_ok() {
        return Err("the loop was too short".into());
    }
    Ok(end - start)
}

fn late_loop(runtime: &Runtime) -> Result<Duration> {
    let due = Instant::now() + Duration::from_millis(3);
    let task = runtime.spawn_job(move || {
        let ended = with_deadline(due, || par_for(0..LEAVES, 1, leaf));
        (ended, Instant::now())
    });
    let (ended, end) = task.wait()?;
    if ended.is_ok() {
        return Err("the loop was too short".into());
    }
    Ok(end - due)
}

/// Cancels what `spawn` makes under the token, when it waits, and waits until it has ended.
fn cancelled(runtime: &Runtime, spawn: impl FnOnce(&CancelToken)) -> Result<Duration> {
    let token = CancelToken::new();
    let live = || {
        let tasks = runtime.metrics().pools[0].tasks;
        (tasks.futures + tasks.fibers, tasks.runnable)
    };
    spawn(&token);
    while live().0 == 0 || live().1 > 0 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_micros(500));
    let start = Instant::now();
    token.cancel();
    while live().0 > 0 {
        thread::yield_now();
    }
    Ok(start.elapsed())
}

fn graceful() -> Result<Duration> {
    let runtime = Runtime::builder().workers(2).build()?;
    let (send, ended) = mpsc::channel();
    runtime.spawn_detached(move || {
        thread::sleep(Duration::from_millis(3));
        send.send(Instant::now()).ok();
    });
    runtime.shutdown_gracefully(&GracefulShutdown::within(NEVER))?;
    Ok(ended.recv()?.elapsed())
}

/// Drops a runtime that has had a timer, and has nothing to do.
fn idle() -> Result<Duration> {
    let runtime = Runtime::builder().workers(2).build()?;
    runtime.block_on(sleep(Duration::from_micros(10)));
    let start = Instant::now();
    drop(runtime);
    Ok(start.elapsed())
}

/// Shuts down in vain, and returns how long it took after the limit.
fn stuck(kind: &str, sleepers: usize) -> Result<Duration> {
    let limit = Duration::from_millis(100);
    let runtime = Runtime::builder().workers(2).build()?;
    let slept = Arc::new(AtomicUsize::new(0));
    for _ in 0..sleepers {
        let slept = Arc::clone(&slept);
        drop(runtime.spawn(async move {
            slept.fetch_add(1, SeqCst);
            sleep(NEVER).await;
        }));
    }
    while slept.load(SeqCst) < sleepers {
        thread::yield_now();
    }
    let (release, waits) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    let body = move || {
        begins.send(()).ok();
        waits.recv().ok();
    };
    let builder = TaskBuilder::new().name(kind.to_owned()).on(&runtime);
    match kind {
        "job" => drop(builder.spawn_job(body)),
        "fiber" => drop(builder.spawn_fiber(body)),
        "future" => drop(builder.spawn(async move { body() })),
        "blocking" => drop(builder.spawn_job(|| warpweft::blocking(body))),
        "spawn_blocking" => drop(
            runtime
                .try_spawn_blocking(body)
                .map_err(warpweft::Refused::into_error)?,
        ),
        _ => drop(body),
    }
    let is_stuck = begun.recv().is_ok();
    let start = Instant::now();
    let ended = runtime.shutdown_timeout(limit);
    let took = start.elapsed();
    drop(release);
    match ended {
        Err(remaining) if is_stuck => {
            drop(remaining);
            Ok(took.saturating_sub(limit))
        }
        Ok(()) if !is_stuck => Ok(took),
        _ => Err("it ended otherwise".into()),
    }
}
