//! Bad requests, shutdown, idleness.

use super::{in_time, one};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use warpweft::policy::PolicyError;
use warpweft::{BuildError, Fifo, JoinError, PanicPolicy, Runtime, SpawnError, spawn, spawn_job};

/// Returns the voluntary and involuntary switches of this process's threads whose names begin with `name`.
#[cfg(target_os = "linux")]
fn switches(name: &str) -> u64 {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").expect("procfs") {
        let status =
            std::fs::read_to_string(task.expect("a thread").path().join("status")).unwrap_or_default();
        if status.starts_with(&format!("Name:\t{name}")) {
            let numbers = status.lines().filter(|line| line.contains("ctxt_switches"));
            sum += numbers
                .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    sum
}

#[test]
fn impossible_requests_are_refused_in_words() {
    for workers in [0, 4097, 1_000_000, usize::MAX] {
        let error = Runtime::builder()
            .workers(workers)
            .build()
            .expect_err("out of range");
        assert!(matches!(error, BuildError::Workers { asked, .. } if asked == workers));
        assert!(error.to_string().contains("1 to 4096"), "{error}");
    }
    let error = Runtime::builder()
        .policy(Fifo::new().capacity(0))
        .build()
        .expect_err("no room");
    assert!(
        matches!(&error, BuildError::Policy(PolicyError::Capacity(_))),
        "{error}"
    );
    let error = Runtime::builder()
        .policy(Fifo::new().capacity(usize::MAX))
        .build()
        .expect_err("no memory");
    assert!(
        matches!(&error, BuildError::Policy(PolicyError::Capacity(_))),
        "{error}"
    );
}

#[test]
fn threads_that_do_not_come_are_an_error_and_the_others_leave() {
    let error = Runtime::builder()
        .workers(3)
        .stack_size(1 << 47)
        .build()
        .expect_err("no such stack");
    assert!(
        matches!(
            error,
            BuildError::Thread {
                worker: 0,
                workers: 3,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("worker 0 of 3"), "{error}");
}

#[test]
fn a_closed_runtime_refuses_and_loses_nothing() {
    // No compensating worker runs what is queued.
    let runtime = Runtime::builder().workers(1).stuck_after(None).build();
    let runtime = runtime.expect("one worker");
    let (started, wait) = mpsc::channel();
    let pool = runtime.first().clone();
    let running = runtime.spawn_job(move || {
        started.send(()).expect("the test waits");
        while !pool.is_closed() {
            thread::sleep(Duration::from_millis(1));
        }
        1
    });
    wait.recv().expect("the job runs");
    let queued: Vec<_> = (0..100).map(|n| runtime.spawn(async move { n })).collect();
    runtime.shutdown();
    assert_eq!(running.wait().expect("it was running"), 1);
    for handle in queued {
        assert!(matches!(handle.wait(), Err(JoinError::Shutdown)));
    }
    assert_eq!(runtime.try_spawn(async {}).err(), Some(SpawnError::Closed));
    assert_eq!(runtime.try_spawn_job(|| ()).err(), Some(SpawnError::Closed));
    assert!(matches!(runtime.spawn(async {}).wait(), Err(JoinError::Shutdown)));
    assert!(matches!(
        runtime.spawn_job(|| ()).wait(),
        Err(JoinError::Shutdown)
    ));
}

#[test]
fn sleeping_tasks_end_with_their_runtime_whoever_holds_their_wakers() {
    let wakers = Arc::new(Mutex::new(Vec::new()));
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    let handles: Vec<_> = (0..5000)
        .map(|_| {
            let wakers = Arc::clone(&wakers);
            let mut once = false;
            runtime.spawn(std::future::poll_fn(move |cx| {
                if !std::mem::replace(&mut once, true) {
                    wakers.lock().expect("unpoisoned").push(cx.waker().clone());
                }
                std::task::Poll::<()>::Pending
            }))
        })
        .collect();
    while wakers.lock().expect("unpoisoned").len() < 5000 {
        thread::yield_now();
    }
    // Some are being woken while the runtime ends.
    let early: Vec<_> = wakers.lock().expect("unpoisoned").drain(..1000).collect();
    let waking = thread::spawn(move || early.into_iter().for_each(std::task::Waker::wake));
    drop(runtime);
    waking.join().expect("wakers do not panic");
    for handle in handles {
        assert!(matches!(handle.wait(), Err(JoinError::Shutdown)));
    }
    // Wakers outlive the pool.
    wakers
        .lock()
        .expect("unpoisoned")
        .drain(..)
        .for_each(std::task::Waker::wake);
}

#[test]
fn a_runtime_may_be_dropped_by_its_own_task() {
    let runtime = Arc::new(one());
    let inner = Arc::clone(&runtime);
    let (go, wait) = mpsc::channel::<()>();
    let handle = runtime.spawn_job(move || {
        wait.recv().expect("the test sends");
        let last = Arc::into_inner(inner).is_some();
        assert!(last, "this is the last handle");
        spawn_job(|| ())
    });
    drop(runtime);
    go.send(()).expect("the job waits");
    let spawned_late = handle
        .wait()
        .expect("the task that dropped it went on to its end");
    assert!(matches!(spawned_late.wait(), Err(JoinError::Shutdown)));
}

#[test]
fn drops_that_spawn_and_wake_during_shutdown_do_no_harm() {
    struct Spawner(Arc<Runtime>, Arc<AtomicUsize>);
    impl Drop for Spawner {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.spawn_job(|| ()).detach();
            spawn_job(|| ()).detach();
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let other = Arc::new(one());
    let runtime = one();
    for _ in 0..100 {
        let spawner = Spawner(Arc::clone(&other), Arc::clone(&drops));
        runtime
            .spawn(async move {
                let _spawner = spawner;
                std::future::pending::<()>().await;
            })
            .detach();
    }
    drop(runtime);
    assert_eq!(drops.load(Ordering::SeqCst), 100);
}

#[test]
fn many_runtimes_come_and_go() {
    for round in 0..200 {
        let runtime = Runtime::builder()
            .workers(1 + round % 4)
            .build()
            .expect("a few workers");
        let handles: Vec<_> = (0..20)
            .map(|n| runtime.spawn(async move { spawn(async move { n }).await }))
            .collect();
        if round % 2 == 0 {
            for (n, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.wait().expect("no panic").expect("no panic"), n);
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_pool_makes_no_wake_ups() {
    let runtime = Runtime::builder()
        .workers(4)
        .name("idler")
        .build()
        .expect("four workers");
    for _ in 0..100 {
        runtime.spawn_job(|| ()).wait().expect("no panic");
    }
    while runtime.idle_workers() != (0, 4) {
        thread::sleep(Duration::from_millis(1));
    }
    // On a loaded machine the last ones may be on their way into the kernel for a while. A pool that polls or
    // wakes by a timer has no quiet window at all.
    let quiet = (0..20).any(|_| {
        let before = switches("idler");
        thread::sleep(Duration::from_millis(300));
        switches("idler") == before
    });
    assert!(quiet, "twenty windows of 300 ms, and somebody woke in each");
    assert!(runtime.spawn_job(|| ()).wait().is_ok());
}

#[test]
fn a_default_runtime_is_built_once() {
    let built = warpweft::Builder::new()
        .workers(1)
        .name("custom")
        .build_default()
        .expect("the first");
    assert_eq!(
        spawn_job(|| thread::current().name().map(String::from))
            .wait()
            .expect("no panic")
            .as_deref(),
        Some("custom-0")
    );
    assert_eq!(warpweft::default_runtime().name(), built.name());
    assert!(matches!(
        warpweft::Builder::new().build_default(),
        Err(BuildError::DefaultExists)
    ));
}

/// One worker is in a task that does not end. Joiners of futures that wait do not wait for it.
#[test]
fn futures_that_wait_end_although_one_worker_is_stuck() {
    in_time(|| {
        let builder = Runtime::builder().workers(2).stuck_after(None);
        let runtime = builder.build().expect("threads");
        let hour = warpweft::time::sleep(Duration::from_secs(3600));
        let waiting = [runtime.spawn(hour), runtime.spawn(std::future::pending())];
        // What is in a queue ends with the last worker.
        while runtime.metrics().pools[0].tasks.futures < waiting.len() {
            thread::yield_now();
        }
        let (tell, told) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let stuck = runtime.spawn_job(move || {
            let _ = tell.send(());
            let _ = released.recv();
        });
        told.recv().expect("it begins");
        let shut_down = runtime.shutdown_timeout(Duration::from_millis(100));
        assert!(shut_down.is_err(), "one is stuck");
        for task in waiting {
            assert!(matches!(task.wait(), Err(JoinError::Shutdown)));
        }
        drop(release);
        let _ = stuck.wait();
    });
}

/// The pool closes and cannot end yet. A task that comes now ends at once on this thread, with what it holds:
/// here the last share of the runtime, whose drop waits for the pool where it can.
#[test]
fn a_task_that_comes_too_late_may_hold_the_runtime() {
    in_time(|| {
        let runtime = Runtime::builder()
            .workers(2)
            .panic_policy(PanicPolicy::ShutDown)
            .build()
            .expect("two workers");
        let (go_on, goes_on) = mpsc::channel::<()>();
        let (tell, begins) = mpsc::channel();
        let holds_up = runtime.spawn_job(move || {
            tell.send(()).expect("the test waits");
            let _ = goes_on.recv();
        });
        begins.recv().expect("it begins");
        assert!(
            runtime
                .spawn_job(|| panic!("it ends the runtime"))
                .wait()
                .is_err()
        );
        let pool = runtime.first().clone();
        assert!(pool.is_closed());
        drop(pool.spawn(async move { drop(runtime) }));
        drop(go_on);
        drop(holds_up.wait());
    });
}
