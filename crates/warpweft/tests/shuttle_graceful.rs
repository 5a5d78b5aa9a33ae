//! Graceful shutdowns under shuttle: no work is dropped that would have ended by itself, in any schedule that
//! is tried.
#![cfg(warpweft_shuttle)]

mod support {
    pub(crate) mod models;
}

use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;
use support::models::{check_fairly, runtime};
use warpweft::sync::oneshot;
use warpweft::{
    GracefulShutdown, Pool, Runtime, ShutdownStep, block_on, fiber, spawn, spawn_job, try_spawn_blocking,
    yield_now,
};

/// Shuts down without a limit, and checks that all of the work has ended.
fn drains(runtime: Runtime, ended: &AtomicUsize, work: usize) {
    let step = runtime.shutdown_gracefully(&GracefulShutdown::within(Duration::MAX));
    assert_eq!(step, Ok(ShutdownStep::Drained));
    assert_eq!(ended.load(Ordering::SeqCst), work, "what has ended");
}

/// Lets the others go on for long, so that the looks of the shutdown come in between.
fn linger() {
    (0..100).for_each(|_| thread::yield_now());
}

fn counter() -> (Arc<AtomicUsize>, impl FnOnce() + Send + Clone + 'static) {
    let ended = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&ended);
    (ended, move || {
        counts.fetch_add(1, Ordering::SeqCst);
    })
}

#[test]
fn jobs_that_spawn_jobs() {
    check_fairly(|| {
        let runtime = runtime(2, "fifo");
        let (ended, end) = counter();
        runtime.spawn_detached(move || {
            let (first, second) = (end.clone(), end.clone());
            spawn_job(move || {
                linger();
                spawn_job(first).detach();
                second();
            })
            .detach();
            end();
        });
        drains(runtime, &ended, 3);
    });
}

#[test]
fn futures_that_yield_and_are_woken_from_outside() {
    check_fairly(|| {
        let runtime = runtime(2, "slot");
        let (ended, end) = counter();
        let (sender, receiver) = oneshot::channel();
        runtime
            .spawn(async move {
                yield_now().await;
                receiver.await.expect("it is sent");
                let inner = end.clone();
                spawn(async move { inner() }).detach();
                end();
            })
            .detach();
        let sends = thread::spawn(move || {
            linger();
            sender.send(()).expect("it waits");
        });
        drains(runtime, &ended, 2);
        sends.join().expect("no panic");
    });
}

#[test]
fn fibers_and_jobs_that_wait_on_their_threads() {
    check_fairly(|| {
        let runtime = runtime(1, "fifo");
        let (ended, end) = counter();
        runtime.spawn_detached(move || {
            let (sender, receiver) = oneshot::channel();
            let inner = end.clone();
            fiber::spawn(move || {
                let (back, comes) = oneshot::channel();
                spawn_job(move || {
                    linger();
                    back.send(()).expect("the fiber waits");
                })
                .detach();
                block_on(comes).expect("it is sent");
                sender.send(()).expect("the job waits");
                inner();
            })
            .detach();
            receiver.wait().expect("it is sent");
            end();
        });
        drains(runtime, &ended, 2);
    });
}

#[test]
fn closures_that_block_and_spawn() {
    check_fairly(|| {
        let runtime = runtime(1, "fifo");
        let (ended, end) = counter();
        runtime.spawn_detached(move || {
            let inner = end.clone();
            let blocks = move || {
                (0..5).for_each(|_| linger());
                let last = inner.clone();
                spawn_job(last).detach();
                inner();
            };
            drop(
                try_spawn_blocking(blocks)
                    .map_err(warpweft::Refused::into_error)
                    .expect("room"),
            );
            warpweft::blocking(linger);
            end();
        });
        drains(runtime, &ended, 3);
    });
}

/// How often the work goes from one pool to the other.
const TIMES: usize = 12;

/// Spawns a job on the first pool that spawns one on the other, and so on.
fn pass_on(times: usize, here: &Pool, there: &Pool, end: impl FnOnce() + Send + Clone + 'static) {
    if let Some(times) = times.checked_sub(1) {
        let (back, on) = (here.clone(), there.clone());
        here.spawn_detached(move || {
            pass_on(times, &on, &back, end.clone());
            end();
        });
    }
}

#[test]
fn pools_that_give_each_other_work() {
    check_fairly(|| {
        let runtime = Runtime::builder()
            .workers(1)
            .then("second", Runtime::builder().workers(1))
            .build()
            .expect("two small pools");
        let (first, second) = (
            runtime.first().clone(),
            runtime.pool("second").expect("there").clone(),
        );
        let (ended, end) = counter();
        pass_on(TIMES, &first, &second, end);
        drop((first, second));
        drains(runtime, &ended, TIMES);
    });
}
