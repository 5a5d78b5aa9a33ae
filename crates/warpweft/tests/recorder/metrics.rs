//! The numbers of a runtime.

use crate::eventually::eventually;
#[cfg(feature = "net")]
use std::future::pending;
use std::time::Duration;
use warpweft::sync::oneshot;
use warpweft::{EventKind, PolicySpec, Runtime, spawn, spawn_job};

#[cfg(feature = "net")]
#[test]
fn tasks_timers_and_closures_are_counted() {
    let runtime = Runtime::builder()
        .workers(1)
        .max_blocking_threads(1)
        // A worker without a CPU is counted as a stall after this time.
        .stuck_after(Some(Duration::from_secs(60)))
        .build()
        .expect("a runtime");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let blocking = runtime.spawn_blocking(move || stopped.recv().is_ok());
    let blocking = runtime.spawn(blocking);
    eventually("it runs", || runtime.first().metrics().tasks.blocking == 1);
    let queued = runtime.spawn(runtime.spawn_blocking(|| ()));
    let (sender, receiver) = oneshot::channel();
    let waits = runtime.spawn(async move { receiver.await.is_ok() });
    let sleeps = runtime.spawn(warpweft::time::sleep(Duration::from_secs(3600)));
    let fiber = runtime.spawn_fiber(|| warpweft::time::sleep(Duration::from_secs(3600)));
    drop(fiber);
    eventually("all wait", || {
        let pool = runtime.first().metrics();
        (
            pool.tasks.futures,
            pool.depths.timers,
            pool.tasks.blocking,
            pool.depths.blocking,
        ) == (4, 1, 1, 1)
    });
    let sleeping = runtime.spawn_fiber(|| warpweft::fiber::wait(pending::<()>()));
    let socket = runtime.block_on(async { warpweft::net::UdpSocket::bind(([127, 0, 0, 1], 0)) });
    let socket = socket.expect("a socket");
    eventually("the fiber waits", || {
        let tasks = runtime.first().metrics().tasks;
        (tasks.fibers, tasks.runnable) == (1, 0)
    });
    let metrics = runtime.metrics();
    let text = metrics.to_string();
    for part in [
        "4 futures",
        "1 fibers",
        "1 timers",
        "1 sockets",
        "0 shared; own 0",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let pool = &metrics.pools[0];
    assert_eq!((pool.tasks.fibers, pool.depths.sockets), (1, 1));
    drop(socket);
    eventually("it is closed", || runtime.first().metrics().depths.sockets == 0);
    assert_eq!(
        (pool.tasks.runnable, pool.threads.blocking, pool.stalls),
        (0, 1, 0)
    );
    sender.send(()).expect("it waits");
    stop.send(()).expect("it waits");
    assert!(waits.wait().expect("no panic"));
    drop((sleeps, blocking, queued, sleeping));
}

/// A worker is busy, and so all that is pushed stays where it is.
#[test]
fn queues_have_their_lengths() {
    for policy in [
        "fifo",
        "lifo",
        "tokio",
        "go",
        "libfibre",
        "cforall",
        "parsimonious",
        "prows",
        "negele",
        "priority:3",
    ] {
        let spec: PolicySpec = policy.parse().expect("a policy");
        let runtime = Runtime::builder()
            .workers(1)
            .policy_spec(spec)
            .stuck_after(None)
            .build()
            .expect("a runtime");
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let busy = runtime.spawn_job(move || {
            let own: Vec<_> = (0..10).map(|_| spawn_job(|| ())).collect();
            begun.send(()).expect("the test waits");
            may_go.recv().expect("the test says so");
            drop(own);
        });
        has_begun.recv().expect("it begins");
        let injected: Vec<_> = (0..7).map(|_| runtime.spawn_job(|| ())).collect();
        let pool = runtime.first().metrics();
        assert_eq!((pool.tasks.runnable, pool.tasks.jobs), (17, 1), "{policy}");
        let (shared, own) = (pool.depths.injector, pool.depths.local[0]);
        match policy {
            // One queue for all, whose length nobody counts.
            "negele" => assert_eq!((shared, own), (None, None)),
            // The owner alone knows its deque.
            "prows" => assert_eq!((shared, own), (Some(7), None)),
            // Each queue is a worker's.
            "libfibre" => assert_eq!((shared, own), (Some(0), Some(17))),
            // The latest one is in a slot that only its worker sees.
            "tokio" => assert_eq!((shared, own), (Some(7), Some(9))),
            _ => assert_eq!((shared, own), (Some(7), Some(10)), "{policy}"),
        }
        go.send(()).expect("it waits");
        busy.wait().expect("no panic");
        eventually("all have run", || {
            let pool = runtime.first().metrics();
            pool.tasks.runnable == 0 && pool.tasks.jobs == 0
        });
        drop(injected);
        let pool = runtime.first().clone();
        runtime.shutdown();
        let ended = pool.metrics();
        assert_eq!(
            (ended.depths.injector, &ended.depths.local[..]),
            (None, &[None][..])
        );
        assert!(ended.to_string().contains("? shared; own ?;"), "{ended}");
    }
}

/// A job that waits in the middle has begun, and so has a half of a join that another worker took.
#[test]
fn jobs_and_forks_that_have_begun_are_counted() {
    let runtime = Runtime::builder().workers(2).build().expect("a runtime");
    let (go, may_go) = oneshot::channel::<()>();
    let waits = runtime.spawn_job(move || warpweft::block_on(may_go).is_ok());
    eventually("the job waits", || {
        let pool = runtime.first().metrics();
        (pool.tasks.jobs, pool.threads.blocked) == (1, 1)
    });
    let (left, taken) = std::sync::mpsc::channel::<()>();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let forks = runtime
        .spawn_job(move || warpweft::join(move || taken.recv().is_ok(), move || is_done.recv().is_ok()));
    eventually("the second half is taken", || {
        let pool = runtime.first().metrics();
        (pool.tasks.jobs, pool.tasks.forks) == (2, 1)
    });
    let text = runtime.metrics().to_string();
    assert!(text.contains("2 jobs and 1 forks begun"), "{text}");
    done.send(()).expect("it waits");
    left.send(()).expect("it waits");
    assert_eq!(forks.wait().expect("no panic"), (true, true));
    go.send(()).expect("it waits");
    assert!(waits.wait().expect("no panic"));
    eventually("all have ended", || {
        let pool = runtime.first().metrics();
        (pool.tasks.jobs, pool.tasks.forks, pool.depths.forks) == (0, 0, 0)
    });
}

/// The other worker is busy, so the fork stays on offer.
#[test]
fn forks_on_offer_are_counted() {
    let runtime = Runtime::builder()
        .workers(2)
        .stuck_after(None)
        .build()
        .expect("a runtime");
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = std::sync::mpsc::channel::<()>();
    let busy = runtime.spawn_job(move || {
        begun.send(()).expect("the test waits");
        may_go.recv().is_ok()
    });
    has_begun.recv().expect("it begins");
    let pool = runtime.first().clone();
    let forks = runtime.spawn_job(move || warpweft::join(|| pool.metrics().depths.forks, || ()).0);
    assert_eq!(forks.wait().expect("no panic"), 1);
    go.send(()).expect("it waits");
    assert!(busy.wait().expect("no panic"));
}

#[test]
fn runnable_tasks_are_counted() {
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .build()
        .expect("a runtime");
    let counted = runtime.spawn(async {
        let pool = warpweft::Pool::current().expect("inside");
        let handles: Vec<_> = (0..100).map(|_| spawn_job(|| ())).collect();
        // The thread that spawned this task counts it when its push is over, which may be a moment later.
        eventually("all are counted", || pool.metrics().tasks.runnable == 100);
        drop(handles);
    });
    counted.wait().expect("no panic");
    eventually("all have run", || runtime.first().metrics().tasks.runnable == 0);
}

#[test]
fn delays_and_run_times_are_measured_by_class() {
    let spec: PolicySpec = "priority:3".parse().expect("a policy");
    let runtime = Runtime::builder()
        .workers(1)
        .policy_spec(spec)
        .build()
        .expect("a runtime");
    assert!(runtime.metrics().pools[0].classes.is_empty());
    runtime.recorder().measure_steps(true);
    assert!(runtime.recorder().measures_steps() && !runtime.recorder().records_steps());
    let urgent = runtime.priority(0).expect("there are three");
    let long = Duration::from_millis(5);
    let root = runtime.spawn(async move {
        let busy = move || {
            let start = std::time::Instant::now();
            while start.elapsed() < long {}
        };
        let first: Vec<_> = (0..3).map(|_| spawn_job(busy)).collect();
        let last = warpweft::TaskBuilder::new().priority(urgent).spawn_job(|| ());
        for handle in first {
            handle.await.expect("no panic");
        }
        last.await.expect("no panic");
        for _ in 0..10 {
            spawn(async {}).await.expect("no panic");
        }
    });
    root.wait().expect("no panic");
    // The last step's end is measured with the next boundary.
    eventually("it is measured", || {
        runtime.metrics().pools[0]
            .classes
            .iter()
            .any(|class| class.run_time.count() > 13)
    });
    let metrics = runtime.metrics();
    let classes = &metrics.pools[0].classes;
    assert_eq!(
        classes.iter().map(|class| class.priority).collect::<Vec<_>>(),
        [None, Some(0), Some(1), Some(2)]
    );
    let (normal, urgent) = (&classes[0], &classes[1]);
    assert_eq!(urgent.run_time.count(), 1);
    assert!(normal.run_time.quantile(1.0) >= long, "{metrics}");
    assert!(normal.run_time.sum() >= long * 3);
    // Each of the three waits for the ones before it.
    assert!(normal.queue_delay.quantile(1.0) >= long * 2, "{metrics}");
    assert!(normal.wake_to_run.count() > 0, "{metrics}");
    assert!(metrics.to_string().contains("run time"), "{metrics}");
}

/// What is recorded alone takes a shorter way, which must not be taken here.
#[test]
fn steps_are_recorded_and_measured_together() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let recorder = runtime.recorder();
    let jobs = |count: u64| {
        let root = async move {
            for _ in 0..count {
                let builder = warpweft::TaskBuilder::new().name("job");
                builder.spawn_job(|| ()).await.expect("no panic");
            }
        };
        runtime.spawn(root).wait().expect("no panic");
    };
    let measured = || {
        let metrics = runtime.metrics();
        let classes = &metrics.pools[0].classes;
        let [runs, delays] = [
            classes.iter().map(|class| class.run_time.count()).sum::<u64>(),
            classes.iter().map(|class| class.queue_delay.count()).sum(),
        ];
        (runs, delays)
    };
    recorder.record_steps(true);
    recorder.measure_steps(true);
    jobs(1000);
    eventually("all are measured", || {
        let (runs, delays) = measured();
        runs > 2000 && delays >= 1000
    });
    let begins = |snapshot: &warpweft::Snapshot| {
        let is_begin = |kind: &EventKind| match kind {
            EventKind::Begin { site: Some(site), .. } => site.name.as_deref() == Some("job"),
            _ => false,
        };
        snapshot.events().filter(|event| is_begin(&event.kind)).count()
    };
    assert_eq!(begins(&recorder.snapshot()), 1000);
    // The worker may measure a few more steps until it looks at the mode.
    recorder.measure_steps(false);
    let before = measured();
    jobs(1000);
    let after = measured();
    assert!(
        after.0 < before.0 + 200 && after.1 < before.1 + 200,
        "{before:?} {after:?}"
    );
    assert_eq!(begins(&recorder.snapshot()), 2000);
}

#[test]
fn workers_that_sleep_are_not_busy() {
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .build()
        .expect("a runtime");
    eventually("the worker sleeps", || runtime.idle_workers().1 == 1);
    // A busy machine may stop it on its way to sleep. Then it was awake in the first window.
    eventually("a window in which it slept all the time, rounding aside", || {
        let before = runtime.first().metrics();
        std::thread::sleep(Duration::from_millis(60));
        let after = runtime.first().metrics();
        assert!(after.age >= before.age + Duration::from_millis(60));
        after.busy[0] < before.busy[0] + Duration::from_millis(30)
    });
    let after = runtime.first().metrics();
    let busy = Duration::from_millis(30);
    let job = move || {
        let start = std::time::Instant::now();
        while start.elapsed() < busy {}
    };
    runtime.spawn_job(job).wait().expect("no panic");
    let worked = runtime.first().metrics();
    assert!(
        worked.busy[0] + Duration::from_millis(1) >= after.busy[0] + busy,
        "{worked}"
    );
    assert!(worked.utilisation() > 0.0 && worked.utilisation() <= 1.0);
}
