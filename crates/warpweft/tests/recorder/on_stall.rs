//! Snapshots of the flight recorder that a stall or a signal asks for.

use crate::eventually::eventually;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use warpweft::{BuildError, Builder, EventKind, Runtime, Snapshot};

/// A worker without a CPU is reported after this time as well. It is longer than others keep the CPU from a
/// worker before it is in its task. A program that hears of stalls gets no text on the standard error stream.
fn watched() -> Builder {
    Runtime::builder()
        .workers(1)
        .stuck_after(Some(Duration::from_secs(1)))
        .on_stall(|_| ())
}

/// A path that no other test has.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("warpweft-{name}-{}", std::process::id()))
}

/// Runs a task that is stuck until `reported` returns true.
fn stuck_until(runtime: &Runtime, what: &str, reported: impl FnMut() -> bool) {
    let (go, may_go) = mpsc::channel::<()>();
    let job = runtime.spawn_job(move || may_go.recv().is_ok());
    eventually(what, reported);
    go.send(()).expect("it waits");
    assert!(job.wait().expect("no panic"));
}

#[test]
fn a_stall_leaves_a_trace_in_the_file() {
    let path = path("stall.pftrace");
    let runtime = watched().record_on_stall(&path).build().expect("a runtime");
    assert!(!path.exists(), "nothing has happened");
    // It is there under its name when it is complete.
    stuck_until(&runtime, "the file is there", || path.exists());
    let trace = std::fs::read(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file");
    // A packet of a trace begins with its tag.
    assert_eq!(trace[0], 0x0a);
    let has = |text: &str| trace.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has(runtime.name()), "the pool is missing");
    assert!(has("a job spawned at"), "the report is missing");
    if cfg!(target_os = "linux") {
        assert!(has("; it blocks in the kernel: "), "the thread is missing");
    }
}

#[test]
fn the_program_gets_the_stall_and_what_was_before() {
    let heard: Arc<Mutex<Vec<Snapshot>>> = Arc::default();
    let hears = Arc::clone(&heard);
    let tell = move |snapshot| hears.lock().expect("no panic").push(snapshot);
    let runtime = watched()
        .name("told")
        .record_on_stall_with(tell)
        .build()
        .expect("a runtime");
    runtime.recorder().record_steps(true);
    runtime.spawn_job(|| ()).wait().expect("no panic");
    let count = || heard.lock().expect("no panic").len();
    stuck_until(&runtime, "a snapshot", || count() == 1);
    let snapshot = heard.lock().expect("no panic")[0].clone();
    assert_eq!(snapshot.pools[0].name, "told");
    let has = |fits: &dyn Fn(&EventKind) -> bool| snapshot.events().any(|event| fits(&event.kind));
    assert!(
        has(&|kind| matches!(
            kind,
            EventKind::Stall {
                worker: 0,
                report: Some(_)
            }
        )),
        "{snapshot:?}"
    );
    assert!(
        has(&|kind| matches!(kind, EventKind::Begin { .. })),
        "{snapshot:?}"
    );
    // The next stall comes too soon after.
    let stalls = runtime.stalls();
    stuck_until(&runtime, "the next stall", || runtime.stalls() > stalls);
    drop(runtime);
    assert_eq!(count(), 1);
}

/// The monitor goes on while a snapshot is in the hands of the program, and the end of the pool waits for it.
#[test]
fn the_monitor_does_not_wait_for_a_snapshot() {
    let (go, may_go) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let done = Arc::new(Mutex::new(false));
    let is_done = Arc::clone(&done);
    let runtime = watched()
        .record_on_stall_with(move |_| {
            begun.send(()).expect("the test waits");
            may_go.lock().expect("no panic").recv().expect("the test says so");
            *is_done.lock().expect("no panic") = true;
        })
        .build()
        .expect("a runtime");
    stuck_until(&runtime, "a snapshot begins", || has_begun.try_recv().is_ok());
    let stalls = runtime.stalls();
    stuck_until(&runtime, "the next stall", || runtime.stalls() > stalls);
    go.send(()).expect("it waits");
    drop(runtime);
    assert!(*done.lock().expect("no panic"), "the end did not wait");
}

#[test]
fn a_file_that_cannot_be_made_is_an_error() {
    let folder = path("no-such-folder");
    for wrong in [folder.join("x"), std::env::temp_dir(), PathBuf::from("")] {
        let error = watched()
            .record_on_stall(&wrong)
            .build()
            .expect_err("it is no file");
        let BuildError::Record { path, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(*path, wrong);
        let text = error.to_string();
        assert!(
            text.starts_with(&format!(
                "the flight recorder cannot be written to `{}` when a stall is reported: ",
                wrong.display()
            )),
            "{text}"
        );
    }
}

#[cfg(all(unix, feature = "signal"))]
#[test]
fn a_signal_asks_for_a_snapshot_while_all_workers_are_stuck() {
    use std::process::{Command, id};
    let runtime = watched().name("asked").build().expect("a runtime");
    let (send, receive) = mpsc::channel();
    let snapshots = warpweft::signal::record_on_signal(&runtime, move |snapshot: Snapshot| {
        send.send(snapshot).expect("the test waits");
    });
    let snapshots = snapshots.expect("a handler");
    let mut seen = 0;
    stuck_until(&runtime, "two snapshots", || {
        let kill = Command::new("kill").args(["-USR1", &id().to_string()]).status();
        assert!(kill.expect("there is a command").success());
        let snapshot: Snapshot = receive.recv_timeout(Duration::from_secs(60)).expect("a snapshot");
        assert_eq!(snapshot.pools[0].name, "asked");
        seen += 1;
        seen == 2
    });
    drop(snapshots);
    assert!(receive.recv().is_err(), "the function is gone");
}

/// A compensating worker would find nothing, whether another worker sleeps or all of them are stuck. It comes
/// when there is something.
#[test]
fn no_worker_is_sent_while_nothing_is_queued() {
    for workers in [1, 2] {
        // Soon, so that there is time for many of them.
        let soon = Some(Duration::from_millis(100));
        let runtime = watched().workers(workers).stuck_after(soon).build();
        let runtime = runtime.expect("a runtime");
        let sent = || {
            let snapshot = runtime.recorder().snapshot();
            let is_sent = |event: &&warpweft::Event| matches!(event.kind, EventKind::Compensate { .. });
            snapshot.events().filter(is_sent).count()
        };
        let start = Instant::now();
        let stuck = || runtime.stalls() > 0 && start.elapsed() > Duration::from_millis(500);
        stuck_until(&runtime, "a stall without others", stuck);
        // One may be on its way when the task begins.
        assert!(sent() <= 3, "{} of {workers}", sent());
        let job = || runtime.spawn_job(|| 7).wait().expect("no panic");
        stuck_until(&runtime, "what comes later runs", || job() == 7);
        assert!(workers > 1 || sent() > 0);
    }
}
