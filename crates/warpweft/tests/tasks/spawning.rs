//! Spawning from everywhere, results, panics, cancellation, wakes.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use warpweft::{
    JoinError, PolicySpec, Runtime, TaskBuilder, is_only_ready, spawn, spawn_detached, spawn_job, yield_now,
};

fn runtimes() -> impl Iterator<Item = Runtime> {
    [
        "fifo",
        "lifo",
        "fifo+capacity=2+overflow=locked",
        "lifo+capacity=2+steal=atleast:3",
    ]
    .into_iter()
    .flat_map(|text| [1, 2, 4].map(|workers| (text, workers)))
    .map(|(text, workers)| {
        let spec: PolicySpec = text.parse().expect(text);
        Runtime::builder()
            .workers(workers)
            .policy_spec(spec)
            .build()
            .expect(text)
    })
}

/// Counts its drops.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that leaves its waker with the test and is ready once told.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    fn open(&self) {
        let wakers = {
            let mut gate = self.0.lock().expect("no panic holds it");
            gate.0 = true;
            std::mem::take(&mut gate.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn waiting(&self) -> usize {
        self.0.lock().expect("no panic holds it").1.len()
    }

    fn wait_for_waiters(&self, count: usize) {
        while self.waiting() < count {
            thread::yield_now();
        }
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut gate = self.0.lock().expect("no panic holds it");
        if gate.0 {
            return Poll::Ready(());
        }
        gate.1.push(cx.waker().clone());
        Poll::Pending
    }
}

fn tree(depth: u32) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if depth == 0 {
            return 1;
        }
        let (left, right) = (spawn(tree(depth - 1)), spawn(tree(depth - 1)));
        left.await.expect("no panic") + right.await.expect("no panic")
    })
}

#[test]
fn a_tree_of_tasks_adds_up_under_every_policy() {
    for runtime in runtimes() {
        assert_eq!(
            runtime.spawn(tree(10)).wait().expect("no panic"),
            1024,
            "{runtime:?}"
        );
    }
}

#[test]
fn spawns_from_inside_outside_and_another_runtime_arrive() {
    let other = Arc::new(
        Runtime::builder()
            .workers(2)
            .name("other")
            .build()
            .expect("two workers"),
    );
    for runtime in runtimes() {
        let there = Arc::clone(&other);
        let sum = runtime.spawn(async move {
            let here: Vec<_> = (0..100u32).map(|n| spawn_job(move || n)).collect();
            let elsewhere: Vec<_> = (0..100u32).map(|n| there.spawn(async move { n })).collect();
            let mut sum = 0;
            for handle in here.into_iter().chain(elsewhere) {
                sum += handle.await.expect("no panic");
            }
            sum
        });
        assert_eq!(sum.wait().expect("no panic"), 2 * 4950);
    }
}

#[test]
fn block_on_reaches_its_runtime_by_the_free_functions() {
    let runtime = Runtime::builder()
        .workers(1)
        .name("mine")
        .build()
        .expect("one worker");
    let local = String::from("borrowed, and not Send-checked");
    let name = runtime.block_on(async {
        assert!(!local.is_empty());
        spawn_job(|| thread::current().name().map(String::from))
            .await
            .expect("no panic")
    });
    assert_eq!(name.as_deref(), Some("mine-0"));
}

#[test]
fn a_panic_is_the_joiners_and_nobody_elses() {
    for runtime in runtimes() {
        let bad_job = runtime.spawn_job(|| -> u32 { panic!("job {}", 7) });
        let bad_future = runtime.spawn(async {
            yield_now().await;
            panic!("future")
        });
        let good = runtime.spawn(async { 1 });
        let error = bad_job.wait().expect_err("it panicked");
        assert!(error.to_string().ends_with(", panicked: job 7"), "{error}");
        let payload = bad_future
            .wait()
            .map(|(): ()| ())
            .expect_err("it panicked")
            .into_panic();
        assert_eq!(
            payload
                .and_then(|payload| payload.downcast::<&str>().ok())
                .as_deref(),
            Some(&"future")
        );
        assert_eq!(good.wait().expect("no panic"), 1);
    }
}

#[test]
fn every_task_and_result_is_dropped_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    for runtime in runtimes() {
        drops.store(0, Ordering::SeqCst);
        let token = || Dropped(Arc::clone(&drops));
        // Two drops each: what the work captured, and the result.
        let (captured, result) = (token(), token());
        let joined = runtime.spawn_job(move || {
            drop(captured);
            result
        });
        let (captured, result) = (token(), token());
        let detached = runtime.spawn(async move {
            yield_now().await;
            drop(captured);
            result
        });
        let (captured, caught) = (token(), token());
        let panicked = runtime.spawn(async move {
            let _captured = captured;
            yield_now().await;
            let _caught = caught;
            panic!("on purpose");
        });
        drop(joined.wait());
        detached.detach();
        assert!(
            panicked
                .wait()
                .map(|(): ()| ())
                .expect_err("it panicked")
                .is_panic()
        );
        drop(runtime);
        assert_eq!(drops.load(Ordering::SeqCst), 6);
    }
}

#[test]
fn a_wake_from_any_thread_resumes_the_task_once() {
    for runtime in runtimes() {
        let gates: Vec<Gate> = (0..64).map(|_| Gate::default()).collect();
        let handles: Vec<_> = gates
            .iter()
            .map(|gate| {
                let gate = gate.clone();
                runtime.spawn(async move {
                    gate.await;
                    1
                })
            })
            .collect();
        let openers: Vec<_> = gates
            .into_iter()
            .map(|gate| {
                thread::spawn(move || {
                    gate.wait_for_waiters(1);
                    gate.open();
                    gate.open();
                })
            })
            .collect();
        let sum: u32 = handles
            .into_iter()
            .map(|handle| handle.wait().expect("no panic"))
            .sum();
        assert_eq!(sum, 64);
        openers
            .into_iter()
            .for_each(|opener| opener.join().expect("no panic"));
    }
}

#[test]
fn cancelling_ends_what_sleeps_and_what_has_not_started() {
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let drops = Arc::new(AtomicUsize::new(0));
    let gate = Gate::default();
    let (sleeper_gate, token) = (gate.clone(), Dropped(Arc::clone(&drops)));
    let sleeper = runtime.spawn(async move {
        let _token = token;
        sleeper_gate.await;
    });
    gate.wait_for_waiters(1);
    assert!(sleeper.cancel());
    assert!(matches!(sleeper.wait(), Err(JoinError::Cancelled)));
    assert_eq!(drops.load(Ordering::SeqCst), 1);

    let (go, wait) = mpsc::channel::<()>();
    let busy = runtime.spawn_job(move || wait.recv());
    let token = Dropped(Arc::clone(&drops));
    let waiting = runtime.spawn_job(move || drop(token));
    assert!(waiting.cancel());
    go.send(()).expect("the job waits");
    assert!(matches!(waiting.wait(), Err(JoinError::Cancelled)));
    assert!(busy.wait().expect("no panic").is_ok());
    assert_eq!(drops.load(Ordering::SeqCst), 2);

    let done = runtime.spawn_job(|| ());
    while !done.is_finished() {
        thread::yield_now();
    }
    assert!(!done.cancel());
    assert!(done.wait().is_ok());
}

#[test]
fn a_task_that_nobody_can_wake_is_ended() {
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    let drops = Arc::new(AtomicUsize::new(0));
    // It never left a waker anywhere.
    let token = Dropped(Arc::clone(&drops));
    runtime
        .spawn(async move {
            let _token = token;
            std::future::pending::<()>().await;
        })
        .detach();
    // Its only waker is dropped later.
    let gate = Gate::default();
    let (inner, token) = (gate.clone(), Dropped(Arc::clone(&drops)));
    runtime
        .spawn(async move {
            let _token = token;
            inner.await;
        })
        .detach();
    gate.wait_for_waiters(1);
    gate.0.lock().expect("no panic holds it").1.clear();
    while drops.load(Ordering::SeqCst) < 2 {
        thread::yield_now();
    }
}

#[test]
fn a_handle_can_be_awaited_with_changing_wakers() {
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let gate = Gate::default();
    let inner = gate.clone();
    let mut handle = runtime.spawn(async move {
        inner.await;
        5
    });
    for _ in 0..3 {
        assert!(
            Pin::new(&mut handle)
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    }
    gate.wait_for_waiters(1);
    let joiner = runtime.spawn(handle);
    gate.open();
    assert_eq!(joiner.wait().expect("no panic").expect("no panic"), 5);
}

#[test]
fn yielding_lets_others_run_and_returns_at_once_when_alone() {
    for text in ["fifo", "lifo", "fifo+yield=global", "prows", "parsimonious"] {
        let spec: PolicySpec = text.parse().expect(text);
        let runtime = Runtime::builder()
            .workers(1)
            .policy_spec(spec)
            .build()
            .expect("one worker");
        let order = Arc::new(Mutex::new(Vec::new()));
        let (first, second) = (Arc::clone(&order), Arc::clone(&order));
        runtime
            .spawn(async move {
                let other = spawn_job(move || second.lock().expect("unpoisoned").push("other"));
                assert!(!is_only_ready(), "{text}");
                yield_now().await;
                first.lock().expect("unpoisoned").push("yielder");
                other.await.expect("no panic");
                // Nothing else is ready: this must not wait for anything.
                for _ in 0..1000 {
                    yield_now().await;
                }
                // The monitor may take a step without a CPU for a long one: then it is to be ended.
                while !is_only_ready() {
                    yield_now().await;
                }
            })
            .wait()
            .expect("no panic");
        assert_eq!(*order.lock().expect("unpoisoned"), ["other", "yielder"], "{text}");
    }
}

#[test]
fn names_and_spawn_sites_are_kept() {
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let named = TaskBuilder::new()
        .name(format!("reader {}", 3))
        .on(&runtime)
        .spawn(async {});
    let line = line!() + 1;
    let plain = runtime.spawn_job(|| ());
    assert_eq!(named.info().name(), Some("reader 3"));
    assert_eq!(
        (plain.info().name(), plain.info().location().line()),
        (None, line)
    );
    assert!(plain.info().location().file().ends_with("spawning.rs"));
    assert!(format!("{named:?}").contains("reader 3"));
}

#[test]
fn detached_jobs_all_run() {
    for runtime in runtimes() {
        let ran = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&ran);
        runtime
            .spawn(async move {
                for _ in 0..10_000 {
                    let ran = Arc::clone(&counter);
                    spawn_detached(move || {
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                }
            })
            .wait()
            .expect("no panic");
        while ran.load(Ordering::Relaxed) < 10_000 {
            thread::yield_now();
        }
    }
}
