//! Closures that may block: another thread takes the worker over, and the frame comes back. See
//! `threads/README.md`.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::mpsc::channel;
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::{Gate, check, runtime};
use warpweft::{JoinError, Runtime, block_on, blocking, fiber, join, scope, spawn, spawn_job, yield_now};

#[test]
fn the_only_worker_goes_on_while_a_closure_blocks() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let job = runtime.spawn_job(|| {
            let (send, receive) = channel();
            let other = spawn_job(move || send.send(1).expect("it waits"));
            let got = blocking(|| receive.recv().expect("it is sent"));
            other.wait().expect("no panic");
            got + 1
        });
        assert_eq!(job.wait().expect("no panic"), 2);
        let threads = runtime.threads();
        assert_eq!((threads.handed_over, threads.taken_back, threads.kept), (1, 0, 0));
    });
}

#[test]
fn a_short_closure_meets_the_spare_thread() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let job = runtime.spawn_job(|| {
            let one = spawn_job(|| 1);
            let mut sum = 0;
            // The second time the spare may still be on its way from the first.
            for n in [2, 3] {
                sum += blocking(|| n);
            }
            sum + one.wait().expect("no panic")
        });
        assert_eq!(job.wait().expect("no panic"), 6);
        assert_eq!(runtime.threads().handed_over, 2);
    });
}

#[test]
fn two_closures_block_until_both_do() {
    check(|| {
        let runtime = runtime(2, "lifo");
        let (there, back) = (channel(), channel());
        let first = runtime.spawn_job(move || {
            blocking(|| {
                there.0.send(()).expect("it waits");
                back.1.recv().expect("it is sent");
            });
        });
        let second = runtime.spawn_job(move || {
            blocking(|| {
                there.1.recv().expect("it is sent");
                back.0.send(()).expect("it waits");
            });
        });
        first.wait().expect("no panic");
        second.wait().expect("no panic");
    });
}

#[test]
fn three_closures_on_one_worker_share_its_spares() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let lock = Arc::new(Mutex::new(0));
        let jobs = [(); 3].map(|()| {
            let lock = Arc::clone(&lock);
            runtime.spawn_job(move || {
                blocking(|| *lock.lock().expect("unpoisoned") += 1);
                spawn_job(|| ()).wait().expect("no panic");
            })
        });
        for job in jobs {
            job.wait().expect("no panic");
        }
        assert_eq!(*lock.lock().expect("unpoisoned"), 3);
    });
}

#[test]
fn a_future_comes_back_with_another_worker_and_is_suspended_there() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let task = runtime.spawn(async {
            let one = blocking(|| block_on(spawn(async { 1 })).expect("no panic"));
            yield_now().await;
            one + spawn_job(|| 1).await.expect("no panic")
        });
        assert_eq!(task.wait().expect("no panic"), 2);
    });
}

#[test]
fn the_pool_closes_under_a_closure_that_blocks() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let (open, gate) = channel();
        let job = runtime.spawn_job(move || {
            blocking(|| gate.recv().expect("it is opened"));
            spawn_job(|| ()).wait().is_ok()
        });
        let end = thread::spawn(move || runtime.shutdown());
        open.send(()).unwrap_or(());
        // In each order, no wait hangs: the closure ran, or never began.
        assert!(matches!(job.wait(), Ok(_) | Err(JoinError::Shutdown)));
        end.join().expect("no panic");
    });
}

#[test]
fn the_pool_is_closed_inside_of_the_closure() {
    check(|| {
        let runtime = Arc::new(runtime(1, "fifo"));
        let inside = Arc::clone(&runtime);
        let job = runtime.spawn_job(move || {
            blocking(|| inside.shutdown());
            drop(inside);
            matches!(spawn_job(|| ()).wait(), Err(JoinError::Shutdown))
        });
        assert!(job.wait().expect("it goes on to its end"));
        runtime.shutdown();
    });
}

#[test]
fn without_a_spare_the_closure_keeps_the_worker() {
    check(|| {
        let runtime = Runtime::builder()
            .workers(1)
            .max_threads(1)
            .build()
            .expect("a small pool");
        let job = runtime.spawn_job(|| {
            let one = spawn_job(|| 1);
            blocking(|| 1) + one.wait().expect("no panic")
        });
        assert_eq!(job.wait().expect("no panic"), 2);
        assert_eq!((runtime.threads().kept, runtime.threads().handed_over), (1, 0));
    });
}

#[test]
fn the_last_spare_is_reserved_by_one_of_two() {
    check(|| {
        let runtime = Runtime::builder()
            .workers(2)
            .max_threads(3)
            .build()
            .expect("a small pool");
        let jobs = [1, 2].map(|n| runtime.spawn_job(move || blocking(|| n)));
        assert_eq!(jobs.map(|job| job.wait().expect("no panic")), [1, 2]);
        let threads = runtime.threads();
        assert_eq!(threads.kept + threads.handed_over, 2);
        assert!(threads.kept <= 1);
    });
}

#[test]
fn a_half_blocks_until_the_other_has_run() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let sum = runtime.spawn_job(|| {
            let (send, receive) = channel();
            let (got, ()) = join(
                || blocking(|| receive.recv().expect("it is sent")),
                || send.send(1).expect("it waits"),
            );
            got
        });
        assert_eq!(sum.wait().expect("no panic"), 1);
    });
}

#[test]
fn a_fork_in_the_closure_is_promoted_when_its_stack_waits() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let job = runtime.spawn_job(|| {
            let gate = Gate::default();
            let waiting = gate.clone();
            let join = || join(|| block_on(waiting), || gate.open());
            blocking(join);
            let mut squares = [0; 2];
            blocking(|| {
                scope(|scope| {
                    for (n, square) in squares.iter_mut().enumerate() {
                        scope.spawn(move |_| *square = spawn_job(move || n * n).wait().expect("no panic"));
                    }
                });
            });
            squares
        });
        assert_eq!(job.wait().expect("no panic"), [0, 1]);
    });
}

#[test]
fn a_closure_on_a_fiber_waits_and_then_blocks() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let task = runtime.spawn_fiber(|| {
            let one = spawn_job(|| 1);
            let (send, receive) = channel();
            let two = blocking(|| {
                let one = one.wait().expect("no panic");
                // The worker is handed over again; otherwise no thread sends.
                let other = spawn_job(move || send.send(1).expect("it waits"));
                let got = receive.recv().expect("it is sent");
                drop(other);
                one + got
            });
            two + spawn_job(|| 1).wait().expect("no panic")
        });
        assert_eq!(task.wait().expect("no panic"), 3);
        let threads = runtime.threads();
        assert_eq!((threads.blocked, threads.kept), (0, 0), "{threads:?}");
    });
}

#[test]
fn a_closure_waits_for_what_a_fiber_of_its_thread_does() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let (gate, other) = (Gate::default(), Gate::default());
        let (waits, opens) = (gate.clone(), other.clone());
        let fiber = runtime.spawn_fiber(move || {
            fiber::wait(waits);
            fiber::yield_now();
            opens.open();
        });
        let job = runtime.spawn_job(move || {
            blocking(|| {
                gate.open();
                block_on(other);
            });
            spawn_job(|| 1).wait().expect("no panic")
        });
        assert_eq!(job.wait().expect("no panic"), 1);
        fiber.wait().expect("no panic");
        assert_eq!(runtime.threads().blocked, 0);
    });
}

#[test]
fn the_pool_closes_while_closures_on_its_threads_wait() {
    check(|| {
        let runtime = runtime(1, "fifo");
        // A gate has room for one waiter.
        let gates = [Gate::default(), Gate::default()];
        let [first, second] = gates.clone();
        let tasks = [
            runtime.spawn_fiber(move || blocking(|| block_on(first))),
            runtime.spawn_job(move || blocking(|| block_on(second))),
        ];
        let end = thread::spawn(move || runtime.shutdown());
        gates.iter().for_each(Gate::open);
        for task in tasks {
            assert!(matches!(task.wait(), Ok(()) | Err(JoinError::Shutdown)));
        }
        end.join().expect("no panic");
    });
}

#[test]
fn a_closure_inside_of_a_closure_panics() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let task = runtime.spawn(async {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                blocking(|| blocking(|| std::panic::resume_unwind(Box::new(7))));
            }));
            // The thread has a worker again, so the task can be suspended.
            let after = spawn_job(|| 1).await.expect("no panic");
            (
                caught.expect_err("it panicked").downcast_ref::<i32>().copied(),
                after,
            )
        });
        assert_eq!(task.wait().expect("no panic"), (Some(7), 1));
        assert_eq!(runtime.threads().blocked, 0);
    });
}

/// A fiber's wait in the closure ends with a worker, which it must not take for lost.
#[test]
fn a_fiber_waits_in_blocking() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let fiber = runtime.spawn_fiber(|| {
            let got = blocking(|| spawn_job(|| 1).wait().expect("no panic"));
            got + spawn_job(|| 1).wait().expect("no panic")
        });
        assert_eq!(fiber.wait().expect("no panic"), 2);
        assert_eq!(runtime.threads().blocked, 0);
    });
}
