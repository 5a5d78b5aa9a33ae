//! Closures of `spawn_blocking` that wait for others for which there is no thread.

use super::{accusations, dump_with};
use std::mem::ManuallyDrop;
use std::sync::{Arc, mpsc};
use warpweft::sync::Notify;
use warpweft::{Dump, Finding, Runtime, TaskDump, TaskKind, TaskState, WaitsFor, spawn_blocking};

/// A runtime with so many threads for closures that block.
fn runtime(threads: usize) -> Runtime {
    let builder = Runtime::builder().workers(1).max_blocking_threads(threads);
    builder.build().expect("a runtime")
}

/// The tasks of the first circle, if it is certain.
fn certain(dump: &Dump) -> Option<&[usize]> {
    dump.findings.iter().find_map(|finding| match finding {
        Finding::Cycle {
            tasks,
            uncertain: false,
        } => Some(&tasks[..]),
        _ => None,
    })
}

/// The numbers of closures that run and that wait for a thread. What another test just spawns is of no
/// pool yet, and in every dump.
fn counts(dump: &Dump) -> (usize, usize) {
    let of = |state| {
        let is_it = |task: &&TaskDump| {
            task.kind == Some(TaskKind::Blocking) && task.state == state && task.pool.is_some()
        };
        dump.tasks.iter().filter(is_it).count()
    };
    (of(TaskState::SpawnedBlocking), of(TaskState::Queued))
}

/// Spawns a closure that spawns another one and waits for it.
fn nested(runtime: &Runtime) {
    drop(runtime.spawn(async {
        let outer = spawn_blocking(|| {
            let inner = spawn_blocking(|| 1);
            inner.wait()
        });
        outer.await
    }));
}

#[test]
fn a_closure_that_waits_for_one_behind_it() {
    let runtime = ManuallyDrop::new(runtime(1));
    nested(&runtime);
    let dump = dump_with("the circle", &runtime, |dump| certain(dump).is_some());
    let tasks = certain(&dump).expect("it was there");
    assert_eq!((tasks.len(), counts(&dump)), (2, (1, 1)), "{dump}");
    assert_eq!(dump.findings.len(), 1, "nothing else is accused: {dump}");
    let text = dump.to_string();
    assert!(text.contains("DEADLOCK: 2 tasks cannot go on"), "{text}");
    assert!(
        text.contains("waits for a thread of `spawn_blocking`, which depends on #"),
        "{text}"
    );
}

/// All threads have a closure that waits for one that has none. The third outer closure has no thread either.
#[test]
fn several_closures_that_wait_for_ones_behind_them() {
    let runtime = ManuallyDrop::new(runtime(2));
    for _ in 0..3 {
        nested(&runtime);
    }
    let dump = dump_with("the circle", &runtime, |dump| {
        certain(dump).is_some() && counts(dump).0 == 2
    });
    let for_a_thread = dump.tasks.iter().flat_map(|task| &task.waits);
    let holders = for_a_thread
        .filter(|wait| matches!(wait.on, WaitsFor::BlockingPlace))
        .map(|wait| wait.holders.len());
    assert!(holders.clone().count() >= 2 && holders.min() == Some(2), "{dump}");
}

/// One closure that does something will free its thread for the others.
#[test]
fn a_closure_that_does_something_is_a_way_out() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (end, ended) = mpsc::channel::<()>();
    let busy = runtime.try_spawn_blocking(move || ended.recv());
    let outer = runtime.spawn(async { spawn_blocking(|| spawn_blocking(|| 1).wait()).await });
    let more: Vec<_> = (0..2).map(|_| runtime.try_spawn_blocking(|| ())).collect();
    let dump = dump_with("a closure waits", &runtime, |dump| {
        counts(dump).0 == 2 && counts(dump).1 > 0
    });
    assert_eq!(accusations(&dump), [], "{dump}");
    end.send(()).expect("it waits");
    for closure in more.into_iter().flatten() {
        closure.wait().expect("no panic");
    }
    busy.expect("there is room")
        .wait()
        .expect("no panic")
        .expect("it was told");
    let inner = outer.wait().expect("no panic").expect("no panic");
    assert_eq!(inner.expect("no panic"), 1);
    ManuallyDrop::into_inner(runtime).shutdown();
}

/// The same of one that waits for what may come. A free thread is enough for all that wait for one.
#[test]
fn a_closure_that_waits_for_an_event_is_a_way_out() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (notify, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waits_on = notify.clone();
    let waits = runtime.try_spawn_blocking(move || waits_on.notified().wait());
    let starts = go.clone();
    let outer = runtime.spawn(async move {
        starts.notified().await;
        spawn_blocking(|| spawn_blocking(|| 1).wait()).await
    });
    let event = |dump: &Dump| {
        let waits = dump.tasks.iter().flat_map(|task| &task.waits);
        waits
            .filter(|wait| matches!(wait.on, WaitsFor::Event { .. }))
            .count()
    };
    dump_with("both wait", &runtime, |dump| event(dump) == 2);
    go.notify_one();
    let depends = |dump: &Dump| {
        let mut waits = dump.tasks.iter().flat_map(|task| &task.waits);
        waits.any(|wait| matches!(wait.on, WaitsFor::BlockingPlace) && wait.holders.len() == 2)
    };
    let dump = dump_with("a closure waits for a thread", &runtime, depends);
    assert_eq!(accusations(&dump), [], "{dump}");
    notify.notify_one();
    waits.expect("there is room").wait().expect("no panic");
    let inner = outer.wait().expect("no panic").expect("no panic");
    assert_eq!(inner.expect("no panic"), 1);
    ManuallyDrop::into_inner(runtime).shutdown();
}
