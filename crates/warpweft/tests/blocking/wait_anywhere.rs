//! Waiting works anywhere: see `tests/support/matrix.rs` for the table.
#![cfg(feature = "net")]

use crate::matrix::{builder, every_cell, every_column_at_once, is_on_top, marked};
use std::sync::Arc;
use warpweft::policy::Count;
use warpweft::{Io, Runtime, spawn_job};

fn everywhere(program: impl Fn(&str, &Arc<Runtime>)) {
    for workers in [1, 2, 4] {
        for policy in ["fifo", "lifo", "prows"] {
            let runtime = Arc::new(builder(workers, policy).build().expect("workers"));
            program(&format!("{workers} {policy}"), &runtime);
        }
    }
}

#[test]
fn everybody_waits_for_everything() {
    everywhere(|setting, runtime| {
        every_cell(setting, runtime, true);
        let stacked = runtime.counters().total().get(Count::Stacked);
        assert_eq!(stacked, 0, "{setting}");
    });
}

#[test]
fn all_at_once() {
    everywhere(|setting, runtime| every_column_at_once(setting, runtime, true));
}

#[test]
fn with_a_thread_that_polls() {
    let runtime = builder(1, "fifo").io(Io::Thread).build().expect("a worker");
    let runtime = Arc::new(runtime);
    every_cell("polled by a thread", &runtime, true);
    every_column_at_once("polled by a thread", &runtime, true);
}

/// Alive beats pure: without spare threads all of it works, on top of frames that wait.
#[test]
fn without_spare_threads() {
    for workers in [1, 2] {
        let runtime = builder(workers, "fifo").max_threads(workers).build();
        let runtime = Arc::new(runtime.expect("workers"));
        every_cell(&format!("{workers} without spares"), &runtime, false);
        assert!(runtime.counters().total().get(Count::Stacked) > 0);
    }
}

/// What the matrix looks for can be found.
#[test]
fn work_on_top_is_seen() {
    let runtime = builder(1, "fifo").max_threads(1).build().expect("a worker");
    let job = runtime.spawn_job(|| {
        let other = spawn_job(is_on_top);
        marked(|| {
            let last = spawn_job(|| ());
            last.wait().expect("no panic");
        });
        other.wait().expect("no panic")
    });
    assert!(job.wait().expect("no panic"));
}
