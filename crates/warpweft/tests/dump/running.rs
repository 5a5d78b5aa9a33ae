//! For how long tasks that run have done so.

use super::dump_with;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use warpweft::{Dump, Runtime, TaskBuilder, TaskDump, TaskState, WaitsFor};

const A_WHILE: Duration = Duration::from_millis(60);

fn named<'a>(dump: &'a Dump, name: &str) -> Option<&'a TaskDump> {
    dump.tasks.iter().find(|task| task.name.as_deref() == Some(name))
}

/// A closure that keeps its worker until the value says so.
fn runs_until(stop: &Arc<AtomicBool>) -> impl FnOnce() + Send + use<> {
    let stop = Arc::clone(stop);
    move || {
        while !stop.load(SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
fn a_task_that_runs_for_long_says_for_how_long() {
    let runtime = Runtime::builder()
        .workers(2)
        .stuck_after(Some(Duration::from_millis(5)))
        .report_stalls_after(None)
        .build()
        .expect("a runtime");
    let stop = Arc::new(AtomicBool::new(false));
    let body = || runs_until(&stop);
    let start = Instant::now();
    let builder = |name: &'static str| TaskBuilder::new().name(name).on(&runtime);
    let job = builder("job").spawn_job(body());
    let fiber = {
        let body = body();
        builder("fiber").spawn_fiber(move || {
            // Afterwards it is known to the fibers' register, and not by its worker.
            warpweft::fiber::yield_now();
            warpweft::block_on(warpweft::time::sleep(Duration::from_millis(1)));
            body();
        })
    };
    for name in ["job", "fiber"] {
        let is_old = |dump: &Dump| {
            named(dump, name)
                .and_then(|task| task.since)
                .is_some_and(|since| since >= A_WHILE)
        };
        let dump = dump_with(name, &runtime, is_old);
        let elapsed = start.elapsed();
        let task = named(&dump, name).expect("it runs");
        assert!(matches!(task.state, TaskState::Running(Some(_))), "{dump}");
        assert!(task.since.is_some_and(|since| since <= elapsed), "{dump}");
        assert!(task.to_string().contains("running on worker"), "{task}");
        assert!(task.to_string().contains(" ms"), "{task}");
    }
    stop.store(true, SeqCst);
    job.wait().expect("no panic");
    fiber.wait().expect("no panic");

    // Each step of a task that comes back is short.
    let stop = Arc::new(AtomicBool::new(false));
    let yields = Arc::clone(&stop);
    let task = builder("short").spawn(async move {
        while !yields.load(SeqCst) {
            warpweft::yield_now().await;
        }
    });
    let start = Instant::now();
    while start.elapsed() < A_WHILE {
        let dump = runtime.dump();
        let since = named(&dump, "short").and_then(|task| task.since);
        assert!(
            since.is_none_or(|since| since < start.elapsed() + A_WHILE / 2),
            "{dump}"
        );
    }
    stop.store(true, SeqCst);
    task.wait().expect("no panic");
}

/// The wait of the task or thread with that name for a task whose end it awaits.
fn awaited<'a>(dump: &'a Dump, name: &str) -> Option<&'a TaskDump> {
    match named(dump, name)?.waits.as_slice() {
        [wait] if wait.on == WaitsFor::Join => match wait.holders.as_slice() {
            [awaited] => Some(&dump.tasks[*awaited]),
            _ => None,
        },
        _ => None,
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_wait_for_a_task_that_runs_or_is_queued_is_known() {
    let runtime = Runtime::builder()
        .workers(5)
        .stuck_after(None)
        .report_stalls_after(None)
        .build()
        .expect("a runtime");
    let stop = Arc::new(AtomicBool::new(false));
    let body = || runs_until(&stop);
    let builder = |name: &'static str| TaskBuilder::new().name(name).on(&runtime);
    let job = builder("job").spawn_job(body());
    let future = {
        let body = body();
        builder("future").spawn(async move { body() })
    };
    // The pool and the worker have it. It is one wait.
    let again = {
        let body = body();
        builder("again").spawn(async move {
            warpweft::yield_now().await;
            body();
        })
    };
    let blocks = {
        let body = body();
        builder("blocks").spawn_job(move || warpweft::blocking(body))
    };
    let awaits = [
        builder("awaits job").spawn(async { job.await.is_ok() }),
        builder("awaits future").spawn(async { future.await.is_ok() }),
        builder("awaits again").spawn(async { again.await.is_ok() }),
        builder("awaits blocks").spawn(async { blocks.await.is_ok() }),
    ];
    for (name, kind) in [
        ("awaits job", "job"),
        ("awaits future", "future"),
        ("awaits again", "again"),
        ("awaits blocks", "blocks"),
    ] {
        let is_known = |dump: &Dump| {
            awaited(dump, name).is_some_and(|task| {
                let runs = !matches!(task.state, TaskState::Queued | TaskState::Waiting);
                runs && task.name.as_deref() == Some(kind)
            })
        };
        dump_with(name, &runtime, is_known);
    }
    // The other workers.
    let (kept, queued) = (
        [(); 2].map(|()| builder("kept").spawn_job(body())),
        builder("queued").spawn_job(|| ()),
    );
    let thread = std::thread::Builder::new().name("awaits queued".into());
    let thread = thread.spawn(move || queued.wait().is_ok()).expect("a thread");
    let is_known =
        |dump: &Dump| awaited(dump, "awaits queued").is_some_and(|task| task.state == TaskState::Queued);
    dump_with("a thread awaits a task in a queue", &runtime, is_known);
    stop.store(true, SeqCst);
    assert!(awaits.into_iter().all(|task| matches!(task.wait(), Ok(true))));
    assert!(kept.into_iter().all(|task| task.wait().is_ok()));
    assert!(thread.join().expect("no panic"));
}

/// It is the most frequent wait of a server: for a closure that calls a database or reads a file.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_wait_for_a_closure_of_spawn_blocking_that_runs_is_known() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let stop = Arc::new(AtomicBool::new(false));
    let body = || runs_until(&stop);
    let builder = |name: &'static str| TaskBuilder::new().name(name).on(&runtime);
    let (of_future, of_fiber, of_handle) = (body(), body(), body());
    let (go_on, waits) = warpweft::sync::oneshot::channel::<()>();
    let tasks = [
        builder("future").spawn(async { warpweft::spawn_blocking(of_future).await.is_ok() }),
        builder("fiber").spawn_fiber(|| warpweft::spawn_blocking(of_fiber).wait().is_ok()),
        builder("handle").spawn(async {
            let handle = warpweft::spawn_blocking(of_handle).admitted().await;
            handle.expect("there is room").await.is_ok()
        }),
        builder("waits").spawn(async { warpweft::spawn_blocking(|| waits.wait()).await.is_ok() }),
    ];
    for name in ["future", "fiber", "handle", "waits"] {
        let is_known = |dump: &Dump| {
            awaited(dump, name).is_some_and(|task| {
                let waits = !task.waits.is_empty();
                task.state == TaskState::SpawnedBlocking && waits == (name == "waits")
            })
        };
        let dump = dump_with(name, &runtime, is_known);
        assert!(
            dump.findings.iter().all(|finding| !finding.is_certain()),
            "{dump}"
        );
    }
    stop.store(true, SeqCst);
    drop(go_on);
    assert!(tasks.into_iter().all(|task| matches!(task.wait(), Ok(true))));
}

#[test]
fn a_thread_that_waits_again_is_not_called_queued() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let (send, receive) = warpweft::sync::channel::unbounded::<u32>();
    std::thread::scope(|scope| {
        let waits = || {
            runtime.block_on(async {
                warpweft::time::sleep(Duration::from_millis(1)).await;
                receive.recv().await
            })
        };
        let thread = std::thread::Builder::new()
            .name("waits again".into())
            .spawn_scoped(scope, waits);
        let waits_again = |dump: &Dump| {
            let waits = |task: &TaskDump| matches!(&*task.waits, [wait] if matches!(wait.on, WaitsFor::Receive { .. }));
            named(dump, "waits again").is_some_and(waits)
        };
        let dump = dump_with("it waits again", &runtime, waits_again);
        assert_eq!(
            named(&dump, "waits again").map(|task| task.state),
            Some(TaskState::Waiting),
            "{dump}"
        );
        send.try_send(7).expect("there is room");
        assert_eq!(thread.expect("a thread").join().expect("no panic"), Ok(7));
    });
}

#[test]
fn a_fiber_that_was_woken_behind_a_stuck_thread_is_queued() {
    let runtime = Runtime::builder()
        .workers(1)
        .report_stalls_after(None)
        .build()
        .expect("a runtime");
    let builder = |name: &'static str| TaskBuilder::new().name(name).on(&runtime);
    let (go_on, waits) = warpweft::sync::oneshot::channel();
    let fiber = builder("fiber").spawn_fiber(move || waits.wait());
    let is_waiting = |dump: &Dump| named(dump, "fiber").is_some_and(|task| task.state == TaskState::Waiting);
    dump_with("it waits", &runtime, is_waiting);
    let stop = Arc::new(AtomicBool::new(false));
    let stuck = builder("stuck").spawn_job(runs_until(&stop));
    dump_with("it is stuck", &runtime, |dump| named(dump, "stuck").is_some());
    go_on.send(7).expect("the fiber waits");
    let dump = runtime.dump();
    assert_eq!(
        named(&dump, "fiber").map(|task| task.state),
        Some(TaskState::Queued),
        "{dump}"
    );
    stop.store(true, SeqCst);
    assert!(stuck.wait().is_ok());
    assert!(matches!(fiber.wait(), Ok(Ok(7))));
}
