//! The life cycle of a runtime: bad requests, shutdown, policies that misbehave, idleness.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "outside the checkers the system's own threads and locks are what is tested against"
)]

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::policy::{Count, Cx, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why};
use warpweft::{BuildError, Fifo, JoinError, Policy, Runtime, SpawnError, spawn, spawn_job, yield_now};
use warpweft_queue::Locked;

fn one() -> Runtime {
    Runtime::builder().workers(1).build().expect("one worker")
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
    let runtime = one();
    let (started, wait) = mpsc::channel();
    let running = runtime.spawn_job(move || {
        started.send(()).expect("the test waits");
        thread::sleep(Duration::from_millis(20));
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

/// One queue for all. Its hooks do what the test says.
struct Central<H>(Arc<H>);

trait Hooks: Send + Sync + 'static {
    /// Called with every runnable that is pushed; the policy keeps what it returns.
    fn push(&self, task: TaskRef) -> Option<TaskRef> {
        Some(task)
    }
    fn next(&self) {}
    fn scan(&self) {}
}

impl<H: Hooks> Policy for Central<H> {
    type Shared = (Locked<TaskRef>, Arc<H>);
    type Local = ();

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
        Ok(((Locked::new(), Arc::clone(&self.0)), vec![(); env.workers]))
    }

    fn push(shared: &Self::Shared, _: Option<&mut ()>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        if let Some(task) = shared.1.push(task) {
            shared.0.push(task);
        }
        Wake::Any
    }

    fn next(shared: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        shared.1.next();
        shared.0.pop()
    }

    fn scan(shared: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        shared.1.scan();
        shared.0.pop()
    }
}

#[test]
fn task_refs_that_a_policy_drops_are_reported_to_their_joiners() {
    struct EveryThird(AtomicUsize);
    impl Hooks for EveryThird {
        fn push(&self, task: TaskRef) -> Option<TaskRef> {
            (self.0.fetch_add(1, Ordering::Relaxed) % 3 != 2).then_some(task)
        }
    }
    let policy = Central(Arc::new(EveryThird(AtomicUsize::new(0))));
    let runtime = Runtime::builder()
        .workers(2)
        .policy(policy)
        .build()
        .expect("two workers");
    let handles: Vec<_> = (0..300).map(|_| runtime.spawn_job(|| ())).collect();
    let results = handles.into_iter().map(warpweft::JoinHandle::wait);
    let dropped = results.filter(|result| matches!(result, Err(JoinError::Dropped)));
    assert_eq!(dropped.count(), 100);
    assert_eq!(runtime.counters().outside.get(Count::Dropped), 100);
}

#[test]
fn a_policy_that_panics_closes_its_pool_and_nothing_hangs() {
    /// Panics in its `nth` call of one hook.
    struct Panics(&'static str, AtomicUsize, usize);
    impl Panics {
        fn at(&self, hook: &str) {
            if hook == self.0 {
                assert!(
                    self.1.fetch_add(1, Ordering::Relaxed) != self.2,
                    "the policy's {hook} panics"
                );
            }
        }
    }
    impl Hooks for Panics {
        fn push(&self, task: TaskRef) -> Option<TaskRef> {
            self.at("push");
            Some(task)
        }
        fn next(&self) {
            self.at("next");
        }
        fn scan(&self) {
            self.at("scan");
        }
    }
    for hook in ["push", "next", "scan"] {
        for nth in [0, 1, 7] {
            for workers in [1, 3] {
                let hooks = Arc::new(Panics(hook, AtomicUsize::new(0), nth));
                let policy = Central(Arc::clone(&hooks));
                let runtime = Runtime::builder()
                    .workers(workers)
                    .policy(policy)
                    .build()
                    .expect("workers");
                let handles: Vec<_> = (0..50)
                    .map(|n| {
                        runtime.spawn(async move {
                            yield_now().await;
                            spawn_job(move || n).await
                        })
                    })
                    .collect();
                // Each joiner gets an answer, whichever it is. `Dropped`: the runnable was lost with the
                // hook's panic.
                for handle in handles {
                    match handle.wait() {
                        Ok(Ok(_) | Err(JoinError::Shutdown | JoinError::Dropped)) => {}
                        Err(JoinError::Shutdown | JoinError::Dropped | JoinError::Panicked(_)) => {}
                        other => panic!("{hook} {nth} {workers}: {other:?}"),
                    }
                }
                // The pool closes as soon as the hook has panicked.
                let start = Instant::now();
                while hooks.1.load(Ordering::Relaxed) > nth && runtime.try_spawn_job(|| ()).is_ok() {
                    assert!(
                        start.elapsed() < Duration::from_secs(60),
                        "{hook} {nth} {workers}: still open"
                    );
                    thread::yield_now();
                }
            }
        }
    }
}

#[test]
fn a_hook_that_panics_below_a_task_closes_the_pool_at_once() {
    struct SecondPush(AtomicUsize);
    impl Hooks for SecondPush {
        fn push(&self, task: TaskRef) -> Option<TaskRef> {
            assert_ne!(
                self.0.fetch_add(1, Ordering::Relaxed),
                1,
                "the policy's push panics"
            );
            Some(task)
        }
    }
    let policy = Central(Arc::new(SecondPush(AtomicUsize::new(0))));
    let runtime = Runtime::builder()
        .workers(1)
        .policy(policy)
        .build()
        .expect("one worker");
    let runtime = Arc::new(runtime);
    let inside = Arc::clone(&runtime);
    let seen = runtime.spawn_job(move || {
        let spawned = catch_unwind(|| spawn_job(|| ()).detach());
        (spawned.is_err(), inside.try_spawn_job(|| ()).err())
    });
    assert_eq!(
        seen.wait().expect("the job caught the panic"),
        (true, Some(SpawnError::Closed))
    );
}

#[test]
fn a_policy_hears_of_the_end_of_every_task() {
    /// Gives each task the word 7, and counts those that come back.
    struct Watching(Arc<AtomicUsize>);
    impl Policy for Watching {
        type Shared = (Locked<TaskRef>, Arc<AtomicUsize>);
        type Local = ();
        const WATCHES_COMPLETIONS: bool = true;

        fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
            Ok(((Locked::new(), Arc::clone(&self.0)), vec![(); env.workers]))
        }
        fn push(shared: &Self::Shared, _: Option<&mut ()>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            shared.0.push(task);
            Wake::Any
        }
        fn suspended(_: &Self::Shared, (): &mut (), mut task: Waiting<'_>, _: &Cx<'_>) {
            task.set_policy_word(7);
        }
        fn next(shared: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
            shared.0.pop()
        }
        fn scan(shared: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
            shared.0.pop()
        }
        fn completed((_, words): &Self::Shared, (): &mut (), word: u64) {
            words.fetch_add(1 + usize::try_from(word).expect("small"), Ordering::Relaxed);
        }
    }
    let words = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::builder()
        .workers(1)
        .policy(Watching(Arc::clone(&words)))
        .build()
        .expect("one worker");
    let heard = |n| {
        let start = Instant::now();
        while words.load(Ordering::Relaxed) != n {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{words:?} instead of {n}"
            );
            thread::yield_now();
        }
    };
    runtime.spawn_job(|| ()).detach();
    heard(1);
    // No thread could ever wake it: it is cancelled when it suspends.
    runtime.spawn(std::future::pending::<()>()).detach();
    heard(1 + 8);
    // It sleeps, and is cancelled later.
    let sleeper = runtime.spawn(std::future::pending::<()>());
    while runtime.counters().total().get(Count::Suspensions) < 2 {
        thread::yield_now();
    }
    sleeper.cancel();
    drop(sleeper);
    heard(1 + 8 + 8);
}

#[test]
fn a_policy_that_spawns_from_a_hook_is_an_outsider_there() {
    struct Respawns(AtomicUsize);
    impl Hooks for Respawns {
        fn next(&self) {
            if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
                spawn_job(|| ()).detach();
            }
        }
    }
    let policy = Central(Arc::new(Respawns(AtomicUsize::new(0))));
    let runtime = Runtime::builder()
        .workers(1)
        .policy(policy)
        .build()
        .expect("one worker");
    assert!(runtime.spawn_job(|| ()).wait().is_ok());
    let start = Instant::now();
    while runtime.counters().total().get(Count::Ran) < 2 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the hook's task never ran"
        );
        thread::yield_now();
    }
}

#[test]
fn a_policy_with_the_wrong_number_of_locals_is_refused() {
    struct Short;
    impl Policy for Short {
        type Shared = ();
        type Local = ();
        fn build(&self, _: &PoolEnv) -> Result<((), Vec<()>), PolicyError> {
            Ok(((), vec![()]))
        }
        fn push((): &(), _: Option<&mut ()>, _: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            Wake::None
        }
        fn next((): &(), (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
            None
        }
        fn scan((): &(), (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
            None
        }
    }
    let error = Runtime::builder()
        .workers(2)
        .policy(Short)
        .build()
        .expect_err("one local for two workers");
    assert!(
        error.to_string().contains("1 local states for 2 workers"),
        "{error}"
    );
}

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
