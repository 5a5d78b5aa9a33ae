//! Reports of stuck workers: which there are, and when. Their stacks are in `stalls.rs`, a test of its own.

use super::again::{child, said};
use super::stalls::{self, PATIENCE, Stalls, flag, report};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::{Runtime, TaskBuilder, TaskKind, expect_long};

fn computes(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        black_box((0..100_u64).sum::<u64>());
    }
}

/// A runtime with a worker, and what it reports: without stacks.
fn watched(stuck_after: Duration) -> (Runtime, Stalls) {
    stalls::watched(Runtime::builder().stack_signal(None), stuck_after)
}

#[test]
fn what_is_expected_to_take_long_is_not_reported() {
    // Others may keep the CPU from the worker before and after, which is not expected.
    const STUCK: Duration = Duration::from_millis(100);
    let (runtime, stalls) = watched(STUCK);
    let spin = |time: Duration| {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    };
    let task = runtime.spawn_job(move || {
        expect_long(|| {
            spin(5 * STUCK);
            // A nested one does not end the outer one.
            expect_long(|| spin(STUCK));
            spin(5 * STUCK);
        });
    });
    task.wait().expect("no panic");
    assert_eq!(stalls.lock().expect("no panic").len(), 0);
    // Neither does it count.
    assert_eq!(runtime.stalls(), 0);
    // It counts for this piece of code only, also if it panics.
    let (over, _over) = flag();
    let stop = Arc::clone(&over);
    drop(runtime.spawn_job(move || {
        let panic = std::panic::catch_unwind(|| expect_long(|| std::panic::resume_unwind(Box::new(()))));
        assert!(panic.is_err());
        computes(&stop);
    }));
    report(&stalls, |_| true);
    over.store(true, Ordering::SeqCst);
    // Outside of a task it does nothing.
    assert_eq!(expect_long(|| 7), 7);
}

/// Code that was expected to take long does not make what follows it late.
#[test]
fn the_time_counts_from_the_end_of_what_is_expected() {
    const STUCK: Duration = Duration::from_millis(100);
    let (runtime, stalls) = watched(STUCK);
    let (over, _over) = flag();
    drop(runtime.spawn_job(move || {
        expect_long(|| thread::sleep(30 * STUCK));
        computes(&over);
    }));
    let stall = report(&stalls, |_| true);
    assert!(stall.stuck_for < 25 * STUCK, "{stall}");
}

/// The task waits for the half of its join that another worker has taken. Before it sleeps it gives its CPU
/// away some times, which takes long beside foreign load.
#[test]
fn a_fork_is_reported_with_the_task_to_which_it_belongs() {
    let stalls = Stalls::default();
    let heard = Arc::clone(&stalls);
    let runtime = Runtime::builder()
        .workers(2)
        .stuck_after(Some(Duration::from_secs(2)))
        .on_stall(move |stall| heard.lock().expect("no panic").push(stall.clone()))
        .build()
        .expect("threads");
    let (over, _over) = flag();
    let is_taken = AtomicBool::new(false);
    let line = line!() + 1;
    let outer = TaskBuilder::new().name("outer").on(&runtime).spawn_job(move || {
        let first = || {
            while !is_taken.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        };
        let second = || {
            is_taken.store(true, Ordering::SeqCst);
            computes(&over);
        };
        warpweft::join(first, second);
    });
    drop(outer);
    let start = Instant::now();
    let stall = loop {
        let all = stalls.lock().expect("no panic").clone();
        if let Some(stall) = all.into_iter().find(|stall| stall.kind == Some(TaskKind::Fork)) {
            break stall;
        }
        assert!(start.elapsed() < PATIENCE, "no report of the fork");
        thread::sleep(Duration::from_millis(2));
    };
    assert_eq!(stall.name.as_deref(), Some("outer"), "{stall}");
    assert_eq!(
        stall.spawned_at.map(std::panic::Location::line),
        Some(line),
        "{stall}"
    );
    assert!(
        stall
            .to_string()
            .contains("a fork of the task `outer`, spawned at"),
        "{stall}"
    );
}

/// A fiber that continues leaves the worker's word as the task before has set it.
#[test]
fn a_fiber_that_has_waited_is_not_reported_as_the_task_before() {
    // This is long, so that the future itself is not reported where others keep the CPU from it.
    let (runtime, stalls) = watched(Duration::from_secs(1));
    let (over, _over) = flag();
    let (wake, woken) = warpweft::sync::channel::bounded::<()>(1);
    let first = runtime.spawn_fiber(move || {
        woken.recv().wait().expect("it is sent");
        computes(&over);
    });
    // This future is the last task that begins: the fiber continues behind it.
    drop(runtime.spawn(async move { wake.send(()).await.expect("it waits") }));
    let stall = report(&stalls, |_| true);
    assert_ne!(stall.kind, Some(TaskKind::Future), "{stall}");
    let text = stall.to_string();
    assert!(
        text.contains("a fiber that has waited before") || stall.kind == Some(TaskKind::Fiber),
        "{text}"
    );
    drop(first);
}

/// Three sites, and four tasks of one site with different names, stall as often as they can for some seconds.
#[test]
fn at_most_one_report_a_second_is_written() {
    let body = || {
        let runtime = Runtime::builder()
            .workers(1)
            .stuck_after(Some(Duration::from_millis(5)))
            .stack_signal(None)
            .build()
            .expect("threads");
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            let sleep = || thread::sleep(Duration::from_millis(20));
            runtime.spawn_job(sleep).wait().expect("no panic");
            runtime.spawn_job(sleep).wait().expect("no panic");
            runtime.spawn_job(sleep).wait().expect("no panic");
            for name in ["north", "east", "south", "west"] {
                let named = TaskBuilder::new().name(name).on(&runtime);
                named.spawn_job(sleep).wait().expect("no panic");
            }
        }
        let seconds = start.elapsed().as_secs();
        eprintln!("it took {seconds} seconds, with {} stalls", runtime.stalls());
    };
    let Some(child) = child("stall_reports::at_most_one_report_a_second_is_written", body) else {
        return;
    };
    let text = said(child);
    let took = text
        .split("it took ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let seconds: usize = took.and_then(|took| took.parse().ok()).expect("it says so");
    let reports = text.matches("warpweft: worker").count();
    // The first ones of each site and name come apart from the others.
    assert!(
        (9..=seconds + 2 + 7).contains(&reports),
        "{reports} in {seconds} s: {text}"
    );
    assert!(text.contains("left out before this one"), "{text}");
    let tasks: std::collections::BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.split(" ms in ").nth(1))
        // A worker in no task is reported, too, if others keep the CPU from it.
        .filter(|task| !task.starts_with("a fork"))
        .collect();
    assert_eq!(tasks.len(), 7, "{text}");
}

/// The process is stopped in the middle of tasks that are not too long.
#[test]
fn a_process_that_was_stopped_reports_nothing() {
    const STUCK: Duration = Duration::from_secs(1);
    let body = || {
        let (runtime, stalls) = watched(STUCK);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(7) {
            let task = runtime.spawn_job(|| {
                let start = Instant::now();
                while start.elapsed() < STUCK / 4 {
                    std::hint::spin_loop();
                }
            });
            task.wait().expect("no panic");
        }
        let stalls = stalls.lock().expect("no panic").clone();
        assert!(stalls.is_empty(), "{stalls:#?}");
    };
    let Some(child) = child("stall_reports::a_process_that_was_stopped_reports_nothing", body) else {
        return;
    };
    let id = libc::pid_t::try_from(child.id()).expect("a number");
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(700));
        for signal in [libc::SIGSTOP, libc::SIGCONT] {
            // SAFETY: it takes numbers, of a child that was not waited for.
            unsafe { libc::kill(id, signal) };
            thread::sleep(Duration::from_millis(1200));
        }
    }
    said(child);
}

/// A computation of a second that forks all the time is what a pool is for; a half of it that blocks is not.
#[test]
fn a_computation_that_forks_is_not_reported() {
    fn spin(cx: warpweft::ForkCx<'_>, depth: u32, end: Instant) {
        if depth > 0 {
            cx.join(|cx| spin(cx, depth - 1, end), |cx| spin(cx, depth - 1, end));
        } else if Instant::now() < end {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(1) {}
        }
    }
    let body = || {
        let runtime = Runtime::builder()
            .workers(2)
            .stuck_after(Some(Duration::from_millis(100)))
            .build()
            .expect("threads");
        // The other worker is kept from the forks, by a task that says so.
        let (over, _over) = flag();
        let stop = Arc::clone(&over);
        drop(runtime.spawn_job(move || expect_long(|| computes(&stop))));
        // The deepest leaves are done a thousand times within the time, and nothing else is.
        let end = Instant::now() + Duration::from_millis(800);
        runtime.install(|cx| spin(cx, 11, end)).expect("it is open");
        assert!(runtime.stalls() > 0, "no worker was stuck");
        // Here nothing is on offer, and it is reported.
        runtime
            .install(|cx| cx.join(|_| (), |_| thread::sleep(Duration::from_millis(600))))
            .expect("it is open");
        over.store(true, Ordering::SeqCst);
    };
    let Some(child) = child("stall_reports::a_computation_that_forks_is_not_reported", body) else {
        return;
    };
    let text = said(child);
    assert_eq!(text.matches("warpweft: worker").count(), 1, "{text}");
    assert!(text.contains("clock_nanosleep"), "{text}");
}
