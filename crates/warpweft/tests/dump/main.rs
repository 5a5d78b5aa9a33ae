//! `Runtime::dump`: every task, what it waits for, and which waits cannot end.
//!
//! A runtime whose tasks cannot end is in a `ManuallyDrop`: its end would wait for them, also in a panic.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/look_until.rs"]
mod look_until;
#[path = "../support/public_functions.rs"]
mod public_functions;

mod alike;
mod blocking;
mod complete;
mod cycles;
mod described;
mod diagnosis;
mod idle;
mod kernel;
mod odd;
#[cfg(all(unix, feature = "signal"))]
mod on_signal;
mod permits;
mod queued;
mod readers;
mod running;
mod shutdown;
mod since;
mod unattended;
mod verbs;
mod ways;
mod words;

use look_until::{PATIENCE, look_until};
use warpweft::{Dump, Finding, Runtime, TaskBuilder};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime")
}

fn named<'a>(runtime: &'a Runtime, name: &'static str) -> TaskBuilder<'a> {
    TaskBuilder::new().name(name).on(runtime)
}

/// Waits until a dump satisfies the condition. Returns that dump.
#[track_caller]
fn dump_with(what: &str, runtime: &Runtime, condition: impl Fn(&Dump) -> bool) -> Dump {
    look_until(what, || runtime.dump(), condition)
}

/// The names of the tasks of the first circle.
fn cycle(dump: &Dump) -> Option<Vec<String>> {
    dump.findings.iter().find_map(|finding| match finding {
        Finding::Cycle { tasks, .. } => {
            let name = |&task: &usize| dump.tasks[task].name.clone().unwrap_or_default();
            let mut names: Vec<_> = tasks.iter().map(name).collect();
            names.sort();
            Some(names)
        }
        _ => None,
    })
}

/// What the dump finds, without what it says of a runtime that is fed by the test's own thread.
fn accusations(dump: &Dump) -> Vec<Finding> {
    let is_accusation = |finding: &&Finding| !matches!(finding, Finding::NothingRuns { .. });
    dump.findings.iter().filter(is_accusation).cloned().collect()
}

/// The names of the tasks for which nothing runs.
fn idle(dump: &Dump) -> Option<Vec<String>> {
    dump.findings.iter().find_map(|finding| match finding {
        Finding::NothingRuns { tasks } => {
            let name = |&task: &usize| dump.tasks[task].name.clone().unwrap_or_default();
            let mut names: Vec<_> = tasks.iter().map(name).collect();
            names.sort();
            Some(names)
        }
        _ => None,
    })
}
