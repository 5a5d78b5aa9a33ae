//! Whole runtimes on a simulated machine, in the build `--cfg warpweft_sim`: `cargo xtask sim`.
#![cfg(warpweft_sim)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use warpweft::sim::{AtomicU64, Failure, Machine, Report, Settings, compute, now_ns, run, try_run};
use warpweft::{Runtime, blocking, fiber, join, spawn, spawn_detached, yield_now};
use warpweft_policy::{Cforall, Negele};

const HOUR: Duration = Duration::from_secs(3600);
const POLICIES: [&str; 4] = ["fifo", "lifo+steal=one", "cforall", "negele"];

fn epyc() -> Machine {
    Machine::named("epyc-7702x2").expect("it is built in")
}

fn runtime(workers: usize, policy: &str) -> Runtime {
    let builder = Runtime::builder().workers(workers);
    let builder = match policy {
        // Their texts need the feature `all-policies`, which models are built without.
        "cforall" => builder.policy(Cforall::new()),
        "negele" => builder.policy(Negele::new()),
        text => builder.policy_spec(text.parse().expect("a policy")),
    };
    builder.build().expect("a runtime")
}

/// Tasks that are spawned by one, and that wake each other.
fn spawns_and_wakes(workers: usize, policy: &'static str) -> u64 {
    let runtime = runtime(workers, policy);
    let count = Arc::new(AtomicU64::new(0));
    let all = runtime.spawn(async move {
        for _ in 0..500 {
            let count = Arc::clone(&count);
            spawn_detached(move || {
                compute(300);
                count.fetch_add(1, Relaxed);
            });
        }
        let waited: Vec<_> = (0..50)
            .map(|n| {
                spawn(async move {
                    yield_now().await;
                    n
                })
            })
            .collect();
        let mut sum = 0;
        for task in waited {
            sum += task.await.expect("no panic");
        }
        while count.load(Relaxed) < 500 {
            yield_now().await;
        }
        sum
    });
    all.wait().expect("no panic")
}

#[test]
fn pools_run_under_each_policy_and_end() {
    for policy in POLICIES {
        for workers in [1, 2, 40] {
            let (sum, report) = run(1, &epyc(), move || spawns_and_wakes(workers, policy));
            assert_eq!(sum, (0..50).sum(), "{policy} with {workers}");
            assert_eq!(report.left, 0, "{policy} with {workers}: each thread has ended");
        }
    }
}

/// A process of its own prints the hash of the run: its addresses are others.
#[test]
fn a_seed_repeats_a_whole_runtime_in_two_processes() {
    const CHILD: &str = "WARPWEFT_SIM_TEST_CHILD";
    let line = |report: &Report| format!("{:x} {} {}", report.hash, report.steps, report.time_ns);
    if let Some(seed) = std::env::var_os(CHILD) {
        let seed = seed.to_str().expect("a number").parse().expect("a number");
        let (_, report) = run(seed, &epyc(), || {
            (0..3).map(|_| spawns_and_wakes(24, "fifo")).sum::<u64>()
        });
        assert!(report.steps >= 100_000, "{} steps", report.steps);
        println!("hash: {}", line(&report));
        return;
    }
    let of_child = |seed: &str| {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child
            .args(["--exact", "a_seed_repeats_a_whole_runtime_in_two_processes"])
            .args(["--nocapture"])
            .env(CHILD, seed);
        let output = child.output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let after = text.split_once("hash: ").unwrap_or_else(|| panic!("{text}")).1;
        after.lines().next().expect("a line").to_owned()
    };
    let first = of_child("5");
    assert_eq!(first, of_child("5"));
    assert_ne!(first, of_child("6"));
}

#[test]
fn sleeps_of_hours_pass_and_end_in_order() {
    let start = std::time::Instant::now();
    let (order, report) = run(2, &epyc(), || {
        let runtime = runtime(4, "fifo");
        let all = runtime.spawn(async {
            let order = Arc::new(warpweft::sync::Mutex::new(Vec::new()));
            let tasks: Vec<_> = [3, 1, 2]
                .map(|hours| {
                    let order = Arc::clone(&order);
                    spawn(async move {
                        warpweft::time::sleep(hours * HOUR).await;
                        order.lock().await.push(hours);
                    })
                })
                .into_iter()
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
            order.lock().await.clone()
        });
        all.wait().expect("no panic")
    });
    assert_eq!(order, [1, 2, 3]);
    let hours = Duration::from_nanos(report.time_ns);
    assert!((3 * HOUR..3 * HOUR + HOUR / 60).contains(&hours), "{hours:?}");
    assert!(start.elapsed() < Duration::from_secs(60), "no hour of the host");
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    compute(20);
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn joins_spread_over_workers() {
    let time = |workers| {
        run(3, &epyc(), move || {
            let runtime = runtime(workers, "fifo");
            let before = now_ns();
            let sum = runtime.install(|_| fib(20)).expect("it runs");
            assert_eq!(sum, 6765);
            now_ns() - before
        })
        .0
    };
    let (alone, eight) = (time(1), time(8));
    assert!(eight < alone / 2, "{eight} ns with 8 workers, {alone} with one");
}

/// Returns how long four spawners and their handlers take.
fn four_spawners(workers: usize) -> u64 {
    let handlers = 2500;
    let run_all = move || {
        let runtime = runtime(workers, "fifo");
        let ended = Arc::new(AtomicU64::new(0));
        let before = now_ns();
        let spawners: Vec<_> = (0..4)
            .map(|_| {
                let ended = Arc::clone(&ended);
                runtime.spawn_job(move || {
                    for _ in 0..handlers {
                        let ended = Arc::clone(&ended);
                        compute(60);
                        spawn_detached(move || {
                            compute(2700);
                            ended.fetch_add(1, Relaxed);
                        });
                    }
                })
            })
            .collect();
        for spawner in spawners {
            spawner.wait().expect("no panic");
        }
        while ended.load(Relaxed) < 4 * handlers {
            warpweft::sim::sleep(5_000);
        }
        now_ns() - before
    };
    run(8, &epyc(), run_all).0
}

/// Idle workers that search take the line that each push reads. So more of them must not slow the others.
#[test]
fn idle_workers_do_not_keep_the_word_from_those_that_work() {
    let (few, many) = (four_spawners(20), four_spawners(80));
    assert!(many < few, "{many} ns with 80 workers, {few} with 20");
}

#[test]
fn fibers_wait_and_blocked_closures_give_their_worker_away() {
    let ((), report) = run(4, &epyc(), || {
        let runtime = runtime(2, "fifo");
        let all = runtime.spawn_job(|| {
            let fibers: Vec<_> = (0..20)
                .map(|n| {
                    fiber::spawn(move || {
                        fiber::wait(warpweft::time::sleep(Duration::from_millis(5)));
                        n
                    })
                })
                .collect();
            fibers
                .into_iter()
                .map(|fiber| fiber.wait().expect("no panic"))
                .sum::<u64>()
        });
        let sum = all.wait().expect("no panic");
        assert_eq!(sum, 190);
        // Both workers block for long; a task runs meanwhile.
        let blocked: Vec<_> = (0..2)
            .map(|_| runtime.spawn_job(|| blocking(|| warpweft::sim::sleep(50_000_000))))
            .collect();
        let before = now_ns();
        runtime.spawn_job(|| ()).wait().expect("no panic");
        assert!(now_ns() - before < 20_000_000, "{}", now_ns() - before);
        for job in blocked {
            job.wait().expect("no panic");
        }
    });
    assert_eq!(report.left, 0);
}

#[test]
fn the_monitor_sees_a_stuck_worker_in_virtual_time() {
    let (stalls, _) = run(5, &epyc(), || {
        let runtime = runtime(2, "fifo");
        runtime
            .spawn_job(|| compute(500_000_000))
            .wait()
            .expect("no panic");
        runtime.stalls()
    });
    assert_eq!(stalls, 1);
}

/// What cannot be simulated is an error, and no hang.
#[test]
fn sockets_are_refused_by_an_error_that_says_why() {
    run(6, &epyc(), || {
        let runtime = runtime(1, "fifo");
        let bound = runtime.block_on(async { warpweft::net::TcpListener::bind(([127, 0, 0, 1], 0)) });
        let error = bound.expect_err("there are no sockets");
        assert!(error.to_string().contains("warpweft_sim"), "{error}");
    });
    let built = Runtime::builder().workers(1).build();
    let error = built.expect_err("there is no machine");
    assert!(
        format!("{error:?} {error}").contains("warpweft_sim::run"),
        "{error}"
    );
}

#[test]
fn a_task_that_waits_for_ever_is_a_deadlock() {
    let settings = Settings::new(&epyc(), 7);
    let waits = try_run(&settings, || {
        let runtime = Runtime::builder().workers(1).stuck_after(None).build();
        runtime.expect("a runtime").block_on(std::future::pending::<()>());
    });
    assert!(matches!(waits, Err(Failure::Deadlock(_))), "{waits:?}");
}
