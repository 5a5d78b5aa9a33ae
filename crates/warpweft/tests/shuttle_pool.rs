//! Whole pools under shuttle: every schedule that a seed can make of spawns, wakes, sleeps and shutdowns.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use support::{Gate, check, check_often, runtime};
use warpweft::policy::{Cx, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft::{JoinError, Policy, Runtime, spawn, spawn_detached, spawn_job, yield_now};
use warpweft_queue::Locked;

#[test]
fn a_job_from_outside_is_run_and_the_pool_ends() {
    check(|| {
        let runtime = runtime(2, "fifo");
        assert_eq!(runtime.spawn_job(|| 7).wait().expect("no panic"), 7);
    });
}

#[test]
fn a_job_for_sleeping_workers_wakes_one() {
    check(|| {
        let runtime = runtime(2, "fifo");
        while runtime.idle_workers() != (0, 2) {
            thread::yield_now();
        }
        assert_eq!(runtime.spawn_job(|| 7).wait().expect("no panic"), 7);
    });
}

#[test]
fn jobs_of_one_task_reach_both_workers_or_one() {
    check(|| {
        let runtime = runtime(2, "lifo+capacity=2");
        let sum = runtime.spawn(async {
            let parts: Vec<_> = (0..4).map(|n| spawn_job(move || n)).collect();
            let mut sum = 0;
            for part in parts {
                sum += part.await.expect("no panic");
            }
            sum
        });
        assert_eq!(sum.wait().expect("no panic"), 6);
    });
}

fn spawners_outside(workers: usize) {
    let runtime = Arc::new(runtime(workers, "fifo"));
    let spawners: Vec<_> = (0..2)
        .map(|n| {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || {
                for _ in 0..2 {
                    assert_eq!(runtime.spawn_job(move || n).wait().expect("no panic"), n);
                }
            })
        })
        .collect();
    spawners
        .into_iter()
        .for_each(|spawner| spawner.join().expect("no panic"));
}

#[test]
fn spawners_outside_do_not_miss_workers_that_go_to_sleep() {
    check_often(|| spawners_outside(2));
}

#[test]
fn spawners_outside_do_not_miss_a_worker_alone_that_goes_to_sleep() {
    check_often(|| spawners_outside(1));
}

#[test]
fn a_wake_from_outside_resumes_a_sleeping_task() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let gate = Gate::default();
        let inner = gate.clone();
        let handle = runtime.spawn(async move {
            yield_now().await;
            inner.await;
            3
        });
        let opener = thread::spawn(move || gate.open());
        assert_eq!(handle.wait().expect("no panic"), 3);
        opener.join().expect("no panic");
    });
}

#[test]
fn a_wake_that_meets_the_end_of_the_pool_does_no_harm() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let inner = gate.clone();
        let handle = runtime.spawn(async move {
            inner.await;
            spawn_job(|| ()).await
        });
        let opener = thread::spawn(move || gate.open());
        drop(runtime);
        match handle.wait() {
            Ok(Ok(())) | Ok(Err(JoinError::Shutdown)) | Err(JoinError::Shutdown) => {}
            other => panic!("unexpected: {other:?}"),
        }
        opener.join().expect("no panic");
    });
}

#[test]
fn a_task_that_nobody_wakes_ends_with_the_pool() {
    check(|| {
        let runtime = runtime(1, "fifo");
        let gate = Gate::default();
        let handle = runtime.spawn(gate.clone());
        drop(runtime);
        match handle.wait() {
            Err(JoinError::Shutdown) => {}
            other => panic!("unexpected: {other:?}"),
        }
        gate.open();
    });
}

#[test]
fn spawns_that_meet_the_end_of_the_pool_all_get_an_answer() {
    check(|| {
        let runtime = Arc::new(runtime(2, "lifo"));
        let inner = Arc::clone(&runtime);
        let spawner = thread::spawn(move || {
            for _ in 0..3 {
                match inner.spawn_job(|| 1).wait() {
                    Ok(1) | Err(JoinError::Shutdown) => {}
                    other => panic!("unexpected: {other:?}"),
                }
            }
        });
        runtime.shutdown();
        spawner.join().expect("no panic");
    });
}

#[test]
fn detached_jobs_are_run_or_dropped_once() {
    check(|| {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let runtime = runtime(2, "fifo+capacity=2+overflow=locked");
        let inner = Arc::clone(&drops);
        runtime
            .spawn(async move {
                for _ in 0..4 {
                    let counted = Counted(Arc::clone(&inner));
                    spawn_detached(move || drop(counted));
                }
            })
            .wait()
            .expect("no panic");
        drop(runtime);
        assert_eq!(drops.load(Ordering::SeqCst), 4);
    });
}

#[test]
fn a_cancelled_task_ends_once_whatever_it_was_doing() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let gate = Gate::default();
        let inner = gate.clone();
        let handle = runtime.spawn(inner);
        let opener = thread::spawn(move || gate.open());
        handle.cancel();
        assert!(matches!(handle.wait(), Ok(()) | Err(JoinError::Cancelled)));
        opener.join().expect("no panic");
    });
}

#[test]
fn a_runtime_dropped_by_its_own_task_ends() {
    check(|| {
        let runtime = Arc::new(runtime(2, "fifo"));
        let inner = Arc::clone(&runtime);
        let handle = runtime.spawn(async move {
            let late = spawn(async {});
            drop(inner);
            late.await
        });
        drop(runtime);
        assert!(matches!(
            handle.wait(),
            Ok(Ok(()) | Err(JoinError::Shutdown)) | Err(JoinError::Shutdown)
        ));
    });
}

#[test]
fn a_policy_that_panics_leaves_no_one_waiting() {
    struct Panics;
    impl Policy for Panics {
        type Shared = (Locked<TaskRef>, AtomicUsize);
        type Local = ();
        fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
            Ok(((Locked::new(), AtomicUsize::new(0)), vec![(); env.workers]))
        }
        fn push(shared: &Self::Shared, _: Option<&mut ()>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            shared.0.push(task);
            Wake::Any
        }
        fn next(shared: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
            // Not a failed assertion: shuttle would take any panic for its own, if it were not caught as the
            // pool's.
            if shared.1.fetch_add(1, Ordering::SeqCst) == 2 {
                std::panic::resume_unwind(Box::new("the policy's bug"));
            }
            shared.0.pop()
        }
        fn scan(shared: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
            shared.0.pop()
        }
    }
    check(|| {
        let runtime = Runtime::builder()
            .workers(2)
            .policy(Panics)
            .build()
            .expect("a small pool");
        let mut closed = false;
        for n in 0..6 {
            match runtime.spawn_job(move || n).wait() {
                Ok(found) => assert_eq!(found, n),
                Err(JoinError::Shutdown) => closed = true,
                Err(other) => panic!("unexpected: {other:?}"),
            }
        }
        // Six tasks are more than two looks for one: the hook has panicked, and the pool is about to close.
        while !closed {
            closed = runtime.try_spawn_job(|| ()).is_err();
            thread::yield_now();
        }
    });
}
