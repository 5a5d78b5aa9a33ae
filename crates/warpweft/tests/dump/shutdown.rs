//! The end of a runtime within a limit of time, and the dump of what is left.

use super::dump_with;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use warpweft::{Remaining, Runtime, TaskBuilder, TaskDump, TaskState};

/// Long after any of the limits below.
const LONG: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_millis(100);

fn runtime() -> Runtime {
    Runtime::builder()
        .workers(2)
        .name("ends")
        .build()
        .expect("a runtime")
}

/// Spawns that closure.
type Spawns = fn(&Runtime, Box<dyn FnOnce() + Send>);

/// A runtime with a task of that name, which waits in the system until the sender is dropped.
fn stuck(spawn: impl FnOnce(&Runtime, Box<dyn FnOnce() + Send>)) -> (Runtime, mpsc::Sender<()>, Arc<()>) {
    stuck_in(runtime(), spawn)
}

/// The same in that runtime.
fn stuck_in(
    runtime: Runtime,
    spawn: impl FnOnce(&Runtime, Box<dyn FnOnce() + Send>),
) -> (Runtime, mpsc::Sender<()>, Arc<()>) {
    let (release, waits) = mpsc::channel::<()>();
    let (started, begun) = mpsc::channel();
    let used = Arc::new(());
    let uses = used.clone();
    spawn(
        &runtime,
        Box::new(move || {
            started.send(()).expect("the test waits");
            let _ = waits.recv();
            drop(uses);
        }),
    );
    begun.recv().expect("it starts");
    (runtime, release, used)
}

/// Shuts down in vain, and checks that the limit is kept.
fn remaining(runtime: Runtime) -> Remaining {
    // On a thread of its own: a shutdown that waits for the closure must fail the test, and not hang it.
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let left = runtime.shutdown_timeout(LIMIT);
        send.send(left).expect("the test waits");
    });
    let left = receive.recv_timeout(LONG).expect("the limit is kept");
    let remaining = left.expect_err("a closure is stuck");
    assert!(remaining.waited >= LIMIT, "{remaining}");
    remaining
}

/// Lets the closure go on, and waits until it has ended, on the thread that was left behind.
fn released(release: mpsc::Sender<()>, used: &Arc<()>) {
    assert_eq!(Arc::strong_count(used), 2, "it is still stuck");
    drop(release);
    let start = Instant::now();
    while Arc::strong_count(used) > 1 {
        assert!(start.elapsed() < LONG, "the closure ends");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_runtime_without_tasks_ends_at_once() {
    let start = Instant::now();
    assert_eq!(runtime().shutdown_timeout(LONG), Ok(()));
    // Tasks that wait are dropped, and need no thread.
    let busy = runtime();
    let sleeps = busy.spawn(warpweft::time::sleep(Duration::from_secs(1000)));
    let fiber = busy.spawn_fiber(|| warpweft::block_on(warpweft::time::sleep(Duration::from_secs(1000))));
    busy.spawn(async {}).wait().expect("no panic");
    assert_eq!(busy.shutdown_timeout(LONG), Ok(()));
    assert!(sleeps.wait().is_err() && fiber.wait().is_err());
    assert!(start.elapsed() < LONG);
}

#[test]
fn a_stuck_job_fiber_or_blocking_closure_is_named() {
    let spawns: [(&str, Spawns); 4] = [
        ("job", |runtime, body| {
            drop(TaskBuilder::new().name("job").on(runtime).spawn_job(body));
        }),
        ("fiber", |runtime, body| {
            drop(TaskBuilder::new().name("fiber").on(runtime).spawn_fiber(body));
        }),
        ("future", |runtime, body| {
            drop(
                TaskBuilder::new()
                    .name("future")
                    .on(runtime)
                    .spawn(async move { body() }),
            );
        }),
        ("blocking", |runtime, body| {
            let name = TaskBuilder::new().name("blocking").on(runtime);
            drop(name.spawn_job(move || warpweft::blocking(body)));
        }),
    ];
    for (name, spawn) in spawns {
        let (runtime, release, used) = stuck(spawn);
        let remaining = remaining(runtime);
        let mut tasks = remaining.dump.tasks.iter();
        let task = tasks.find(|task| task.name.as_deref() == Some(name));
        let task = task.unwrap_or_else(|| panic!("{name}: {remaining}"));
        assert!(
            matches!(task.state, TaskState::Running(_) | TaskState::Blocking),
            "{remaining}"
        );
        assert!(remaining.dump.pools[0].closed, "{remaining}");
        assert!(
            remaining
                .to_string()
                .contains("the runtime `ends` has not ended in "),
            "{remaining}"
        );
        assert!(
            format!("{remaining:?}").contains("shutdown.rs:"),
            "the spawn site: {remaining}"
        );
        released(release, &used);
    }
}

#[test]
fn a_closure_of_spawn_blocking_that_sleeps_is_left() {
    let (runtime, release, used) = stuck(|runtime, body| drop(runtime.try_spawn_blocking(body).ok()));
    let left = catch_unwind(AssertUnwindSafe(|| {
        runtime.shutdown_timeout(LIMIT).expect("shut down in time");
    }));
    let panic = left.expect_err("the closure is stuck");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(
        text.starts_with("shut down in time: the runtime `ends` has not ended"),
        "{text}"
    );
    assert!(text.contains("running in `spawn_blocking`"), "{text}");
    let says_how = text.contains("for the stacks of what is left: build with");
    assert_eq!(says_how, !cfg!(feature = "stacks"), "{text}");
    released(release, &used);
}

#[test]
fn a_task_does_not_wait_for_itself() {
    let runtime = runtime();
    let (send, receive) = mpsc::channel::<Runtime>();
    let job = runtime.spawn_job(move || {
        let own = receive.recv().expect("it is sent");
        let start = Instant::now();
        let left = own.shutdown_timeout(Duration::from_secs(1000));
        (left.expect_err("this job runs"), start.elapsed())
    });
    send.send(runtime).expect("the job waits");
    let (remaining, took) = job.wait().expect("no panic");
    assert!(took < LONG, "{took:?}");
    assert!(!remaining.dump.tasks.is_empty(), "{remaining}");
}

/// Handles and pools that outlive the runtime are answered, while a thread is left behind.
#[test]
fn others_are_answered_while_a_thread_is_left() {
    let (runtime, release, used) = stuck(|runtime, body| drop(runtime.spawn_job(body)));
    let pool = runtime.first().clone();
    let waits = runtime.spawn(std::future::pending::<()>());
    let remaining = remaining(runtime);
    assert!(!remaining.dump.tasks.is_empty());
    assert!(pool.try_spawn(async {}).is_err(), "it is closed");
    let _ = pool.dump();
    released(release, &used);
    assert!(waits.wait().is_err());
}

/// A report that is late would make the shutdown late: of very many tasks it names some, and what is stuck.
#[test]
fn of_very_many_tasks_the_stuck_one_is_named() {
    const MANY: usize = 50_000;
    // Another worker would end them.
    let builder = Runtime::builder().workers(1).stuck_after(None);
    let (runtime, release, used) = stuck_in(builder.build().expect("a thread"), |runtime, body| {
        for _ in 0..MANY {
            runtime
                .spawn(warpweft::time::sleep(Duration::from_secs(1000)))
                .detach();
        }
        let sleeping = || runtime.metrics().pools[0].tasks.futures;
        let start = Instant::now();
        while sleeping() < MANY {
            assert!(start.elapsed() < LONG, "they sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(TaskBuilder::new().name("stuck").on(runtime).spawn_job(body));
    });
    let remaining = remaining(runtime);
    let Remaining { dump, .. } = &remaining;
    let (listed, left_out) = (dump.tasks.len(), dump.pools[0].left_out);
    assert!(
        left_out > 0 && listed < MANY,
        "{listed} are listed, and {left_out} are not"
    );
    assert!(listed + left_out >= MANY, "{listed} and {left_out}");
    assert!(
        dump.tasks
            .iter()
            .any(|task| task.name.as_deref() == Some("stuck")),
        "{remaining}"
    );
    assert!(
        remaining.to_string().contains("tasks that wait are left out"),
        "{remaining}"
    );
    assert!(dump.to_json().contains("\"left_out\""));
    released(release, &used);
}

/// Blocks in its destructor until the value says so.
struct Blocks(Arc<AtomicBool>);

impl Drop for Blocks {
    fn drop(&mut self) {
        while !self.0.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_destructor_that_does_not_end_is_said_to_run() {
    for is_queued in [false, true] {
        let runtime = Runtime::builder()
            .workers(1)
            .stuck_after(None)
            .report_stalls_after(None)
            .build();
        let runtime = runtime.expect("a runtime");
        let go = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicBool::new(false));
        if is_queued {
            // It keeps the worker until the runtime closes.
            let begun = Arc::clone(&begun);
            runtime.spawn_detached(move || {
                begun.store(true, Ordering::Release);
                std::thread::sleep(Duration::from_millis(100));
            });
        } else {
            begun.store(true, Ordering::Release);
        }
        while !begun.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let blocks = Blocks(Arc::clone(&go));
        let builder = TaskBuilder::new().name("blocks").on(&runtime);
        let _handle = builder.spawn(async move {
            let _blocks = blocks;
            std::future::pending::<()>().await;
        });
        if !is_queued {
            dump_with("it waits", &runtime, |dump| {
                dump.tasks.iter().any(|task| task.state == TaskState::Waiting)
            });
        }
        let remaining = runtime
            .shutdown_timeout(Duration::from_millis(1500))
            .expect_err("a destructor blocks");
        let dump = &remaining.dump;
        let runs = |task: &TaskDump| {
            task.name.as_deref() == Some("blocks") && matches!(task.state, TaskState::Running(_))
        };
        assert!(dump.tasks.iter().any(runs), "queued {is_queued}: {dump}");
        go.store(true, Ordering::Release);
    }
}
