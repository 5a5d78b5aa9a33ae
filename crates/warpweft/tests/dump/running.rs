//! For how long tasks that run have done so.

use super::dump_with;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use warpweft::{Dump, Runtime, TaskBuilder, TaskDump, TaskState};

const A_WHILE: Duration = Duration::from_millis(60);

fn named<'a>(dump: &'a Dump, name: &str) -> Option<&'a TaskDump> {
    dump.tasks.iter().find(|task| task.name.as_deref() == Some(name))
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
    let body = || {
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(SeqCst) {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    };
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
