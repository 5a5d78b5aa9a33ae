//! A dump at odd moments, and of odd tasks.

use super::dump_with;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use warpweft::sync::{Mutex, Notify};
use warpweft::{Dump, Finding, Runtime, TaskBuilder, TaskDump, TaskState};

const HOUR: Duration = Duration::from_secs(3600);

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

/// Tasks begin, wait for locks, fibers and joins, and end, while a thousand dumps look at them, or as many
/// as `WARPWEFT_DUMPS` says.
#[test]
fn a_thousand_dumps_beside_tasks() {
    let dumps = std::env::var("WARPWEFT_DUMPS").map_or(1_000, |text| text.parse().expect("a number"));
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
    // A thread that has no CPU for 50 ms may have the lock of the allocator.
    let is_suspicion = |finding: &Finding| matches!(finding, Finding::BlocksInKernel { .. });
    for _ in 0..dumps {
        let dump = runtime.dump();
        assert!(dump.findings.iter().all(is_suspicion), "{dump}");
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
        let own = dump.tasks.iter().filter(|task| task.pool.is_some());
        let waits = |task: &&TaskDump| task.state == TaskState::Waiting && !task.waits.is_empty();
        let others = own
            .clone()
            .filter(|task| task.name.is_some() && task.state == TaskState::Waiting);
        own.filter(waits).count() >= TASKS && others.count() > 0
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

/// Findings that are alike come together, too: each task takes a lock of its own twice.
#[test]
fn many_findings_are_few_lines() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let spawn = |_| {
        let lock = Mutex::new(());
        runtime.spawn(async move {
            let _first = lock.lock().await;
            drop(lock.lock().await);
        })
    };
    let tasks: Vec<_> = (0..500).map(spawn).collect();
    let dump = dump_with("all are found", &runtime, |dump| dump.findings.len() >= 500);
    let text = dump.to_string();
    assert!(text.matches("DEADLOCK").count() < 50, "{text}");
    assert!(
        text.contains("… and 490 more findings that are alike, of tasks of crates/"),
        "{text}"
    );
    assert!(format!("{dump:#}").matches("DEADLOCK").count() >= 500);
    assert!(tasks.iter().all(warpweft::JoinHandle::cancel));
}

/// Tasks of one spawn site without a waker are one finding.
#[test]
fn tasks_without_a_waker_are_one_finding() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let spawn = |_| runtime.spawn(std::future::pending::<()>());
    let tasks: Vec<_> = (0..500).map(spawn).collect();
    let dump = dump_with("all are found", &runtime, |dump| {
        let mut findings = dump.findings.iter();
        findings.any(|finding| finding.tasks().len() >= 500)
    });
    let text = dump.to_string();
    assert!(text.contains("NOBODY CAN WAKE 500 tasks: they wait"), "{text}");
    assert!(text.contains("    … and 490 more\n"), "{text}");
    assert!(tasks.iter().all(warpweft::JoinHandle::cancel));
}

/// A channel without a bound is not "0 of 18446744073709551615".
#[test]
fn a_channel_without_a_bound_is_said_to_have_none() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let (sender, receiver) = warpweft::sync::channel::unbounded::<()>();
    let task = runtime.spawn(async move { receiver.recv().await });
    let dump = dump_with("it waits", &runtime, |dump| {
        let is_ours = |task: &TaskDump| task.pool.is_some() && !task.waits.is_empty();
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

/// The threads for closures that block, and the queue before them, are full.
#[test]
fn it_is_known_since_when_a_task_waits_for_a_thread() {
    let builder = Runtime::builder().workers(1).max_blocking_threads(1);
    let runtime = builder.build().expect("a runtime");
    let stop = Arc::new(warpweft::sync::Semaphore::new(0));
    let closures: Vec<_> = (0..20)
        .map(|_| {
            let stop = stop.clone();
            let closure = move || drop(stop.acquire(1).wait());
            runtime.spawn(runtime.spawn_blocking(closure))
        })
        .collect();
    dump_with("some wait for a thread", &runtime, |dump| {
        let mut waits = dump.tasks.iter().flat_map(|task| &task.waits);
        waits.any(|wait| wait.on == warpweft::WaitsFor::BlockingPlace && wait.since.is_some())
    });
    stop.close();
    for closure in closures {
        closure.wait().expect("no panic").expect("no panic");
    }
}

#[test]
fn the_stacks_of_a_finding_come_first_and_no_more_are_read_than_asked_for() {
    // Never dropped: two of the fibers never end.
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let runtime = std::mem::ManuallyDrop::new(runtime);
    let stop = Arc::new(Notify::new());
    let older: Vec<_> = (0..20)
        .map(|_| {
            let stop = stop.clone();
            // Its limit is a way out: without one a dump of a runtime that was quiet for a while has a
            // finding that names all of them.
            let body = async move { warpweft::time::timeout(HOUR, stop.notified()).await.is_ok() };
            runtime.spawn_fiber(|| warpweft::block_on(body))
        })
        .collect();
    let waits = |task: &&TaskDump| task.pool.is_some() && !task.waits.is_empty();
    dump_with("they wait", &runtime, |dump| {
        dump.tasks.iter().filter(waits).count() == 20
    });
    let (one, other) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let both = Arc::new(warpweft::sync::Barrier::new(2));
    for (first, second) in [(one.clone(), other.clone()), (other, one)] {
        let both = both.clone();
        let body = move || {
            let _first = first.lock().wait();
            both.arrive().wait();
            drop(second.lock().wait());
        };
        drop(runtime.spawn_fiber(body));
    }
    let is_found = |dump: &Dump| dump.findings.iter().any(|it| matches!(it, Finding::Cycle { .. }));
    dump_with("the deadlock is found", &runtime, is_found);
    let dump = runtime.dump_with_stacks(2);
    let cycle = dump
        .findings
        .iter()
        .find(|it| matches!(it, Finding::Cycle { .. }));
    let mut of_cycle = cycle.expect("it stays").tasks().to_vec();
    of_cycle.sort_unstable();
    let read = |dump: &Dump| -> Vec<usize> {
        let is_read = |number: &usize| dump.tasks[*number].stack.is_some();
        (0..dump.tasks.len()).filter(is_read).collect()
    };
    assert_eq!(read(&dump), of_cycle);
    assert_eq!(read(&runtime.dump_with_stacks(0)), []);
    assert_eq!(read(&runtime.dump_with_stacks(usize::MAX)).len(), 22);
    for _ in 0..20 {
        stop.notify_one();
    }
    for task in older {
        assert!(task.wait().expect("no panic"), "it is notified");
    }
}

/// Without the feature each chosen task says how to get its stack.
#[cfg(not(feature = "stacks"))]
#[test]
fn without_the_feature_a_dump_says_why_it_has_no_stack() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let stop = Arc::new(Notify::new());
    let waits = stop.clone();
    let fiber = runtime.spawn_fiber(move || waits.notified().wait());
    dump_with("it waits", &runtime, |dump| {
        dump.tasks
            .iter()
            .any(|task| task.pool.is_some() && !task.waits.is_empty())
    });
    let dump = runtime.dump_with_stacks(9);
    let task = dump
        .tasks
        .iter()
        .find(|task| task.pool.is_some())
        .expect("it waits");
    assert_eq!(task.stack, Some(Err(warpweft::NoStack::NotBuilt)));
    assert!(
        dump.to_string().contains("no stack: the feature `stacks`"),
        "{dump}"
    );
    assert!(dump.to_json().contains("\"no_stack\":\"the feature `stacks`"));
    stop.notify_one();
    fiber.wait().expect("no panic");
}
