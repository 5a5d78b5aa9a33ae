//! Frames that run parts of the half that they wait for: such a part may end on a worker that its waiting
//! frame then gets.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use warpweft::{ForkCx, Pool, Runtime, join, scope};

/// How often a closure found that its thread carries no worker.
static ASTRAY: AtomicUsize = AtomicUsize::new(0);

fn note() {
    if Pool::current_worker().is_none() {
        ASTRAY.fetch_add(1, Ordering::Relaxed);
    }
    // Other threads come meanwhile.
    thread::yield_now();
}

fn tree(cx: ForkCx<'_>, depth: usize) {
    if depth == 0 {
        return note();
    }
    cx.join(
        |cx| {
            tree(cx, depth - 1);
            note();
        },
        |cx| {
            note();
            tree(cx, depth - 1);
        },
    );
    note();
}

fn workers(count: usize) -> Runtime {
    Runtime::builder()
        .workers(count)
        .stuck_after(None)
        .build()
        .expect("workers")
}

/// After each join, a frame is on a worker again, whoever has run what.
#[test]
fn a_frame_has_a_worker_again_when_its_join_returns() {
    for count in [2, 4, 8] {
        let runtime = workers(count);
        for _ in 0..20 {
            runtime
                .install(|cx| cx.join(|cx| tree(cx, 8), |cx| tree(cx, 8)))
                .expect("open");
        }
    }
    assert_eq!(ASTRAY.load(Ordering::Relaxed), 0);
}

fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

/// A part spawns into a scope of the stack that runs it, and ends at once while its owner waits for it. The
/// owner continues with the worker, and the job is still on offer.
#[test]
fn a_job_on_offer_is_not_lost_with_the_worker() {
    let (done, ended) = channel();
    thread::spawn(move || {
        parts_that_spawn();
        done.send(()).expect("the test waits");
    });
    let in_time = ended.recv_timeout(Duration::from_secs(30));
    in_time.expect("a job or a worker is lost, or the thread has panicked");
}

fn parts_that_spawn() {
    let runtime = workers(2);
    for _ in 0..20 {
        let (stolen, part_began, ran) = (
            AtomicBool::new(false),
            AtomicBool::new(false),
            AtomicUsize::new(0),
        );
        let (jobs_ran, after) = runtime
            .install(|_| {
                scope(|jobs| {
                    join(
                        || until(&stolen),
                        || {
                            stolen.store(true, Ordering::Release);
                            join(
                                || until(&part_began),
                                || {
                                    part_began.store(true, Ordering::Release);
                                    // The owner of this part sleeps by then.
                                    thread::sleep(Duration::from_millis(3));
                                    jobs.spawn(|_| _ = ran.fetch_add(1, Ordering::Relaxed));
                                },
                            );
                        },
                    );
                });
                (ran.load(Ordering::Relaxed), Pool::current_worker())
            })
            .expect("open");
        assert_eq!(jobs_ran, 1);
        assert!(after.is_some());
    }
}
