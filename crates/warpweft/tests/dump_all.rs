//! `dump_all`: circles of waits through several runtimes, and runtimes that come and go.
//!
//! It sees the runtimes of the whole process, so these tests look for what has their names.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "support/look_until.rs"]
mod look_until;

use look_until::{PATIENCE, look_until};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warpweft::sync::{Barrier, Mutex, Notify, oneshot};
use warpweft::{Dump, Finding, JoinHandle, Runtime, TaskBuilder, dump_all};

fn runtime(name: &'static str) -> Runtime {
    Runtime::builder()
        .workers(1)
        .name(name)
        .build()
        .expect("a runtime")
}

/// Waits until a dump of all runtimes satisfies the condition.
#[track_caller]
fn all_with(what: &str, condition: impl Fn(&Dump) -> bool) -> Dump {
    look_until(what, dump_all, condition)
}

/// The certain circle with a task of that pool: its tasks, each with its pool.
fn circle(dump: &Dump, pool: &str) -> Option<Vec<String>> {
    let circles = dump.findings.iter().filter(|finding| finding.is_certain());
    let tasks = circles
        .filter(|finding| matches!(finding, Finding::Cycle { .. }))
        .map(|finding| {
            let tell = |&task: &usize| {
                let task = &dump.tasks[task];
                let of = |text: &Option<String>| text.clone().unwrap_or_default();
                format!("{} in {}", of(&task.name), of(&task.pool))
            };
            let mut tasks: Vec<_> = finding.tasks().iter().map(tell).collect();
            tasks.sort();
            tasks
        });
    tasks
        .into_iter()
        .find(|tasks| tasks.iter().any(|task| task.ends_with(&format!(" in {pool}"))))
}

/// A task takes a lock and wants the other one, when all tasks have theirs.
fn takes_two(runtime: &Runtime, name: &'static str, locks: [&Arc<Mutex<()>>; 2], both: &Arc<Barrier>) {
    let ([first, second], both) = (locks.map(Arc::clone), both.clone());
    let task = TaskBuilder::new().name(name).on(runtime).spawn(async move {
        let _first = first.lock().await;
        both.arrive().await;
        drop(second.lock().await);
    });
    drop(task);
}

#[test]
fn a_circle_of_locks_over_two_runtimes() {
    let [first, second] = [runtime("circle-a"), runtime("circle-b")].map(ManuallyDrop::new);
    let (left, right, both) = (Arc::default(), Arc::default(), Arc::new(Barrier::new(2)));
    takes_two(&first, "here", [&left, &right], &both);
    takes_two(&second, "there", [&right, &left], &both);
    let tasks = Some(vec!["here in circle-a".into(), "there in circle-b".into()]);
    all_with("the circle", |dump| circle(dump, "circle-a") == tasks);
    // One runtime alone cannot know.
    assert_eq!(circle(&first.dump(), "circle-a"), None);
}

/// A task of each runtime joins one of the other, which waits for a lock of the first.
#[test]
fn a_circle_of_joins_over_two_runtimes() {
    for is_fiber in [false, true] {
        let names = match is_fiber {
            true => ["fibers-a", "fibers-b"],
            false => ["futures-a", "futures-b"],
        };
        let runtimes = names.map(|name| ManuallyDrop::new(runtime(name)));
        let (handles, tasks): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel::<JoinHandle<()>>()).unzip();
        let mut tasks = tasks.into_iter();
        let spawn = |at: usize, task: oneshot::Receiver<_>| {
            let builder = TaskBuilder::new().name("joins").on(&runtimes[at]);
            let joins = async move {
                let joined: JoinHandle<()> = task.await.expect("it is sent");
                let _ = joined.await;
            };
            match is_fiber {
                true => builder.spawn_fiber(|| warpweft::fiber::wait(joins)),
                false => builder.spawn(joins),
            }
        };
        let joiners: Vec<_> = (0..2).map(|at| spawn(at, tasks.next().expect("two"))).collect();
        // Each is given the handle of the other.
        let handles = handles.into_iter().rev();
        joiners.into_iter().zip(handles).for_each(|(task, handle)| {
            assert!(handle.send(task).is_ok(), "it waits");
        });
        let tasks = names.map(|name| format!("joins in {name}")).to_vec();
        all_with("the circle", |dump| {
            circle(dump, names[0]).as_ref() == Some(&tasks)
        });
    }
}

/// Pools of one name are not taken for one another.
#[test]
fn runtimes_and_pools_of_one_name() {
    let two = || {
        let second = Runtime::builder().workers(1);
        let first = Runtime::builder().workers(1).name("same").then("index", second);
        first.build().expect("a runtime")
    };
    let (one, other) = (two(), two());
    // The name that a pool of the others gets.
    let third = runtime("odd/index");
    let fourth = Runtime::builder()
        .workers(1)
        .name("odd")
        .then("index", Runtime::builder().workers(1));
    let fourth = fourth.build().expect("a runtime");
    let dump = dump_all();
    let mut names: Vec<_> = dump.pools.iter().map(|pool| pool.name.as_str()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
    let same: Vec<_> = names.iter().filter(|name| name.starts_with("same (")).collect();
    assert_eq!(same.len(), 4, "{names:?}");
    assert_eq!(
        same.iter().filter(|name| name.ends_with(")/index")).count(),
        2,
        "{names:?}"
    );
    assert!(
        names.contains(&"odd") && names.contains(&"odd/index"),
        "{names:?}"
    );
    drop((one, other, third, fourth));
    // A handle does not keep a runtime.
    let ends = runtime("ends");
    let pool = ends.first().clone();
    let is_there = || dump_all().pools.iter().any(|pool| pool.name == "ends");
    assert!(is_there());
    drop(ends);
    assert!(!is_there());
    drop(pool);
}

/// A task calls, of a runtime that the report looks at, in each kind of task; and it waits for nothing.
#[test]
fn a_task_calls() {
    let runtime = runtime("calls");
    let other = self::runtime("beside");
    let dumps = [
        runtime.spawn(async { dump_all() }),
        runtime.spawn_fiber(dump_all),
        runtime.spawn_job(dump_all),
        runtime.try_spawn_blocking(dump_all).expect("a thread"),
    ];
    for dump in dumps {
        let dump = dump.wait().expect("no panic");
        let own = |name: &str| dump.pools.iter().any(|pool| pool.name == name);
        assert!(own("calls") && own("beside"), "{dump}");
        let has_caller = |task: &warpweft::TaskDump| task.pool.as_deref() == Some("calls");
        assert!(dump.tasks.iter().any(has_caller), "{dump}");
    }
    drop(other);
}

/// A task drops the last handle of its own runtime and of another one, and calls.
#[test]
fn a_task_calls_while_its_runtime_ends() {
    let (told, tell) = std::sync::mpsc::channel();
    let runtime = Arc::new(runtime("ends-within"));
    let inside = runtime.clone();
    let task = runtime.spawn_job(move || {
        while Arc::strong_count(&inside) > 1 {
            std::thread::yield_now();
        }
        drop(inside);
        told.send(dump_all()).expect("the test waits");
    });
    drop(runtime);
    let dump = tell.recv_timeout(PATIENCE).expect("a dump");
    let ended = dump.pools.iter().find(|pool| pool.name == "ends-within");
    assert!(ended.is_some_and(|pool| pool.closed), "{dump}");
    drop(task.wait());
}

/// A hang at the end of a program: the runtime is dropped, and a closure of it does not return.
#[test]
fn a_runtime_whose_end_waits_for_a_closure_is_listed() {
    for (name, is_job) in [("ends-after-job", true), ("ends-after-blocking", false)] {
        let (go, stuck) = std::sync::mpsc::channel::<()>();
        let (started, begun) = std::sync::mpsc::channel();
        let body = move || {
            started.send(()).expect("the test waits");
            stuck.recv().expect_err("nothing is sent");
        };
        let runtime = runtime(name);
        match is_job {
            true => drop(runtime.spawn_job(body)),
            false => drop(runtime.try_spawn_blocking(body)),
        }
        begun.recv_timeout(PATIENCE).expect("it runs");
        let end = std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_millis(60)).is_err());
        let is_listed = |dump: &Dump| {
            let mut tasks = dump.tasks.iter();
            dump.pools.iter().any(|pool| pool.name == name && pool.closed)
                && tasks.any(|task| task.pool.as_deref() == Some(name))
        };
        all_with("it is there while its end waits", is_listed);
        while !end.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let dump = dump_all();
        assert!(is_listed(&dump), "it was left: {dump}");
        drop(go);
        assert!(end.join().expect("no panic"), "it was left: {name}");
        let is_gone = |dump: &Dump| dump.pools.iter().all(|pool| pool.name != name);
        all_with("it has ended", is_gone);
    }
}

/// Runtimes are built, used and dropped while other threads call all the time.
#[test]
fn runtimes_that_come_and_go_while_others_look() {
    let is_over = AtomicBool::new(false);
    let start = Instant::now();
    let mut rounds = 0;
    std::thread::scope(|scope| {
        let looks = || {
            let mut seen = 0;
            while !is_over.load(Ordering::Relaxed) {
                let dump = dump_all();
                seen += dump
                    .pools
                    .iter()
                    .filter(|pool| pool.name.starts_with("comes"))
                    .count();
                drop(dump.to_string());
            }
            seen
        };
        let lookers = [scope.spawn(looks), scope.spawn(looks)];
        while start.elapsed() < Duration::from_secs(2) {
            let runtime = Runtime::builder()
                .workers(2)
                .name("comes")
                .then("more", Runtime::builder().workers(1));
            let runtime = runtime.build().expect("a runtime");
            let (lock, never) = (Arc::new(Mutex::new(())), Arc::new(Notify::new()));
            let waits = (0..10).map(|_| {
                let (lock, never) = (lock.clone(), never.clone());
                runtime.spawn(async move {
                    drop(lock.lock().await);
                    never.notified().await;
                })
            });
            let waits: Vec<_> = waits.collect();
            let memory = Arc::downgrade(&lock);
            drop(lock);
            if rounds % 2 == 0 {
                runtime.shutdown_timeout(PATIENCE).expect("nothing runs");
            } else {
                drop(runtime);
            }
            drop(waits);
            // What the tasks had is gone when their runtime has ended, also while others look.
            assert_eq!(memory.strong_count(), 0);
            rounds += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        let seen = lookers.map(|looker| looker.join().expect("no panic"));
        assert!(seen.iter().all(|&seen| seen > 0), "{seen:?} in {rounds} rounds");
    });
    let left = dump_all();
    assert!(
        left.pools.iter().all(|pool| !pool.name.starts_with("comes")),
        "{left}"
    );
}
