//! Runtimes in which nothing can go on, and such that only look so.

use super::{accusations, dump_with, idle, named, runtime};
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;
use warpweft::cancel::CancelToken;
use warpweft::sync::{Barrier, Notify, Semaphore, channel, oneshot};
use warpweft::{Dump, TaskBuilder, TaskState, WaitsFor};

/// The kinds of waits of the task with this name.
fn waits(dump: &Dump, name: &str) -> Vec<WaitsFor> {
    let is_it = |task: &&warpweft::TaskDump| task.name.as_deref() == Some(name);
    let tasks = dump.tasks.iter().filter(is_it);
    tasks
        .flat_map(|task| &task.waits)
        .map(|wait| wait.on.clone())
        .collect()
}

/// What is forgotten in each of these tasks leads to no other task.
#[test]
fn what_was_forgotten_is_named() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (sender, receiver) = channel::bounded::<u32>(1);
    let ((promise, promised), line) = (oneshot::channel::<u32>(), line!());
    let (barrier, notify) = (Arc::new(Barrier::new(3)), Arc::new(Notify::new()));
    let semaphore = Arc::new(Semaphore::new(1));
    semaphore.try_acquire(1).expect("it is free").forget();
    let (arrives, other) = (barrier.clone(), barrier.clone());
    drop(named(&runtime, "receives").spawn(async move { receiver.recv().await }));
    drop(named(&runtime, "promised").spawn(promised));
    drop(named(&runtime, "arrives").spawn(async move { arrives.arrive().await }));
    drop(named(&runtime, "arrives, too").spawn_fiber(move || other.arrive().wait()));
    let waits_on = notify.clone();
    drop(named(&runtime, "notified").spawn_job(move || waits_on.notified().wait()));
    drop(named(&runtime, "permitted").spawn(async move { drop(semaphore.acquire(1).await) }));
    let dump = dump_with("the finding", &runtime, |dump| {
        idle(dump).is_some_and(|names| names.len() == 6)
    });
    let all = [
        "arrives",
        "arrives, too",
        "notified",
        "permitted",
        "promised",
        "receives",
    ];
    assert_eq!(idle(&dump), Some(all.map(String::from).into()), "{dump}");
    assert_eq!(accusations(&dump), [], "{dump}");
    assert_eq!(
        waits(&dump, "arrives"),
        [WaitsFor::Barrier { arrived: 2, size: 3 }]
    );
    let [WaitsFor::Event { kind, last, made_at }] = &waits(&dump, "promised")[..] else {
        panic!("one event: {dump}");
    };
    assert_eq!((*kind, last), ("oneshot channel", &None), "{dump}");
    assert_eq!(made_at.map(Location::line), Some(line), "{dump}");
    let text = dump.to_string();
    assert!(
        text.contains("NOTHING HERE CAN GO ON, unless a thread outside of the runtime acts: 6 tasks wait"),
        "{text}"
    );
    assert!(
        text.contains("waits for a barrier at which 2 of 3 have arrived"),
        "{text}"
    );
    assert!(dump.to_json().contains("\"finding\":\"nothing_runs\""), "{dump}");
    drop((sender, promise));
}

/// One task with a way out may wake all the others.
#[test]
fn a_timer_a_running_task_or_a_blocking_closure_can_go_on() {
    for what in 0..4 {
        let runtime = runtime(2);
        let notify = Arc::new(Notify::new());
        let waiting = notify.clone();
        let waits = named(&runtime, "waits").spawn(async move { waiting.notified().await });
        let (release, stuck) = std::sync::mpsc::channel::<()>();
        let wakes = match what {
            0 => runtime.spawn(async move {
                warpweft::time::sleep(Duration::from_millis(400)).await;
                notify.notify_one();
                let _ = stuck;
            }),
            1 => runtime.spawn_job(move || {
                let _ = stuck.recv();
                notify.notify_one();
            }),
            2 => runtime.spawn_job(move || {
                let _ = warpweft::blocking(|| stuck.recv());
                notify.notify_one();
            }),
            _ => {
                let closure = runtime.spawn_blocking(move || {
                    let _ = stuck.recv();
                    notify.notify_one();
                });
                runtime.spawn(async move { drop(closure.await) })
            }
        };
        std::thread::sleep(Duration::from_millis(200));
        let dump = runtime.dump();
        assert_eq!(idle(&dump), None, "{what}: {dump}");
        drop(release);
        wakes.wait().expect("no panic");
        waits.wait().expect("no panic");
    }
}

/// A thread outside that has notified once may do so again.
#[test]
fn what_is_used_from_outside_is_not_named() {
    let runtime = runtime(2);
    let notify = Arc::new(Notify::new());
    let waiting = notify.clone();
    let task = named(&runtime, "waits").spawn(async move {
        waiting.notified().await;
        waiting.notified().await;
    });
    notify.notify_one();
    let waits = |dump: &Dump| dump.tasks.iter().any(|task| task.state == TaskState::Waiting);
    dump_with("it waits", &runtime, waits);
    std::thread::sleep(Duration::from_millis(200));
    let dump = runtime.dump();
    assert_eq!(dump.findings, [], "{dump}");
    notify.notify_one();
    task.wait().expect("no panic");
}

/// A runtime with nothing to do is no finding.
#[test]
fn an_empty_runtime_is_not_named() {
    let runtime = runtime(2);
    runtime.spawn(async {}).wait().expect("no panic");
    std::thread::sleep(Duration::from_millis(150));
    let dump = runtime.dump();
    assert_eq!(dump.findings, []);
    assert!(dump.tasks.iter().all(|task| task.pool.is_none()), "{dump}");
}

#[test]
fn a_task_that_waits_for_a_cancellation_says_so_and_is_not_accused() {
    let runtime = runtime(2);
    let token = CancelToken::new();
    let listens = token.clone();
    let task = TaskBuilder::new()
        .name("listens")
        .on(&runtime)
        .spawn(async move { listens.cancelled().await });
    let listens = |dump: &Dump| {
        let waits = dump
            .tasks
            .iter()
            .filter(|task| task.name.as_deref() == Some("listens"));
        waits.flat_map(|task| &task.waits).any(|wait| {
            wait.on == WaitsFor::Cancellation
                && wait
                    .since
                    .is_some_and(|since| since > Duration::from_millis(1200))
        })
    };
    let dump = dump_with("it listens", &runtime, listens);
    assert_eq!(dump.findings, [], "{dump}");
    assert!(
        dump.to_string().contains("waits for the cancellation of a token"),
        "{dump}"
    );
    token.cancel();
    assert!(task.wait().is_ok());
}
