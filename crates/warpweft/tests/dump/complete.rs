//! Tasks that were spawned in every public way are in the dump.

use super::dump_with;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use warpweft::sync::Notify;
use warpweft::{Runtime, TaskBuilder, TaskKind, TaskState};

#[test]
fn tasks_of_every_kind_are_found() {
    let policy = warpweft::policy::Negele::new().levels(2);
    let runtime = Runtime::builder().workers(2).name("main").policy(policy).build();
    // Never dropped: a test that fails must not wait for its tasks.
    let runtime = ManuallyDrop::new(runtime.expect("a runtime"));
    let stop = Arc::new(Notify::new());
    let wait = || {
        let stop = stop.clone();
        move || stop.notified().wait()
    };
    let future = || {
        let stop = stop.clone();
        async move { stop.notified().await }
    };
    let builder = |name: &'static str| TaskBuilder::new().name(name).on(&runtime);
    drop(builder("spawn").spawn(future()));
    drop(builder("spawn_job").spawn_job(wait()));
    builder("spawn_detached").spawn_detached(wait());
    drop(builder("spawn_fiber").spawn_fiber(wait()));
    let urgent = runtime.priority(0).expect("a level");
    drop(builder("urgent").priority(urgent).spawn(future()));
    drop(
        TaskBuilder::new()
            .name("on the pool")
            .on_pool(runtime.first())
            .spawn(future()),
    );
    let (outer, beside, local) = (stop.clone(), stop.clone(), stop.clone());
    drop(builder("parent fiber").spawn_fiber(move || {
        let name = |name: &'static str| TaskBuilder::new().name(name);
        drop(name("fiber of a fiber").spawn_fiber(move || beside.notified().wait()));
        drop(name("local future").spawn_local(move || async move { local.notified().await }));
        outer.notified().wait();
    }));
    let (outer, waits) = (stop.clone(), stop.clone());
    drop(builder("async scope").spawn(async move {
        warpweft::scope_async(async |scope| {
            drop(scope.spawn(async move { waits.notified().await }));
            outer.notified().await;
        })
        .await;
    }));
    let inner = (stop.clone(), stop.clone(), stop.clone());
    drop(builder("parent").spawn_job(move || {
        drop(warpweft::spawn(async move { inner.0.notified().await }));
        let (waits, other) = (inner.1, inner.2);
        warpweft::scope(|scope| {
            scope.spawn(move |_| waits.notified().wait());
            other.notified().wait();
        });
    }));
    let blocks = stop.clone();
    drop(builder("in blocking").spawn_job(move || warpweft::blocking(|| blocks.notified().wait())));
    let waits = wait();
    let blocking = runtime.spawn_blocking(waits);
    let blocking = runtime.spawn(async move { blocking.await.map(drop) });
    let here = |name: &str, kind: TaskKind, dump: &warpweft::Dump| {
        dump.tasks.iter().any(|task| {
            let is_it = task.name.as_deref() == Some(name) && task.kind == Some(kind);
            is_it
                && task.pool.as_deref() == Some("main")
                && task.spawned_at.is_some()
                && matches!(task.state, TaskState::Waiting | TaskState::Blocking)
        })
    };
    let all = [
        ("spawn", TaskKind::Future),
        ("spawn_job", TaskKind::Job),
        ("spawn_detached", TaskKind::Job),
        ("spawn_fiber", TaskKind::Fiber),
        ("urgent", TaskKind::Future),
        ("parent", TaskKind::Job),
        ("on the pool", TaskKind::Future),
        ("parent fiber", TaskKind::Fiber),
        ("fiber of a fiber", TaskKind::Fiber),
        ("local future", TaskKind::Fiber),
        ("async scope", TaskKind::Future),
        ("in blocking", TaskKind::Job),
    ];
    let complete = |dump: &warpweft::Dump| {
        all.iter().all(|&(name, kind)| here(name, kind, dump))
            && dump.tasks.iter().any(|task| {
                task.kind == Some(TaskKind::Blocking) && task.state == TaskState::SpawnedBlocking
            })
            // The children of `parent` and of the scopes have no names.
            && dump.tasks.iter().filter(|task| task.name.is_none() && task.pool.is_some()).count() >= 5
    };
    let dump = dump_with("all are there", &runtime, complete);
    let json = dump.to_json();
    for (name, _) in all {
        assert!(json.contains(&format!("\"name\":\"{name}\"")), "{json}");
    }
    drop(blocking);
}

/// The other worker is busy, so nobody takes the job of the scope: its owner runs it, as a part of itself.
#[test]
fn a_job_that_runs_a_part_of_its_own_scope_is_there() {
    let runtime = Runtime::builder().workers(2).stuck_after(None).build();
    let runtime = ManuallyDrop::new(runtime.expect("a runtime"));
    let (begun, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, ends) = (begun.clone(), is_over.clone());
    let busy = runtime.spawn_job(move || {
        begins.store(true, Ordering::Release);
        while !ends.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    });
    while !begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let stop = Arc::new(Notify::new());
    let waits = stop.clone();
    let scopes = TaskBuilder::new().name("scopes").on(&runtime).spawn_job(move || {
        warpweft::scope(|scope| scope.spawn(|_| waits.notified().wait()));
    });
    dump_with("both", &runtime, |dump| {
        let is_part = |&part: &usize| dump.tasks[part].kind == Some(TaskKind::Fork);
        dump.tasks.iter().any(|task| {
            task.name.as_deref() == Some("scopes")
                && task.state == TaskState::Waiting
                && task.waits.iter().any(|wait| wait.holders.iter().any(is_part))
        })
    });
    stop.notify_one();
    scopes.wait().expect("no panic");
    is_over.store(true, Ordering::Release);
    busy.wait().expect("no panic");
}
