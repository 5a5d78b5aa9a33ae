//! A transfer of a task from one pool to another: what may happen to it, to its wakers, its handle, its
//! place, and either pool meanwhile. See `crates/warpweft/src/pool/transfer_request.rs`.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::task::{Poll, Waker};
use support::{Gate, check, check_often, runtime};
use warpweft::{Builder, EnterError, JoinError, Pool, Runtime, spawn_job, stage, yield_now};
use warpweft_policy::{Cforall, Negele, ProWs};

fn of(policy: &str) -> Builder {
    let builder = Runtime::builder().workers(1);
    match policy {
        // Their texts need the feature `all-policies`, which models are built without.
        "prows" => builder.policy(ProWs::new()),
        "negele" => builder.policy(Negele::new()),
        "cforall" => builder.policy(Cforall::new()),
        text => builder.policy_spec(text.parse().expect("a policy")),
    }
}

/// Two pools of one worker each.
fn pair(first: &str, second: Builder) -> (Runtime, Pool) {
    let runtime = stage("first", of(first))
        .then("second", second)
        .build()
        .expect("small pools");
    let second = runtime.pool("second").expect("it is there").clone();
    (runtime, second)
}

/// Gives its waker to any task that looks.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Option<Waker>>>);

impl Shown {
    async fn show(&self) {
        std::future::poll_fn(|cx| {
            *self.0.lock().expect("unpoisoned") = Some(cx.waker().clone());
            Poll::Ready(())
        })
        .await;
    }

    fn wake(&self) {
        let waker = self.0.lock().expect("unpoisoned").clone();
        waker.inspect(Waker::wake_by_ref);
    }
}

#[test]
fn a_wake_before_during_and_after_the_transfer() {
    check(|| {
        let (runtime, second) = pair("fifo", of("lifo"));
        let (shown, gate) = (Shown::default(), Gate::default());
        let (there, show, waits) = (second.clone(), shown.clone(), gate.clone());
        let task = runtime.spawn(async move {
            show.show().await;
            // Among the first pool's owned tasks, and woken from there.
            yield_now().await;
            there.enter().await.expect("it is open");
            waits.await;
            there.is_here()
        });
        let waker = thread::spawn(move || (0..3).for_each(|_| shown.wake()));
        gate.open();
        assert!(task.wait().expect("no panic"));
        waker.join().expect("no panic");
    });
}

#[test]
fn a_task_that_slept_in_one_pool_sleeps_in_the_other() {
    check(|| {
        let (runtime, second) = pair("fifo", of("fifo"));
        let gates = [Gate::default(), Gate::default()];
        let [before, after] = gates.clone();
        let task = runtime.spawn(async move {
            before.await;
            second.enter().await.expect("it is open");
            after.await;
        });
        gates[0].open();
        gates[1].open();
        task.wait().expect("no panic");
        // The end finds all owned tasks of both pools.
        drop(runtime);
    });
}

#[test]
fn a_cancellation_during_the_transfer() {
    check(|| {
        let (runtime, second) = pair("fifo", of("fifo").capacity(1));
        let there = second.clone();
        let gate = Gate::default();
        let task = runtime.spawn(async move {
            there.enter().await.expect("it is open");
            gate.await;
        });
        task.cancel();
        assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
        assert_eq!(second.free_places(), Some(1));
    });
}

#[test]
fn a_handle_that_is_dropped_during_the_transfer() {
    check(|| {
        let (runtime, second) = pair("fifo", of("fifo").capacity(1));
        let ends = Arc::new(AtomicUsize::new(0));
        let (there, end) = (second.clone(), Arc::clone(&ends));
        let task = runtime.spawn(async move {
            there.enter().await.expect("it is open");
            yield_now().await;
            end.fetch_add(1, Ordering::SeqCst);
        });
        drop(task);
        let next = second.try_spawn(async {});
        next.into_iter().for_each(|task| task.wait().expect("no panic"));
        while ends.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    });
}

#[test]
fn a_panic_after_the_transfer() {
    check(|| {
        let (runtime, second) = pair("fifo", of("fifo").capacity(1));
        let there = second.clone();
        let task = runtime.spawn(async move {
            there.enter().await.expect("it is open");
            std::panic::panic_any(7);
        });
        let panic = task
            .wait()
            .expect_err("it panicked")
            .into_panic()
            .expect("a panic");
        assert_eq!(panic.downcast_ref::<i32>(), Some(&7));
        assert_eq!(second.free_places(), Some(1));
    });
}

#[test]
fn the_other_pool_closes_during_the_transfer() {
    check(|| {
        let here = runtime(1, "fifo");
        let other = stage("other", of("fifo").capacity(1))
            .build()
            .expect("a small pool");
        let there = other.first().clone();
        let task = here.spawn(async move {
            let entered = there.enter().await;
            yield_now().await;
            entered
        });
        drop(other);
        match task.wait() {
            Ok(Err(EnterError::Closed)) | Ok(Ok(())) | Err(JoinError::Shutdown) => {}
            end => panic!("{end:?}"),
        }
    });
}

#[test]
fn the_pool_that_is_left_closes_during_the_transfer() {
    check(|| {
        let here = runtime(1, "fifo");
        let other = runtime(1, "lifo");
        let there = other.first().clone();
        let gate = Gate::default();
        let waits = gate.clone();
        let task = here.spawn(async move {
            there.enter().await.expect("it is open");
            waits.await;
        });
        drop(here);
        gate.open();
        assert!(matches!(task.wait(), Ok(()) | Err(JoinError::Shutdown)));
    });
}

/// The task is the last one to have a handle to the pool into which it goes.
#[test]
fn a_task_takes_the_last_handle_along_into_a_pool_that_ends() {
    check(|| {
        let here = runtime(1, "fifo");
        let other = stage("other", of("fifo").capacity(1))
            .build()
            .expect("a small pool");
        let there = other.first().clone();
        let task = here.spawn(async move { there.enter().await });
        let end = thread::spawn(move || drop(other));
        drop(task);
        drop(here);
        end.join().expect("no panic");
    });
}

#[test]
fn two_pools_end_in_either_order_while_tasks_go_to_and_fro() {
    for ends_first in [0, 1] {
        support::check_with(Arc::new(move || {
            let mut runtimes = [Some(runtime(1, "fifo")), Some(runtime(1, "fifo"))];
            let pools: Vec<Pool> = runtimes
                .iter()
                .flatten()
                .map(|runtime| runtime.first().clone())
                .collect();
            let tasks = [0, 1].map(|n| {
                let there = pools.clone();
                pools[n].spawn(async move {
                    for pool in there.iter().chain(&there) {
                        if pool.enter().await.is_err() {
                            return;
                        }
                    }
                })
            });
            drop(runtimes[ends_first].take());
            drop(runtimes[1 - ends_first].take());
            for task in tasks {
                assert!(matches!(task.wait(), Ok(()) | Err(JoinError::Shutdown)));
            }
        }));
    }
}

#[test]
fn tasks_wait_for_the_only_place() {
    check(|| {
        let (runtime, second) = pair("fifo", of("fifo").capacity(1));
        let inside = Arc::new(AtomicUsize::new(0));
        let tasks = [(); 2].map(|()| {
            let (there, inside) = (second.clone(), Arc::clone(&inside));
            runtime.spawn(async move {
                there.enter().await.expect("it is open");
                assert_eq!(
                    inside.fetch_add(1, Ordering::SeqCst),
                    0,
                    "two have the only place"
                );
                yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for task in tasks {
            task.wait().expect("no panic");
        }
        assert_eq!(second.free_places(), Some(1));
    });
}

#[test]
fn a_task_that_waits_for_a_place_learns_that_the_pool_closes() {
    check_often(|| {
        let here = runtime(1, "fifo");
        let other = stage("other", of("fifo").capacity(1))
            .build()
            .expect("a small pool");
        let there = other.first().clone();
        let blocker = there.try_spawn(Gate::default()).expect("there is room");
        let task = here.spawn(async move { there.enter().await });
        drop(other);
        assert_eq!(task.wait().expect("no panic"), Err(EnterError::Closed));
        assert!(matches!(blocker.wait(), Err(JoinError::Shutdown)));
    });
}

#[test]
fn a_job_and_a_fiber_wait_for_closures_in_the_other_pool() {
    check(|| {
        let (runtime, second) = pair("fifo", of("fifo").capacity(1));
        let (a, b) = (second.clone(), second.clone());
        let job = runtime.spawn_job(move || a.run(|| spawn_job(|| 1).wait().expect("no panic")));
        let fiber = runtime.spawn_fiber(move || b.run(|| 2));
        assert_eq!(job.wait().expect("no panic"), Ok(1));
        assert_eq!(fiber.wait().expect("no panic"), Ok(2));
        assert_eq!(second.free_places(), Some(1));
    });
}

#[test]
fn a_closure_is_run_in_a_pool_that_ends() {
    check(|| {
        let here = runtime(1, "fifo");
        let other = runtime(1, "fifo");
        let there = other.first().clone();
        let job = here.spawn_job(move || there.run(|| 1));
        drop(other);
        assert!(matches!(
            job.wait().expect("no panic"),
            Ok(1) | Err(EnterError::Closed)
        ));
    });
}

/// What each policy keeps for a task is given back when it leaves, and begins anew where it arrives.
#[test]
fn tasks_go_between_policies_that_keep_something_for_them() {
    for policies in [["prows", "negele"], ["negele", "prows"], ["cforall", "lifo"]] {
        support::check_with(Arc::new(move || {
            let (runtime, second) = pair(policies[0], of(policies[1]));
            let first = runtime.first().clone();
            let tasks = [(); 2].map(|()| {
                let (first, second) = (first.clone(), second.clone());
                let gates = [Gate::default(), Gate::default()];
                let waits = gates.clone();
                let task = runtime.spawn(async move {
                    for gate in waits {
                        second.enter().await.expect("it is open");
                        gate.await;
                        first.enter().await.expect("it is open");
                    }
                });
                gates.iter().for_each(Gate::open);
                task
            });
            for task in tasks {
                task.wait().expect("no panic");
            }
        }));
    }
}
