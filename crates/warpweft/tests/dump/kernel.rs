//! What the threads of tasks that run do in the kernel.
#![cfg(target_os = "linux")]

use super::{dump_with, named};
use std::mem::ManuallyDrop;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use warpweft::{Dump, Finding, Runtime, TaskDump, fiber, time::sleep};

fn runtime() -> Runtime {
    let builder = Runtime::builder().workers(2).on_stall(|_| ());
    builder.build().expect("a runtime")
}

#[track_caller]
fn task<'a>(dump: &'a Dump, name: &str) -> Option<&'a TaskDump> {
    dump.tasks.iter().find(|task| task.name.as_deref() == Some(name))
}

/// The names of the tasks that block, each word by itself.
fn blocked(dump: &Dump) -> Vec<Vec<String>> {
    let names = |finding: &Finding| match finding {
        Finding::BlocksInKernel { tasks, .. } => {
            let name = |&task: &usize| dump.tasks[task].name.clone().unwrap_or_default();
            Some(tasks.iter().map(name).collect())
        }
        _ => None,
    };
    let mut all: Vec<Vec<String>> = dump.findings.iter().filter_map(names).collect();
    all.iter_mut().for_each(|names| names.sort());
    all.sort();
    all
}

/// A fiber is suspended with a lock of the standard library. Another one blocks its worker for it.
#[test]
fn a_lock_of_a_suspended_fiber() {
    let runtime = ManuallyDrop::new(runtime());
    let lock = Arc::new(Mutex::new(()));
    let (held, tell) = (lock.clone(), channel());
    drop(named(&runtime, "holds").spawn_fiber(move || {
        let _guard = held.lock().expect("no panic");
        tell.0.send(()).expect("it is heard");
        fiber::wait(sleep(Duration::from_secs(3600)));
    }));
    tell.1.recv().expect("it has the lock");
    drop(named(&runtime, "wants").spawn_fiber(move || drop(lock.lock())));
    let dump = dump_with("the finding", &runtime, |dump| !blocked(dump).is_empty());
    assert_eq!(blocked(&dump), [["wants"]], "{dump}");
    let text = dump.to_string();
    assert!(
        text.contains("BLOCKED IN THE KERNEL: 1 task has waited"),
        "{text}"
    );
    assert!(text.contains("sleeps in system call futex"), "{text}");
    assert!(
        dump.to_json().contains("\"finding\":\"blocks_in_kernel\""),
        "{text}"
    );
}

/// Two jobs take two locks of the standard library in opposite order, and two more want one of them.
#[test]
fn two_locks_in_opposite_order() {
    let runtime = ManuallyDrop::new(runtime());
    let locks = [(); 2].map(|()| Arc::new(Mutex::new(())));
    let both = Arc::new(Barrier::new(2));
    for (name, first, second) in [("left first", 0, 1), ("right first", 1, 0)] {
        let (first, second) = (locks[first].clone(), locks[second].clone());
        let both = both.clone();
        drop(named(&runtime, name).spawn_job(move || {
            let _first = first.lock().expect("no panic");
            both.wait();
            let _second = second.lock();
        }));
    }
    let dump = dump_with("both", &runtime, |dump| blocked(dump).len() == 2);
    assert_eq!(blocked(&dump), [["left first"], ["right first"]], "{dump}");
}

/// Closures that may block are named if several do so for the same.
#[test]
fn closures_that_may_block() {
    let runtime = ManuallyDrop::new(runtime());
    let (orders, wait) = channel::<()>();
    let alone = named(&runtime, "waits for orders").spawn_job(move || warpweft::blocking(|| wait.recv()));
    let lock = Arc::new(Mutex::new(()));
    let guard = lock.lock().expect("no panic");
    for name in ["one", "two"] {
        let lock = lock.clone();
        drop(named(&runtime, name).spawn_job(move || warpweft::blocking(|| drop(lock.lock()))));
    }
    let call = |dump: &Dump| {
        let state = task(dump, "waits for orders").and_then(|task| task.thread_state.clone());
        state.and_then(|state| state.system_call_name)
    };
    let dump = dump_with("the finding", &runtime, |dump| {
        !blocked(dump).is_empty() && call(dump) == Some("futex")
    });
    assert_eq!(blocked(&dump), [["one", "two"]], "{dump}");
    drop((guard, orders));
    assert!(alone.wait().expect("no panic").is_err());
}

/// A lock that changes hands, a thread that sleeps and one that computes.
#[test]
fn what_goes_on_is_not_named() {
    let runtime = runtime();
    let lock = Arc::new(Mutex::new(0_u64));
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    // Whoever unlocks takes the lock again before the other one is awake. So that one waits nearly always,
    // and at both of a dump's looks.
    let tasks = [("has it for long", true), ("has it briefly", false)].map(|(name, is_long)| {
        let (lock, is_over) = (lock.clone(), is_over.clone());
        named(&runtime, name).spawn_job(move || {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let mut count = lock.lock().expect("no panic");
                *count += 1;
                if !is_long {
                    drop(count);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    });
    let calls = |dump: &Dump| -> Vec<&'static str> {
        let states = dump.tasks.iter().filter_map(|task| task.thread_state.as_ref());
        states.filter_map(|state| state.system_call_name).collect()
    };
    dump_with("one sleeps", &runtime, |dump| {
        calls(dump).contains(&"clock_nanosleep")
    });
    // Of the dumps that took two looks, as one of the tasks waited for the lock at the first one.
    let (mut looked, mut named_in) = (0, 0);
    let all_looks = Instant::now();
    while looked < 20 && all_looks.elapsed() < Duration::from_secs(60) {
        let start = Instant::now();
        let dump = runtime.dump();
        looked += usize::from(start.elapsed() >= Duration::from_millis(50));
        // A machine with much else to do may give its owner no CPU for 50 ms.
        named_in += usize::from(!blocked(&dump).is_empty());
    }
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    for task in tasks {
        task.wait().expect("no panic");
    }
    assert_eq!(looked, 20, "a dump looks twice where one of them waits");
    assert!(named_in < 8, "in {named_in} of 20 dumps");
    let is_seen = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stops = is_seen.clone();
    let computes = named(&runtime, "computes")
        .spawn_job(move || while !stops.load(std::sync::atomic::Ordering::Relaxed) {});
    let runs = |dump: &Dump| {
        let state = task(dump, "computes").and_then(|task| task.thread_state.as_ref());
        state.is_some_and(|state| state.state == 'R')
    };
    dump_with("it runs", &runtime, runs);
    is_seen.store(true, std::sync::atomic::Ordering::Relaxed);
    computes.wait().expect("no panic");
}
