//! Every transition of a thread that waits without awaiting: hand-over, wake, come back, end. See
//! `threads/README.md`.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use support::{Gate, check, runtime};
use warpweft::policy::Count;
use warpweft::{JoinError, Runtime, block_on, spawn, spawn_job, yield_now};

#[test]
fn the_only_worker_goes_on_while_a_job_waits_for_another() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let sum = runtime.spawn_job(|| spawn_job(|| 1).wait().expect("no panic") + 1);
        assert_eq!(sum.wait().expect("no panic"), 2);
    });
}

#[test]
fn two_jobs_wait_for_two_others() {
    check(|| {
        let runtime = runtime(2, "lifo");
        let jobs = [1, 2].map(|n| runtime.spawn_job(move || spawn_job(move || n).wait().expect("no panic")));
        let got = jobs.map(|job| job.wait().expect("no panic"));
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn a_wake_that_comes_before_during_or_after_the_hand_over() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let waiting = gate.clone();
        let job = runtime.spawn_job(move || block_on(waiting));
        let opener = thread::spawn(move || gate.open());
        // What the worker runs meanwhile.
        let other = runtime.spawn_job(|| 1);
        assert_eq!(other.wait().expect("no panic"), 1);
        job.wait().expect("no panic");
        opener.join().expect("no panic");
    });
}

#[test]
fn the_wake_of_a_blocked_thread_reaches_a_sleeping_pool() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let gate = Gate::default();
        let waiting = gate.clone();
        let job = runtime.spawn_job(move || block_on(waiting));
        // Both workers may be asleep by now: one in its loop, the other carried by a spare thread.
        thread::yield_now();
        gate.open();
        job.wait().expect("no panic");
    });
}

#[test]
fn a_future_comes_back_with_another_worker_and_is_suspended_there() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let task = runtime.spawn(async {
            let one = block_on(async {
                yield_now().await;
                spawn(async { 1 }).await.expect("no panic")
            });
            yield_now().await;
            one + spawn_job(|| 1).await.expect("no panic")
        });
        assert_eq!(task.wait().expect("no panic"), 2);
    });
}

#[test]
fn the_pool_closes_under_a_thread_that_waits() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let sleeper = runtime.spawn(Gate::default());
        let job = runtime.spawn_job(move || {
            let slept = sleeper.wait();
            assert!(matches!(slept, Err(JoinError::Shutdown)));
            assert!(matches!(spawn_job(|| ()).wait(), Err(JoinError::Shutdown)));
        });
        let end = thread::spawn(move || runtime.shutdown());
        // It ran to its end, or never began.
        assert!(matches!(job.wait(), Ok(()) | Err(JoinError::Shutdown)));
        end.join().expect("no panic");
    });
}

#[test]
fn a_wake_meets_the_end_of_the_pool() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let waiting = gate.clone();
        let job = runtime.spawn_job(move || block_on(waiting));
        let opener = thread::spawn(move || gate.open());
        runtime.shutdown();
        assert!(matches!(job.wait(), Ok(()) | Err(JoinError::Shutdown)));
        opener.join().expect("no panic");
    });
}

#[test]
fn without_a_spare_the_wait_works_on_top() {
    check(|| {
        let runtime = Runtime::builder()
            .workers(1)
            .max_threads(1)
            .build()
            .expect("a small pool");
        let sum = runtime.spawn_job(|| spawn_job(|| 1).wait().expect("no panic") + 1);
        assert_eq!(sum.wait().expect("no panic"), 2);
        assert!(runtime.counters().total().get(Count::Stacked) > 0);
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
        let done = Arc::new(AtomicUsize::new(0));
        let jobs = [(); 2].map(|()| {
            let done = Arc::clone(&done);
            runtime.spawn_job(move || {
                spawn_job(|| ()).wait().expect("no panic");
                done.fetch_add(1, Ordering::Relaxed);
            })
        });
        for job in jobs {
            job.wait().expect("no panic");
        }
        assert_eq!(done.load(Ordering::Relaxed), 2);
    });
}
