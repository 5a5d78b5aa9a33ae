//! Reports of stuck workers, with the stack of the code that is stuck. It has its own process, because the
//! handler of a signal belongs to the process.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(warpweft_loom, warpweft_shuttle))
))]

#[path = "support/again.rs"]
mod again;
#[path = "support/stalls.rs"]
mod stalls;

use again::{child, said};
use stalls::{PATIENCE, Stalls, flag, report, watched};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::{NoStack, Runtime, Stall, TaskBuilder, TaskKind, fiber};

/// Longer than others keep the CPU from a worker before it is in the function that is to be named.
const STUCK_AFTER: Duration = Duration::from_secs(1);

#[inline(never)]
fn guilty_that_computes(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        black_box((0..100_u64).sum::<u64>());
    }
}

#[inline(never)]
fn guilty_that_sleeps(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Checks a report on one of the functions above.
fn check(stall: &Stall, kind: TaskKind, line: u32, guilty: &str) {
    assert_eq!(stall.kind, Some(kind), "{stall}");
    let site = stall.spawned_at.expect("it is known");
    assert_eq!((site.file(), site.line()), (file!(), line), "{stall}");
    let stack = stall.stack.as_ref().expect("it has a stack");
    let names: Vec<_> = stack
        .frames
        .iter()
        .filter_map(|frame| frame.function.as_deref())
        .collect();
    assert!(names.iter().any(|name| name.contains(guilty)), "{names:#?}");
    assert_eq!(
        stack.cut, None,
        "the root of the stack is not reached: {names:#?}"
    );
    assert!(stall.to_string().contains(guilty), "{stall}");
    assert!(!stall.to_string().contains("warpweft_task::"), "{stall}");
}

#[test]
fn a_closure_that_computes_is_named() {
    let (runtime, stalls) = watched(Runtime::builder(), STUCK_AFTER);
    let (over, _over) = flag();
    let line = line!() + 1;
    drop(runtime.spawn_job(move || guilty_that_computes(&over)));
    let stall = report(&stalls, |_| true);
    check(&stall, TaskKind::Job, line, "guilty_that_computes");
    let thread_state = stall.thread_state.clone().expect("Linux tells");
    assert_eq!(
        (thread_state.state, thread_state.system_call),
        ('R', None),
        "{stall}"
    );
    assert!(stall.to_string().contains("it computes"), "{stall}");
}

#[test]
fn a_future_that_sleeps_in_the_kernel_is_named() {
    let (runtime, stalls) = watched(Runtime::builder(), STUCK_AFTER);
    let (over, _over) = flag();
    let line = line!() + 1;
    drop(runtime.spawn(async move { guilty_that_sleeps(&over) }));
    let stall = report(&stalls, |_| true);
    check(&stall, TaskKind::Future, line, "guilty_that_sleeps");
}

#[test]
fn a_lock_that_is_never_free_is_a_futex() {
    let (runtime, stalls) = watched(Runtime::builder(), STUCK_AFTER);
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().expect("no panic");
    let its = Arc::clone(&lock);
    drop(runtime.spawn_job(move || drop(its.lock())));
    let stall = report(&stalls, |_| true);
    let thread_state = stall.thread_state.clone().expect("Linux tells");
    assert_eq!(
        (thread_state.state, thread_state.system_call_name),
        ('S', Some("futex"))
    );
    assert!(stall.to_string().contains("it blocks in the kernel"), "{stall}");
    assert!(
        stall.to_string().contains("which waits for the word at 0x"),
        "{stall}"
    );
    assert!(stall.stack.is_ok(), "{stall}");
    drop(held);
}

#[test]
fn a_fiber_that_computes_is_named() {
    let (runtime, stalls) = watched(Runtime::builder(), STUCK_AFTER);
    let (over, _over) = flag();
    let line = line!() + 1;
    drop(runtime.spawn_fiber(move || guilty_that_computes(&over)));
    check(
        &report(&stalls, |_| true),
        TaskKind::Fiber,
        line,
        "guilty_that_computes",
    );
}

/// After a wait the worker's word is about another task: the stack says which fiber it is.
#[test]
fn a_fiber_that_has_waited_is_named() {
    let (runtime, stalls) = watched(Runtime::builder(), STUCK_AFTER);
    let (over, _over) = flag();
    let line = line!() + 1;
    let builder = TaskBuilder::new().name("waited").on(&runtime);
    let fiber = builder.spawn_fiber(move || {
        // The next task begins meanwhile, and is told of otherwise.
        for _ in 0..3 {
            fiber::yield_now();
        }
        guilty_that_computes(&over);
    });
    for _ in 0..10 {
        drop(runtime.spawn(async {}));
    }
    let stall = report(&stalls, |_| true);
    check(&stall, TaskKind::Fiber, line, "guilty_that_computes");
    assert_eq!(stall.name.as_deref(), Some("waited"));
    drop(fiber);
}

#[test]
fn a_deep_fiber_is_unwound_to_its_root() {
    #[inline(never)]
    fn deeper(levels: u32, over: &AtomicBool) -> u64 {
        match black_box(levels) {
            0 => guilty_that_computes(over),
            _ => _ = deeper(levels - 1, over),
        }
        black_box(1)
    }
    let (runtime, stalls) = watched(Runtime::builder(), STUCK_AFTER);
    let (over, _over) = flag();
    drop(runtime.spawn_fiber(move || deeper(50, &over)));
    let stall = report(&stalls, |_| true);
    let stack = stall.stack.expect("it has a stack");
    let depth = stack.frames.iter().filter(|frame| {
        let name = frame.function.as_deref().unwrap_or_default();
        name.contains("deeper") && !name.contains("closure")
    });
    assert_eq!((depth.count(), stack.cut), (51, None));
}

#[test]
fn what_waits_behind_is_counted() {
    let (runtime, stalls) = watched(Runtime::builder(), STUCK_AFTER);
    let (over, _over) = flag();
    drop(runtime.spawn_job(move || {
        for _ in 0..20 {
            let over = Arc::clone(&over);
            // Who takes one is stuck, too, so that the others stay.
            drop(warpweft::spawn_job(move || guilty_that_sleeps(&over)));
        }
        guilty_that_sleeps(&over);
    }));
    let stall = report(&stalls, |stall| stall.worker == 0);
    assert!(
        stall.behind.tasks.is_some_and(|tasks| tasks > 0 && tasks <= 20),
        "{stall}"
    );
    assert!(stall.to_string().contains("in its queue"), "{stall}");
}

#[test]
fn without_a_signal_there_is_no_stack() {
    for (signal, expected) in [(None, "`None`"), (Some(9), "signal 9 cannot be handled")] {
        let stalls = Stalls::default();
        let heard = Arc::clone(&stalls);
        let runtime = Runtime::builder()
            .workers(1)
            .stack_signal(signal)
            .stuck_after(Some(STUCK_AFTER))
            .on_stall(move |stall| heard.lock().expect("no panic").push(stall.clone()))
            .build()
            .expect("threads");
        let (over, _over) = flag();
        drop(runtime.spawn_job(move || guilty_that_computes(&over)));
        let stall = report(&stalls, |_| true);
        assert!(stall.stack.is_err());
        assert!(stall.to_string().contains(expected), "{stall}");
        assert_eq!(signal.is_none(), stall.stack == Err(NoStack::Off));
    }
}

#[test]
fn a_signal_that_the_program_chooses_is_used() {
    let stalls = Stalls::default();
    let heard = Arc::clone(&stalls);
    let runtime = Runtime::builder()
        .workers(1)
        .stack_signal(Some(libc::SIGRTMAX() - 3))
        .stuck_after(Some(STUCK_AFTER))
        .on_stall(move |stall| heard.lock().expect("no panic").push(stall.clone()))
        .build()
        .expect("threads");
    let (over, _over) = flag();
    drop(runtime.spawn_job(move || guilty_that_computes(&over)));
    assert!(
        report(&stalls, |_| true)
            .to_string()
            .contains("guilty_that_computes")
    );
}

/// Stacks are read in the middle of panics that unwind, of fibers that begin and end, and of switches.
#[test]
fn stacks_are_read_while_tasks_panic() {
    let reports = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reports);
    let runtime = Runtime::builder()
        .workers(2)
        .stuck_after(Some(Duration::from_micros(200)))
        .on_stall(move |_| _ = count.fetch_add(1, Ordering::Relaxed))
        .build()
        .expect("threads");
    let start = Instant::now();
    let panics = |levels: u32| {
        #[inline(never)]
        fn deep(levels: u32) {
            let _kept = black_box(vec![levels]);
            if levels == 0 {
                std::panic::resume_unwind(Box::new(()));
            }
            deep(black_box(levels - 1));
        }
        for _ in 0..200 {
            assert!(std::panic::catch_unwind(|| deep(levels)).is_err());
        }
        std::panic::resume_unwind(Box::new(()));
    };
    while reports.load(Ordering::Relaxed) < 200 {
        assert!(start.elapsed() < PATIENCE, "{reports:?} reports");
        let job = runtime.spawn_job(move || panics(20));
        let fiber = runtime.spawn_fiber(move || {
            fiber::yield_now();
            panics(10);
        });
        assert!(job.wait().is_err() && fiber.wait().is_err());
    }
}

/// Nothing is set: a worker that sleeps is reported.
#[test]
fn by_default_a_stall_is_written_to_the_standard_error_stream() {
    let body = || {
        let runtime = Runtime::builder().workers(1).build().expect("threads");
        let task = runtime.spawn_job(|| {
            // Long enough to read the symbols of a program that was built without optimisation.
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(4) {
                thread::sleep(Duration::from_secs(4));
            }
        });
        task.wait().expect("no panic");
    };
    let test = "by_default_a_stall_is_written_to_the_standard_error_stream";
    let Some(child) = child(test, body) else { return };
    let text = said(child);
    // It is a compensating worker, if others kept the CPU from the first.
    let worker = ["warpweft: worker ", " of `warpweft` has been for"];
    assert!(worker.iter().all(|part| text.contains(part)), "{text}");
    assert!(
        text.contains("in a job spawned at crates/warpweft/tests/stalls.rs"),
        "{text}"
    );
    assert!(
        text.contains("stalls::by_default") && text.contains("expect_long"),
        "{text}"
    );
}

/// Drops a runtime while a job of it sleeps for four seconds.
fn ends_during_a_job(builder: warpweft::Builder, after: Duration) {
    let runtime = builder.workers(2).build().expect("threads");
    let (begin, begun) = mpsc::channel();
    let job = TaskBuilder::new().name("late").on(&runtime).spawn_job(move || {
        begin.send(()).expect("the test waits");
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(4) {
            thread::sleep(Duration::from_secs(4));
        }
    });
    drop(job);
    begun.recv().expect("it begins");
    thread::sleep(after);
    drop(runtime);
}

/// The runtime begins to end before the report is due. The worker that has left is not reported.
#[test]
fn what_holds_up_the_end_of_a_runtime_is_reported() {
    let body = || ends_during_a_job(Runtime::builder(), Duration::from_millis(50));
    let Some(child) = child("what_holds_up_the_end_of_a_runtime_is_reported", body) else {
        return;
    };
    let text = said(child);
    assert_eq!(text.matches("has been for").count(), 1, "{text}");
    assert!(text.contains("in the job `late`, spawned at"), "{text}");
    assert!(text.contains("stalls::ends_during_a_job"), "{text}");
}

/// The report is written before the runtime ends, and the names of its functions are read meanwhile.
#[test]
fn the_names_of_a_report_follow_while_the_runtime_ends() {
    let body = || {
        let soon = Some(Duration::from_millis(20));
        let builder = Runtime::builder().report_stalls_after(soon);
        ends_during_a_job(builder, Duration::from_millis(100));
    };
    let Some(child) = child("the_names_of_a_report_follow_while_the_runtime_ends", body) else {
        return;
    };
    let text = said(child);
    assert!(text.contains("stalls::ends_during_a_job"), "{text}");
}

/// The names of a report are not read in the time that the end of a runtime may take. They are left out then,
/// and the runtime counts as ended.
#[test]
fn the_names_of_a_report_do_not_prolong_the_end_of_a_runtime() {
    let body = || {
        let runtime = Runtime::builder()
            .workers(1)
            .report_stalls_after(Some(Duration::from_millis(5)))
            .build()
            .expect("threads");
        let job = runtime.spawn_job(|| thread::sleep(Duration::from_millis(30)));
        job.wait().expect("no panic");
        let end = runtime.shutdown_timeout(Duration::from_millis(60));
        end.unwrap_or_else(|remaining| panic!("{remaining}"));
    };
    let test = "the_names_of_a_report_do_not_prolong_the_end_of_a_runtime";
    let Some(child) = child(test, body) else { return };
    let text = said(child);
    assert!(text.contains("has been for"), "{text}");
}

/// A task that blocks while it holds the lock of the standard error stream holds no report up, and the tasks
/// behind it run.
#[test]
fn the_monitor_does_not_wait_for_the_standard_error_stream() {
    let body = || {
        let runtime = Runtime::builder().workers(1).build().expect("threads");
        let (over, _over) = flag();
        let stop = Arc::clone(&over);
        let stuck = runtime.spawn_job(move || {
            let _lock = std::io::stderr().lock();
            guilty_that_sleeps(&stop);
        });
        thread::sleep(Duration::from_secs(4));
        for _ in 0..3 {
            // A compensating worker runs them, though a report waits for the stream.
            runtime.spawn_job(|| ()).wait().expect("no panic");
        }
        over.store(true, Ordering::SeqCst);
        stuck.wait().expect("no panic");
    };
    let Some(child) = child("the_monitor_does_not_wait_for_the_standard_error_stream", body) else {
        return;
    };
    let text = said(child);
    assert!(text.contains("guilty_that_sleeps"), "{text}");
}
