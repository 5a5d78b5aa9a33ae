//! Admission by delay, and the wait for a permit with a limit.

use super::eventually::eventually;
use super::of;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::cancel::CancelToken;
use warpweft::sync::oneshot;
use warpweft::{
    AdmissionControl, BuildError, Builder, JoinHandle, Overload, Pool, QueueDelay, QueueDelayError, Runtime,
    SpawnError, TaskBuilder,
};

const TARGET: Duration = Duration::from_millis(2);
/// Longer than a busy machine stops a test: two spawns in a row are within it.
const INTERVAL: Duration = Duration::from_secs(1);

/// A pool of one worker, which is not replaced when it is stuck.
fn one(policy: &str) -> Builder {
    let delay = QueueDelay::new().target(TARGET).interval(INTERVAL);
    of(1, policy).name("web").stuck_after(None).admission(delay)
}

fn control(runtime: &Runtime) -> AdmissionControl {
    runtime.first().admission().expect("the builder says so")
}

/// Keeps the only worker busy until the sender is dropped.
fn keep_busy(runtime: &Runtime) -> std::sync::mpsc::Sender<()> {
    let (release, released) = std::sync::mpsc::channel();
    let (tell, told) = std::sync::mpsc::channel::<()>();
    runtime.spawn_detached(move || {
        drop(tell);
        let _ = released.recv();
    });
    let _ = told.recv();
    release
}

fn overload(error: SpawnError) -> Overload {
    match error {
        SpawnError::Overloaded(overload) => *overload,
        other => panic!("{other}"),
    }
}

#[test]
fn who_would_start_too_late_is_refused_until_it_is_better() {
    let runtime = one("fifo").build().expect("a small pool");
    let release = keep_busy(&runtime);
    let first = runtime.try_spawn_job(|| 1).expect("none waits");
    let second = runtime.try_spawn(async { 2 }).expect("no overload");
    thread::sleep(TARGET + INTERVAL);
    let error = runtime.try_spawn(async {}).map(drop).expect_err("nothing starts");
    assert!(
        error
            .to_string()
            .starts_with("the pool `web` is overloaded: a task waits "),
        "{error}"
    );
    let overload = overload(error);
    assert_eq!((&*overload.pool, overload.priority), ("web", None));
    assert!(overload.delay >= TARGET + INTERVAL, "{overload:?}");
    assert_eq!((overload.target, overload.interval), (TARGET, INTERVAL));

    let pool = runtime.first();
    let limit = pool.concurrency_limit(5).expect("more than 0");
    let refused = [
        pool.try_spawn_job(|| ()),
        pool.try_spawn_fiber(|| ()),
        pool.try_spawn_local(|| async {}),
        limit.try_spawn(async {}),
        limit.try_spawn_job(|| ()),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(SpawnError::Overloaded(_))), "{refused:?}");
    }
    assert_eq!(limit.free(), 5);
    let stats = control(&runtime).stats();
    assert_eq!((stats.admitted, stats.refused, stats.waiting), (2, 6, 2));
    assert!(stats.is_overloaded);

    // A plain spawn is not refused.
    let plain = runtime.spawn(async { 3 });
    drop(release);
    let results = [first.wait(), second.wait(), plain.wait()];
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    // None waits any more.
    assert_eq!(runtime.try_spawn_fiber(|| 4).expect("one").wait().ok(), Some(4));
    thread::sleep(INTERVAL);
    assert_eq!(
        runtime.try_spawn_local(|| async { 5 }).expect("one").wait().ok(),
        Some(5)
    );
    let stats = control(&runtime).stats();
    assert_eq!((stats.waiting, stats.shed, stats.is_overloaded), (0, 0, false));
}

type TrySpawn = fn(&Pool) -> Result<JoinHandle<()>, SpawnError>;

/// A spawn of each kind of task that asks for admission.
const SPAWNS: [TrySpawn; 4] = [
    |pool| pool.try_spawn(async {}),
    |pool| pool.try_spawn_job(|| ()),
    |pool| pool.try_spawn_fiber(|| ()),
    |pool| pool.try_spawn_local(|| async {}),
];

#[test]
fn each_kind_of_task_says_when_it_starts() {
    let runtime = one("fifo").build().expect("a small pool");
    let pool = runtime.first().clone();
    for (kind, spawn) in SPAWNS.into_iter().enumerate() {
        let release = keep_busy(&runtime);
        let task = spawn(&pool).expect("none waits");
        assert_eq!(control(&runtime).stats().waiting, 1);
        thread::sleep(TARGET);
        drop(release);
        assert!(task.wait().is_ok());
        let stats = control(&runtime).stats();
        assert!(stats.waiting == 0 && stats.delay >= TARGET, "{kind}: {stats:?}");
        // Meanwhile one starts at once, on a busy machine the second or third one.
        eventually("one starts at once", || {
            assert!(pool.try_spawn(async {}).expect("none waits").wait().is_ok());
            control(&runtime).stats().delay < stats.delay
        });
    }
}

#[test]
fn what_is_cancelled_before_it_starts_is_not_measured() {
    let runtime = one("fifo").build().expect("a small pool");
    let pool = runtime.first().clone();
    for (kind, spawn) in SPAWNS.into_iter().enumerate() {
        let release = keep_busy(&runtime);
        let token = CancelToken::new();
        let task = token.run(|| spawn(&pool)).expect("not yet").expect("none waits");
        thread::sleep(TARGET);
        token.cancel();
        drop(release);
        assert!(task.wait().is_err());
        let stats = control(&runtime).stats();
        assert_eq!((stats.waiting, stats.delay), (0, Duration::ZERO), "{kind}");
    }
}

#[test]
fn each_priority_is_admitted_by_its_own_delays() {
    let runtime = one("priority:3").build().expect("a small pool");
    let [urgent, _, background] = [0, 1, 2].map(|level| runtime.priority(level).expect("there are three"));
    let release = keep_busy(&runtime);
    let spawn = |priority| {
        let builder = TaskBuilder::new().on(&runtime).priority(priority);
        builder.try_spawn(async {})
    };
    let first = spawn(background).expect("none waits");
    thread::sleep(TARGET + INTERVAL);
    let error = spawn(background).map(drop).expect_err("nothing starts");
    assert!(
        error.to_string().contains("a task of priority 2 waits"),
        "{error}"
    );
    assert_eq!(overload(error).priority, Some(2));
    spawn(urgent).expect("it is another class").detach();
    runtime.try_spawn(async {}).expect("and so is this").detach();
    let refused = |priority| control(&runtime).with_priority(priority).stats().refused;
    assert_eq!((refused(background), refused(urgent)), (1, 0));
    drop(release);
    assert!(first.wait().is_ok());
}

#[test]
fn a_child_is_of_the_class_that_it_inherits() {
    let runtime = Arc::new(one("priority:2").build().expect("a small pool"));
    let priority = runtime.priority(1).expect("there are two");
    let pool = runtime.first().clone();
    let parent = TaskBuilder::new()
        .on(&runtime)
        .priority(priority)
        .spawn_job(move || {
            let child = pool.try_spawn_job(|| ());
            child.map(drop)
        });
    assert_eq!(parent.wait().expect("no panic"), Ok(()));
    assert_eq!(control(&runtime).with_priority(priority).stats().admitted, 1);
    assert_eq!(control(&runtime).stats().admitted, 0);
}

#[test]
fn delays_that_cannot_be_kept_are_errors() {
    let build = |target, interval| {
        let delay = QueueDelay::new()
            .target(Duration::from_millis(target))
            .interval(Duration::from_millis(interval));
        Runtime::builder().workers(1).admission(delay).build()
    };
    for (target, interval, words) in [
        (0, 100, "a target of 0"),
        (5, 0, "an interval of 0"),
        (101, 100, "a target of 101ms, above its interval of 100ms"),
    ] {
        let error = build(target, interval).map(drop).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
        assert!(matches!(error, BuildError::Admission(_)));
    }
    assert!(matches!(
        build(0, 0).map(drop),
        Err(BuildError::Admission(QueueDelayError::Target))
    ));
    assert!(build(100, 100).is_ok());
    assert!(
        Runtime::builder()
            .workers(1)
            .build()
            .is_ok_and(|runtime| runtime.first().admission().is_none())
    );
}

#[test]
fn who_is_refused_takes_no_permit() {
    let runtime = one("fifo").capacity(3).build().expect("a small pool");
    let release = keep_busy(&runtime);
    let first = runtime.try_spawn(async {}).expect("none waits");
    thread::sleep(TARGET + INTERVAL);
    for _ in 0..5 {
        overload(runtime.try_spawn(async {}).map(drop).expect_err("nothing starts"));
    }
    assert_eq!(runtime.first().free_places(), Some(2));
    drop(release);
    assert!(first.wait().is_ok());
}

#[test]
fn who_gets_no_permit_does_not_wait() {
    let runtime = one("fifo").capacity(1).build().expect("a small pool");
    let release = keep_busy(&runtime);
    let first = runtime.try_spawn(async {}).expect("it is free");
    assert!(matches!(
        runtime.try_spawn(async {}),
        Err(SpawnError::Full { .. })
    ));
    assert_eq!(control(&runtime).stats().waiting, 1);
    drop(release);
    assert!(first.wait().is_ok());
}

#[test]
fn a_closed_pool_says_that_it_is_closed() {
    let runtime = one("fifo").build().expect("a small pool");
    let pool = runtime.first().clone();
    let admission = control(&runtime);
    let release = keep_busy(&runtime);
    let waiting = runtime.try_spawn(async {}).expect("none waits");
    thread::sleep(TARGET + INTERVAL);
    overload(pool.try_spawn(async {}).map(drop).expect_err("nothing starts"));
    let end = thread::spawn(move || drop(runtime));
    while !pool.is_closed() {
        thread::yield_now();
    }
    assert!(matches!(pool.try_spawn(async {}), Err(SpawnError::Closed)));
    drop(release);
    end.join().expect("no panic");
    assert!(waiting.wait().is_err());
    assert_eq!(admission.stats().waiting, 0, "it was dropped before it started");
}

/// Twelve times as many as a worker can run come in bursts, so that there are too many also where the thread
/// that spawns them gets a CPU late.
#[test]
fn a_flood_neither_fills_memory_nor_stops_the_work() {
    const TASK: Duration = Duration::from_micros(200);
    const BURST: usize = 300;
    const PAUSE: Duration = Duration::from_millis(5);
    const INTERVAL: Duration = Duration::from_millis(100);
    let delay = QueueDelay::new().target(INTERVAL / 10).interval(INTERVAL);
    let runtime = of(1, "fifo").stuck_after(None).admission(delay).build();
    let runtime = runtime.expect("a small pool");
    let ran = Arc::new(AtomicUsize::new(0));
    let (mut most, mut refused, mut measured) = (0, 0, 0);
    let start = Instant::now();
    // It is measured while there is an overload all the time, and after what was let in before it has been
    // worked off. An interval without a refusal, because the machine has stopped this thread, ends it.
    let (mut is_worked_off, mut last) = (false, start);
    while measured < 100 && start.elapsed() < Duration::from_secs(60) {
        for _ in 0..BURST {
            let ran = Arc::clone(&ran);
            let job = move || {
                let start = Instant::now();
                while start.elapsed() < TASK {
                    std::hint::spin_loop();
                }
                ran.fetch_add(1, Ordering::Relaxed);
            };
            match runtime.try_spawn_job(job) {
                Ok(handle) => handle.detach(),
                Err(error) => {
                    overload(error);
                    refused += 1;
                }
            }
        }
        let stats = control(&runtime).stats();
        let now = Instant::now();
        let is_overload = stats.is_overloaded && now - last < INTERVAL / 2;
        last = now;
        is_worked_off = is_overload && (is_worked_off || stats.waiting < 100);
        if is_worked_off {
            most = most.max(stats.waiting);
            measured += 1;
        }
        thread::sleep(PAUSE);
    }
    assert!(refused > 100, "{refused}");
    // Fifty fit into the target.
    assert!(measured > 0 && most < 200, "{most} in {measured} looks");
    let ran = ran.load(Ordering::Relaxed);
    assert!(ran > 200, "{ran}");
}

#[test]
fn the_wait_for_a_permit_has_a_limit() {
    for workers in [1, 2] {
        let runtime = of(workers, "fifo").capacity(1).build().expect("a small pool");
        let pool = runtime.first().clone();
        let (open, opened) = oneshot::channel::<()>();
        pool.block_on(async {
            let first = pool
                .spawn_within(Duration::ZERO, async move { opened.await.is_err() })
                .await;
            let first = first.expect("it is free");
            let start = Instant::now();
            let refused = pool.spawn_within(TARGET, async {}).await;
            let error = refused.map(drop).expect_err("it is full");
            assert!(
                error.to_string().starts_with(
                    "the one place of the bounded pool `warpweft` is taken: come back later, or wait "
                ),
                "{error}"
            );
            assert!(start.elapsed() >= TARGET);
            let second = pool.spawn_within(Duration::from_secs(60), async { 2 });
            drop(open);
            assert_eq!(second.await.expect("the first one ends").await.ok(), Some(2));
            assert_eq!(first.await.ok(), Some(true));
        });
        assert_eq!(pool.free_places(), Some(1), "who gave up took none");
    }
}
