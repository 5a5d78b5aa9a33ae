//! Checks under every schedule that a seed can make: yields of fibers, awaits in futures, and a cancellation
//! that comes meanwhile.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(all(feature = "macros", warpweft_shuttle))]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;
use std::sync::Arc;
use support::{check, check_fairly};
use warpweft::{JoinError, Runtime, cooperate, cooperative, uncooperative};

fn runtime(workers: usize, policy: &str) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .policy_spec(policy.parse().expect("a policy"))
        .quantum(2)
        .build()
        .expect("a small pool")
}

/// Polls until the other one has come. No event announces that it waits: only its checks let others run.
#[cooperative]
fn meet(mine: &AtomicBool, other: &AtomicBool) {
    mine.store(true, Ordering::SeqCst);
    while !other.load(Ordering::SeqCst) {
        thread::yield_now();
    }
}

#[test]
fn hogs_on_one_worker_meet() {
    check_fairly(|| {
        let runtime = runtime(1, "fifo");
        let flags = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let hogs = [(0, 1), (1, 0)].map(|(mine, other)| {
            let flags = Arc::clone(&flags);
            runtime.spawn_fiber(move || meet(&flags[mine], &flags[other]))
        });
        for hog in hogs {
            hog.wait().expect("no panic");
        }
    });
}

#[test]
fn futures_on_one_worker_meet() {
    check_fairly(|| {
        for policy in ["fifo", "lifo"] {
            let runtime = runtime(1, policy);
            let flags = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let hogs = [(0, 1), (1, 0)].map(|(mine, other)| {
                let flags = Arc::clone(&flags);
                runtime.spawn(cooperate!(async move {
                    flags[mine].store(true, Ordering::SeqCst);
                    while !flags[other].load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                }))
            });
            for hog in hogs {
                hog.wait().expect("no panic");
            }
        }
    });
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The cancellation comes before the task starts, while it runs, and while it is in a queue after a check.
#[test]
fn a_cancelled_hog_ends_whatever_it_does_and_drops_what_it_holds() {
    check_fairly(|| {
        for kind in 0..3 {
            let runtime = runtime(1, "fifo");
            let dropped = Arc::new(AtomicUsize::new(0));
            let held = Counted(Arc::clone(&dropped));
            let hog = |held: Counted| {
                move || {
                    let _held = held;
                    meet(&AtomicBool::new(false), &AtomicBool::new(false));
                }
            };
            let task = match kind {
                0 => runtime.spawn_fiber(hog(held)),
                1 => runtime.spawn_job(hog(held)),
                _ => runtime.spawn(cooperate!(async move {
                    let _held = held;
                    loop {
                        thread::yield_now();
                    }
                })),
            };
            assert!(task.cancel());
            assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
            assert_eq!(dropped.load(Ordering::SeqCst), 1);
            assert_eq!(runtime.spawn_job(|| 1).wait().expect("the worker goes on"), 1);
        }
    });
}

/// The pool ends while hogs run: whichever end comes first, each hog has one.
#[test]
fn a_pool_ends_while_hogs_compute() {
    check_fairly(|| {
        let runtime = runtime(2, "fifo");
        let never = Arc::new(AtomicBool::new(false));
        let flags = [0, 1].map(|_| Arc::clone(&never));
        let [first, second] = flags;
        let fiber = runtime.spawn_fiber(move || meet(&AtomicBool::new(false), &first));
        let job = runtime.spawn_job(move || meet(&AtomicBool::new(false), &second));
        fiber.cancel();
        runtime.shutdown();
        for hog in [fiber, job] {
            let ended = hog.wait();
            assert!(matches!(ended, Err(JoinError::Cancelled | JoinError::Shutdown)));
        }
    });
}

/// A wait of uncooperative code switches; while it is away, others of its thread yield.
#[test]
fn uncooperative_code_leaves_others_cooperative() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let fiber = runtime.spawn_fiber(|| {
            uncooperative(|| {
                let before = AtomicUsize::new(0);
                let hog = warpweft::fiber::spawn(|| {
                    cooperate!(for n in [0, 1, 2, 3] {
                        assert!(n < 4);
                    });
                });
                hog.wait().expect("no panic");
                cooperate!(while before.fetch_add(1, Ordering::SeqCst) < 5 {});
            });
        });
        fiber.wait().expect("no panic");
    });
}
