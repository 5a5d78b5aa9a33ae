//! How soon a second half starts, and how soon its owner goes on.
//!
//! | row | what is timed |
//! |---|---|
//! | other worker busy | from the moment when the other worker is through with a job of its own until it runs the second half, which was forked long before |
//! | other worker looks on | from the fork to the second half; forks come every few milliseconds |
//! | pool asleep | the same; nobody forked for 20 ms, so somebody has to be woken |
//! | going on, soon | from the end of a taken half to its owner, which has waited for 30 µs |
//! | going on, late | the same; it has waited for 2 ms, and given its worker away |
//!
//! Behind them, how long scopes with few long jobs take, and with many empty ones.
//!
//! Both halves are long, except that the owner's is short in the last two rows.
//! `cargo bench -p warpweft --bench forks`

// The model checkers have no benchmarks: nothing is left to compile, a `main` neither.
#![cfg_attr(any(warpweft_loom, warpweft_shuttle), no_main)]
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::Runtime;

const ROUNDS: usize = 500;

/// Computes for so long.
fn work(long: Duration) {
    let start = Instant::now();
    while start.elapsed() < long {}
}

/// When the second half of a join began, and when both halves and the join itself were over.
struct Join {
    forked: Instant,
    began: Instant,
    ended: Instant,
    joined: Instant,
}

/// One join, on some worker, of halves that take so long.
fn join(runtime: &Runtime, first: Duration, second: Duration) -> Join {
    let body = |cx: warpweft::ForkCx<'_>| {
        let forked = Instant::now();
        let ((), (began, ended)) = cx.join(
            |_| work(first),
            |_| {
                let began = Instant::now();
                work(second);
                (began, Instant::now())
            },
        );
        Join {
            forked,
            began,
            ended,
            joined: Instant::now(),
        }
    };
    runtime.install(body).expect("the pool is open")
}

const MS: Duration = Duration::from_millis(1);

/// Time from when the other worker is through with a job, which it began before the fork, to the second half.
fn beside_a_job(runtime: &Runtime) -> Duration {
    let busy = Arc::new(AtomicBool::new(false));
    let (seen, here) = (Arc::clone(&busy), Arc::clone(&busy));
    let job = runtime.spawn_job(move || {
        busy.store(true, Ordering::Relaxed);
        while busy.load(Ordering::Relaxed) {}
        work(MS / 5);
        Instant::now()
    });
    let began = runtime
        .install(|cx| {
            while !seen.load(Ordering::Relaxed) {}
            let first = || {
                here.store(false, Ordering::Relaxed);
                work(MS);
            };
            let second = || {
                let began = Instant::now();
                work(MS);
                began
            };
            cx.join(|_| first(), |_| second()).1
        })
        .expect("the pool is open");
    began - job.wait().expect("no panic")
}

/// Prints the quantiles of what was timed.
fn row(what: &str, mut time: impl FnMut() -> Duration) {
    let mut times: Vec<_> = (0..ROUNDS).map(|_| time().as_nanos() as f64 / 1e3).collect();
    times.sort_by(f64::total_cmp);
    let quantile = |q: usize| times[(ROUNDS * q / 100).min(ROUNDS - 1)];
    println!(
        "| {what:24} | {:7.1} | {:7.1} | {:7.1} | {:7.1} |",
        quantile(50),
        quantile(90),
        quantile(99),
        quantile(100)
    );
}

fn main() {
    let runtime = Runtime::builder().workers(2).build().expect("two threads");
    println!("| µs                       |     p50 |     p90 |     p99 | longest |");
    println!("|---|---|---|---|---|");
    row("other worker busy", || beside_a_job(&runtime));
    row("other worker looks on", || {
        let join = join(&runtime, MS, MS);
        join.began - join.forked
    });
    row("pool asleep", || {
        thread::sleep(20 * MS);
        let join = join(&runtime, MS, MS);
        join.began - join.forked
    });
    for (what, second) in [
        ("going on, soon", MS / 10 + 3 * MS / 100),
        ("going on, late", 2 * MS),
    ] {
        row(what, || {
            let join = join(&runtime, MS / 10, second);
            join.joined - join.ended
        });
    }
    println!("threads: {:?}", runtime.threads());
    scopes();
}

/// How long a scope takes: with eight jobs that sleep 100 ms, and with a million that do nothing.
fn scopes() {
    println!(
        "\n| workers | 8 jobs that sleep 100 ms, ms | ns for an empty job: p25, p50, p75 of 31 scopes |"
    );
    println!("|---|---|---|");
    for workers in [1, 2, 4, 8] {
        let runtime = Runtime::builder().workers(workers).build().expect("threads");
        let scope = |jobs: usize, long: Duration| {
            let start = Instant::now();
            let body = |cx: warpweft::ForkCx<'_>| {
                cx.scope(|scope| {
                    for _ in 0..jobs {
                        scope.spawn(move |_| {
                            if !long.is_zero() {
                                thread::sleep(long);
                            }
                        });
                    }
                });
            };
            runtime.install(body).expect("the pool is open");
            start.elapsed()
        };
        let long = scope(8, 100 * MS).as_millis();
        let mut empty: Vec<_> = (0..31)
            .map(|_| scope(1_000_000, Duration::ZERO).as_secs_f64() * 1e3)
            .collect();
        empty.sort_by(f64::total_cmp);
        println!(
            "| {workers} | {long} | {:.1}, {:.1}, {:.1} |",
            empty[7], empty[15], empty[23]
        );
    }
}
