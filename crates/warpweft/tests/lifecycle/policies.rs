//! Policies that misbehave.

use super::in_time;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::policy::{Count, Cx, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why, WorkerId};
use warpweft::{JoinError, Policy, Runtime, SpawnError, spawn_job, yield_now};
use warpweft_queue::Locked;

/// One queue for all. Its hooks do what the test says.
struct Central<H>(Arc<H>);

trait Hooks: Send + Sync + 'static {
    /// Called with every runnable that is pushed; the policy keeps what it returns.
    fn push(&self, task: TaskRef) -> Option<TaskRef> {
        Some(task)
    }
    fn next(&self) {}
    fn scan(&self) {}
    fn queued(&self) {}
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

    fn queued(shared: &Self::Shared, _: WorkerId) -> Option<usize> {
        shared.1.queued();
        None
    }
}

/// Who asks may be a thread that must not unwind, such as the monitor.
#[test]
fn a_look_at_queues_that_panics_closes_the_pool_and_not_who_looks() {
    struct Queued;
    impl Hooks for Queued {
        fn queued(&self) {
            panic!("the policy's queued panics");
        }
    }
    let runtime = Runtime::builder().workers(1).policy(Central(Arc::new(Queued)));
    let runtime = runtime.build().expect("one worker");
    assert_eq!(
        runtime.metrics().pools[0].depths.local,
        [None],
        "nothing is known"
    );
    assert!(runtime.first().is_closed());
    let fault = runtime.first().fault().map(str::to_owned);
    assert!(fault.is_some_and(|fault| fault.contains("a hook of its policy panicked")));
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

/// What a hook panics with may panic in its own `Drop`: on a worker's thread, and on one that waits.
#[test]
fn a_hook_whose_panic_panics_again_ends_its_pool_and_nothing_hangs() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("and its payload panics");
        }
    }
    struct Bombs(AtomicUsize);
    impl Hooks for Bombs {
        fn next(&self) {
            if self.0.fetch_add(1, Ordering::Relaxed) == 5 {
                std::panic::panic_any(Bomb);
            }
        }
    }
    in_time(|| {
        for max_threads in [1, 8] {
            let policy = Central(Arc::new(Bombs(AtomicUsize::new(0))));
            let builder = Runtime::builder().workers(1).max_threads(max_threads);
            let runtime = builder.policy(policy).build().expect("one worker");
            let jobs: Vec<_> = (0..20)
                .map(|_| runtime.spawn_job(|| spawn_job(|| ()).wait().is_ok()))
                .collect();
            for job in jobs {
                drop(job.wait());
            }
            assert!(runtime.first().is_closed());
        }
    });
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
