//! A dump at odd moments, and of odd tasks.

use super::dump_with;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use warpweft::sync::{Mutex, Notify};
use warpweft::{Runtime, TaskBuilder};

#[test]
fn odd_names_are_escaped() {
    let name = "a \"name\"\nof two lines\\ and \u{1}";
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let task = TaskBuilder::new()
        .name(name)
        .on(&runtime)
        .spawn(std::future::pending::<()>());
    let dump = dump_with("it waits", &runtime, |dump| {
        dump.tasks.iter().any(|task| task.name.as_deref() == Some(name))
    });
    let text = dump.to_string();
    assert!(
        text.contains(r#"`a \"name\"\nof two lines\\ and \u{1}`"#),
        "{text}"
    );
    let json = dump.to_json();
    assert!(
        json.contains(r#""name":"a \"name\"\nof two lines\\ and \u0001""#),
        "{json}"
    );
    assert_eq!(json.matches('\n').count(), 0);
    assert!(task.cancel());
}

#[test]
fn dumps_of_a_runtime_that_ends_and_has_ended() {
    let runtime = Runtime::builder().workers(2).build().expect("a runtime");
    for _ in 0..1000 {
        drop(runtime.spawn(std::future::pending::<()>()));
    }
    let pool = runtime.first().clone();
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let dump = pool.dump();
                assert_eq!(dump.pools.len(), 1);
            }
        });
        runtime.shutdown();
        over.store(true, Ordering::Relaxed);
    });
    let dump = pool.dump();
    assert!(
        dump.pools[0].closed && dump.tasks.iter().all(|task| task.pool.is_none()),
        "{dump}"
    );
    assert!(dump.to_string().contains(", closed"), "{dump}");
}

/// Tasks begin, wait for locks, fibers and joins, and end, while ten thousand dumps look at them.
#[test]
fn ten_thousand_dumps_under_load() {
    let runtime = Runtime::builder().workers(2).build().expect("a runtime");
    let over = Arc::new(AtomicBool::new(false));
    let lock = Arc::new(Mutex::new(0_u64));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (over, lock) = (over.clone(), lock.clone());
            runtime.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let notify = Arc::new(Notify::new());
                    let (waits, locks, other) = (notify.clone(), lock.clone(), lock.clone());
                    let one = warpweft::spawn(async move { waits.notified().await });
                    let two = warpweft::fiber::spawn(move || *locks.lock().wait() += 1);
                    let three = warpweft::spawn_job(move || *other.lock().wait() += 1);
                    *lock.lock().await += 1;
                    notify.notify_one();
                    let _ = (one.await, two.await, three.await);
                }
            })
        })
        .collect();
    for _ in 0..10_000 {
        let dump = runtime.dump();
        assert_eq!(dump.findings, [], "{dump}");
    }
    over.store(true, Ordering::Relaxed);
    for task in load {
        task.wait().expect("no panic");
    }
    assert_ne!(*lock.lock().wait(), 0);
}

/// As text, tasks of one site that wait for the same come together; all of them are in the long form and in
/// JSON.
#[test]
fn many_tasks_are_few_lines() {
    const TASKS: usize = 3000;
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let stop = Arc::new(Notify::new());
    let spawn = |_| {
        let stop = stop.clone();
        runtime.spawn(async move { stop.notified().await })
    };
    let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
    let other = TaskBuilder::new().name("other").on(&runtime);
    let other = other.spawn(std::future::pending::<()>());
    let dump = dump_with("all wait", &runtime, |dump| {
        let waits = dump.tasks.iter().filter(|task| !task.waits.is_empty());
        waits.count() >= TASKS
            && dump
                .tasks
                .iter()
                .any(|task| task.name.is_some() && task.pool.is_some())
    });
    let text = dump.to_string();
    assert!(text.lines().count() < 200, "{} lines", text.lines().count());
    let more = format!("… and {} more at crates/warpweft/tests/dump/odd.rs:", TASKS - 10);
    assert!(text.contains(&more), "{text}");
    assert!(
        text.contains("future `other` ("),
        "another site is not hidden: {text}"
    );
    assert!(format!("{dump:#}").lines().count() >= 2 * TASKS);
    assert_eq!(
        dump.to_json()
            .matches("\"spawned_at\":\"crates/warpweft/tests/dump/odd.rs:")
            .count(),
        TASKS + 1
    );
    assert!(other.cancel());
    stop.notify_all();
    for task in tasks {
        task.wait().expect("no panic");
    }
}

/// Findings that are alike come together, too.
#[test]
fn many_findings_are_few_lines() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let spawn = |_| runtime.spawn(std::future::pending::<()>());
    let tasks: Vec<_> = (0..500).map(spawn).collect();
    let dump = dump_with("all are found", &runtime, |dump| dump.findings.len() >= 500);
    let text = dump.to_string();
    assert!(text.matches("NOBODY CAN WAKE").count() < 50, "{text}");
    assert!(
        text.contains("… and 490 more findings that are alike, of tasks of crates/"),
        "{text}"
    );
    assert!(format!("{dump:#}").matches("NOBODY CAN WAKE").count() >= 500);
    assert!(tasks.iter().all(warpweft::JoinHandle::cancel));
}

/// A channel without a bound is not "0 of 18446744073709551615".
#[test]
fn a_channel_without_a_bound_is_said_to_have_none() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let (sender, receiver) = warpweft::sync::channel::unbounded::<()>();
    let task = runtime.spawn(async move { receiver.recv().await });
    let dump = dump_with("it waits", &runtime, |dump| {
        let is_ours = |task: &warpweft::TaskDump| task.pool.is_some() && !task.waits.is_empty();
        dump.tasks.iter().any(is_ours)
    });
    let text = dump.to_string();
    assert!(
        text.contains("waits for a value of an empty channel (without a bound, 1 sender)"),
        "{text}"
    );
    drop(sender);
    assert!(task.wait().expect("no panic").is_err());
}
