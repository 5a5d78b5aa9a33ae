//! The standby poller under shuttle. While all workers are in tasks that take long, one thread is in the
//! poller, and leaves it when the pool ends.
#![cfg(warpweft_shuttle)]

mod support {
    pub(crate) mod models;
}

use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;
use std::sync::Arc;
use support::models::{check_fairly, hog, watched};
use warpweft::io::model::Pipe;
use warpweft::{Runtime, yield_now};

fn pipe(runtime: &Runtime) -> Arc<Pipe> {
    Arc::new(runtime.block_on(async { Pipe::new() }).expect("it lives"))
}

/// Spawns a job that keeps its worker until another task sets the flag.
fn keep_busy(runtime: &Runtime, until: &Arc<AtomicBool>) {
    let until = Arc::clone(until);
    drop(runtime.spawn_job(move || hog(&until)));
}

/// Gives way for so long that in most schedules the standby poller, or a worker without tasks, sleeps
/// afterwards.
fn let_others_sleep() {
    for _ in 0..100 {
        thread::yield_now();
    }
}

/// A task that a pipe wakes continues although every worker computes, repeatedly.
fn a_pipe_during_long_tasks(policy: &str) {
    let runtime = watched(1, policy);
    let pipe = pipe(&runtime);
    let done = Arc::new(AtomicBool::new(false));
    let (out, end) = (Arc::clone(&pipe), Arc::clone(&done));
    let waits = runtime.spawn(async move {
        for _ in 0..2 {
            out.take().await.expect("the pool is open");
        }
        end.store(true, Ordering::SeqCst);
    });
    keep_busy(&runtime, &done);
    let fires = thread::spawn(move || {
        pipe.fire();
        thread::yield_now();
        pipe.fire();
    });
    waits.wait().expect("no panic");
    fires.join().expect("no panic");
    runtime.shutdown();
}

#[test]
fn a_pipe_during_long_tasks_first_in_first_out() {
    check_fairly(|| a_pipe_during_long_tasks("fifo"));
}

#[test]
fn a_pipe_during_long_tasks_last_in_first_out() {
    check_fairly(|| a_pipe_during_long_tasks("lifo"));
}

/// The long task ends while the standby poller is in the poller. Then the pipe fires, and no worker has
/// anything else to do.
#[test]
fn workers_that_sleep_again_are_found() {
    check_fairly(|| {
        let runtime = watched(1, "fifo");
        let pipe = pipe(&runtime);
        let out = Arc::clone(&pipe);
        let waits = runtime.spawn(async move {
            out.take().await.expect("the pool is open");
            yield_now().await;
            out.take().await.expect("the pool is open");
        });
        let done = Arc::new(AtomicBool::new(false));
        keep_busy(&runtime, &done);
        let fires = thread::spawn(move || {
            let_others_sleep();
            done.store(true, Ordering::SeqCst);
            let_others_sleep();
            pipe.fire();
            thread::yield_now();
            pipe.fire();
        });
        waits.wait().expect("no panic");
        fires.join().expect("no panic");
    });
}

/// A task whose push wakes no thread in the poller is found by another compensating worker.
#[test]
fn a_job_during_a_long_task() {
    check_fairly(|| {
        let runtime = watched(1, "fifo");
        let pipe = pipe(&runtime);
        drop(runtime.spawn(async move { pipe.take().await }));
        let done = Arc::new(AtomicBool::new(false));
        keep_busy(&runtime, &done);
        let_others_sleep();
        let job = runtime.spawn_job(|| ());
        job.wait().expect("no panic");
        done.store(true, Ordering::SeqCst);
    });
}

/// No event ever happens in the poller.
#[test]
fn the_pool_closes_while_the_standby_poller_sleeps() {
    check_fairly(|| {
        let runtime = Arc::new(watched(1, "fifo"));
        let pipe = pipe(&runtime);
        drop(runtime.spawn(async move { pipe.take().await }));
        let done = Arc::new(AtomicBool::new(false));
        keep_busy(&runtime, &done);
        let closing = Arc::clone(&runtime);
        let_others_sleep();
        let end = thread::spawn(move || closing.shutdown());
        thread::yield_now();
        done.store(true, Ordering::SeqCst);
        end.join().expect("no panic");
    });
}
