//! The life of a fiber under every schedule that a seed can make: start, wait, wake, continue on its thread,
//! end with the pool.
//!
//! A fiber's stack is a thread here, and only one of these threads runs at a time
//! (`src/coroutine/on_thread.rs`).
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use support::{Gate, check, check_fairly, check_often, runtime};
use warpweft::{JoinError, Runtime, block_on, fiber, join, spawn_job};

#[test]
fn a_fiber_starts_and_ends() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let fibers = [1, 2, 3].map(|n| runtime.spawn_fiber(move || n));
        assert_eq!(fibers.map(|fiber| fiber.wait().expect("no panic")), [1, 2, 3]);
        assert_eq!(runtime.fibers().live, 0);
    });
}

#[test]
fn a_wake_before_during_and_after_the_suspension() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let waiting = gate.clone();
        let fiber = runtime.spawn_fiber(move || block_on(waiting));
        let opener = thread::spawn(move || gate.open());
        let other = runtime.spawn_job(|| 1);
        assert_eq!(other.wait().expect("no panic"), 1);
        fiber.wait().expect("no panic");
        opener.join().expect("no panic");
    });
}

#[test]
fn a_wake_reaches_a_sleeping_home() {
    check_fairly(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let waiting = gate.clone();
        let fiber = runtime.spawn_fiber(move || block_on(waiting));
        while runtime.fibers().live == 0 || runtime.idle_workers().1 == 0 {
            thread::yield_now();
        }
        gate.open();
        fiber.wait().expect("no panic");
    });
}

/// The fiber yields repeatedly; in between a job blocks its thread, and waits for it.
#[test]
fn the_home_is_blocked_while_its_fiber_is_ready() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let opens = gate.clone();
        let fiber = runtime.spawn_fiber(move || {
            for _ in 0..4 {
                fiber::yield_now();
            }
            opens.open();
        });
        let job = runtime.spawn_job(move || block_on(gate));
        job.wait().expect("no panic");
        fiber.wait().expect("no panic");
    });
}

#[test]
fn fibers_wait_for_each_other_and_give_way() {
    check(|| {
        let runtime = runtime(2, "lifo");
        let outer = runtime.spawn_fiber(|| {
            let inner = fiber::spawn(|| {
                fiber::yield_now();
                1
            });
            fiber::yield_now();
            inner.wait().expect("no panic") + spawn_job(|| 1).wait().expect("no panic")
        });
        assert_eq!(outer.wait().expect("no panic"), 2);
    });
}

/// The fiber waits for its gate; then a job waits, perhaps on the fiber's thread, for an event that only the
/// fiber causes.
#[test]
fn the_home_thread_is_blocked_by_a_job_that_waits_for_the_fiber() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let (first, second) = (Gate::default(), Gate::default());
        let (waiting, opens) = (first.clone(), second.clone());
        let fiber = runtime.spawn_fiber(move || {
            block_on(waiting);
            fiber::yield_now();
            opens.open();
        });
        let job = runtime.spawn_job(move || block_on(second));
        first.open();
        job.wait().expect("no panic");
        fiber.wait().expect("no panic");
    });
}

/// Two frames on two threads, each of which has a fiber that the other's frame waits for.
#[test]
fn two_blocked_homes_wait_for_each_others_fibers() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let gates = [Gate::default(), Gate::default()];
        let jobs = [0, 1].map(|n| {
            let (own, others) = (gates[n].clone(), gates[1 - n].clone());
            runtime.spawn_job(move || {
                let fiber = fiber::spawn(move || {
                    fiber::yield_now();
                    others.open();
                });
                block_on(own);
                fiber.wait().expect("no panic");
            })
        });
        for job in jobs {
            job.wait().expect("no panic");
        }
    });
}

#[test]
fn the_home_thread_is_spare_when_its_fiber_is_woken() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let (first, second) = (Gate::default(), Gate::default());
        let (fibers, jobs) = (first.clone(), second.clone());
        let fiber = runtime.spawn_fiber(move || block_on(fibers));
        // This blocks one thread. When it continues, the thread that carried the worker meanwhile is spare,
        // or this thread's worker went to another one.
        let job = runtime.spawn_job(move || block_on(jobs));
        let opener = thread::spawn(move || first.open());
        second.open();
        job.wait().expect("no panic");
        fiber.wait().expect("no panic");
        opener.join().expect("no panic");
    });
}

#[test]
fn a_join_in_a_fiber_is_shared_and_waited_for() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let fiber = runtime.spawn_fiber(|| {
            let (a, b) = join(
                || {
                    fiber::yield_now();
                    1
                },
                || {
                    thread::yield_now();
                    2
                },
            );
            a + b
        });
        assert_eq!(fiber.wait().expect("no panic"), 3);
    });
}

#[test]
fn the_first_half_waits_for_the_second() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let fiber = runtime.spawn_fiber(|| {
            let gate = Gate::default();
            let waiting = gate.clone();
            join(move || block_on(waiting), move || gate.open());
        });
        fiber.wait().expect("no panic");
    });
}

#[test]
fn a_scope_of_fibers_from_a_job_and_from_a_fiber() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let body = || {
            let sum = AtomicUsize::new(0);
            fiber::scope(|scope| {
                for n in 1..=2 {
                    let sum = &sum;
                    scope.spawn(move |_| {
                        fiber::yield_now();
                        sum.fetch_add(n, Ordering::Relaxed);
                    });
                }
            });
            sum.into_inner()
        };
        let (job, fiber) = (runtime.spawn_job(body), runtime.spawn_fiber(body));
        assert_eq!(job.wait().expect("no panic"), 3);
        assert_eq!(fiber.wait().expect("no panic"), 3);
    });
}

struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_pool_closes_over_fibers_that_wait() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let gate = Gate::default();
        let dropped = Arc::new(AtomicUsize::new(0));
        let fibers = [(); 2].map(|()| {
            let (waiting, counts) = (gate.clone(), Counts(Arc::clone(&dropped)));
            runtime.spawn_fiber(move || {
                let _counts = counts;
                block_on(waiting);
            })
        });
        runtime.shutdown();
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        for fiber in fibers {
            assert!(matches!(fiber.wait(), Err(JoinError::Shutdown)));
        }
        assert_eq!(runtime.fibers().live, 0);
    });
}

#[test]
fn a_wake_meets_the_end_of_the_pool() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let waiting = gate.clone();
        let fiber = runtime.spawn_fiber(move || block_on(waiting));
        let opener = thread::spawn(move || gate.open());
        runtime.shutdown();
        assert!(matches!(fiber.wait(), Ok(()) | Err(JoinError::Shutdown)));
        opener.join().expect("no panic");
    });
}

#[test]
fn a_job_waits_for_a_fiber_of_its_own_thread_when_the_pool_closes() {
    check_often(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let job = runtime.spawn_job(move || {
            let fiber = fiber::spawn(move || block_on(gate));
            let ended = fiber.wait();
            assert!(matches!(ended, Err(JoinError::Shutdown)));
        });
        let end = thread::spawn(move || runtime.shutdown());
        assert!(matches!(job.wait(), Ok(()) | Err(JoinError::Shutdown)));
        end.join().expect("no panic");
    });
}

#[test]
fn a_job_blocks_the_thread_of_the_fiber_that_it_waits_for_when_the_pool_closes() {
    check_fairly(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let fiber = runtime.spawn_fiber(move || block_on(gate));
        let job = runtime.spawn_job(move || {
            assert!(matches!(fiber.wait(), Err(JoinError::Shutdown)));
        });
        while runtime.fibers().live == 0 || runtime.threads().blocked == 0 {
            thread::yield_now();
        }
        runtime.shutdown();
        job.wait().expect("it began, so it ends");
    });
}

#[test]
fn a_scope_waits_for_fibers_that_the_end_of_the_pool_unwinds() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let outer = runtime.spawn_fiber(|| {
            let gate = Gate::default();
            let places = Mutex::new(0);
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                fiber::scope(|scope| {
                    let (gate, places) = (gate.clone(), &places);
                    scope.spawn(move |_| {
                        struct Adds<'a>(&'a Mutex<usize>);
                        impl Drop for Adds<'_> {
                            fn drop(&mut self) {
                                *self.0.lock().expect("unpoisoned") += 1;
                            }
                        }
                        let _adds = Adds(places);
                        block_on(gate);
                    });
                });
            }));
            assert!(unwound.is_err());
            places.into_inner().expect("unpoisoned")
        });
        let end = thread::spawn(move || runtime.shutdown());
        // It never began, or its fiber never did, or that one was unwound before the scope ended.
        assert!(matches!(outer.wait(), Ok(0 | 1) | Err(JoinError::Shutdown)));
        end.join().expect("no panic");
    });
}

#[test]
fn a_fiber_without_a_stack_is_refused_and_the_others_go_on() {
    check(|| {
        let runtime = Runtime::builder()
            .workers(1)
            .max_fiber_stacks(1)
            .build()
            .expect("a small pool");
        let gate = Gate::default();
        let waiting = gate.clone();
        let first = runtime.spawn_fiber(move || block_on(waiting));
        let second = runtime.spawn_fiber(|| ());
        assert!(matches!(second.wait(), Err(JoinError::NoStack)));
        gate.open();
        first.wait().expect("no panic");
    });
}

#[test]
fn without_a_spare_thread_the_home_runs_its_fibers_on_top() {
    check(|| {
        let runtime = Runtime::builder()
            .workers(1)
            .max_threads(1)
            .build()
            .expect("a small pool");
        let job = runtime.spawn_job(|| {
            let fiber = fiber::spawn(|| {
                fiber::yield_now();
                spawn_job(|| 1).wait().expect("no panic")
            });
            fiber.wait().expect("no panic")
        });
        assert_eq!(job.wait().expect("no panic"), 1);
    });
}
