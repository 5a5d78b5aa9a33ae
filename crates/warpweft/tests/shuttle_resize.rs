//! Pools that become smaller and larger under shuttle: nothing is lost, in any schedule that is tried.
#![cfg(warpweft_shuttle)]

mod support {
    pub(crate) mod models;
}

use shuttle::thread;
use std::sync::Arc;
use support::models::check;
use warpweft::sync::oneshot;
use warpweft::{Runtime, TaskBuilder, current_worker, fiber, spawn_job, yield_now};

/// A pool of two workers.
fn small(policy: &str) -> Arc<Runtime> {
    let runtime = Runtime::builder()
        .workers(2)
        .policy_spec(policy.parse().expect("a policy"))
        .build();
    Arc::new(runtime.expect("a small pool"))
}

/// Resizes the pool in another thread.
fn resizes(runtime: &Arc<Runtime>, sizes: &'static [usize]) -> thread::JoinHandle<()> {
    let pool = runtime.first().clone();
    thread::spawn(move || {
        for &size in sizes {
            pool.resize(size).expect("possible");
        }
    })
}

fn a_tree_beside_sizes(policy: &str) {
    let runtime = small(policy);
    let resizes = resizes(&runtime, &[1, 2, 1]);
    let tree = runtime.spawn(async {
        let children: Vec<_> = (0..2).map(|n| spawn_job(move || n)).collect();
        yield_now().await;
        let mut sum = 0;
        for child in children {
            sum += child.await.expect("no panic");
        }
        sum
    });
    assert_eq!(tree.wait().expect("no panic"), 1);
    resizes.join().expect("no panic");
}

#[test]
fn a_tree_beside_sizes_first_in_first_out() {
    check(|| a_tree_beside_sizes("fifo"));
}

#[test]
fn a_tree_beside_sizes_with_a_private_slot() {
    check(|| a_tree_beside_sizes("slot"));
}

#[test]
fn a_tree_beside_sizes_with_homes() {
    check(|| a_tree_beside_sizes("fifo+woken=last"));
}

#[test]
fn pinned_tasks_beside_sizes() {
    check(|| {
        let runtime = small("fifo");
        let resizes = resizes(&runtime, &[1, 2, 1]);
        let pinned: Vec<_> = (0..2)
            .map(|_| TaskBuilder::new().on(&runtime).spawn_pinned(1, current_worker))
            .collect();
        for task in pinned {
            assert_eq!(task.wait().expect("no panic"), Some(1));
        }
        resizes.join().expect("no panic");
    });
}

/// Two threads pin a task to a worker at rest, and the pool becomes larger as well.
#[test]
fn a_rest_is_ended_once() {
    check(|| {
        let runtime = small("fifo");
        runtime.resize(1).expect("possible");
        let resizes = resizes(&runtime, &[2]);
        let other = Arc::clone(&runtime);
        let pins = thread::spawn(move || {
            let task = TaskBuilder::new().on(&other).spawn_pinned(1, current_worker);
            assert_eq!(task.wait().expect("no panic"), Some(1));
        });
        let task = TaskBuilder::new().on(&runtime).spawn_pinned(1, current_worker);
        assert_eq!(task.wait().expect("no panic"), Some(1));
        pins.join().expect("no panic");
        resizes.join().expect("no panic");
    });
}

/// A worker that sleeps in the last look must rest, and is not chosen for the push that comes meanwhile.
#[test]
fn sleepers_that_must_rest_leave_successors() {
    check(|| {
        let runtime = small("fifo");
        let resizes = resizes(&runtime, &[1]);
        for n in 0..2 {
            assert_eq!(runtime.spawn_job(move || n).wait().expect("no panic"), n);
        }
        resizes.join().expect("no panic");
    });
}

#[test]
fn a_fiber_goes_on_when_its_worker_rests() {
    check(|| {
        let runtime = small("fifo");
        let (sender, receiver) = oneshot::channel();
        let fiber = runtime.spawn_fiber(move || fiber::wait(receiver).ok());
        let resizes = resizes(&runtime, &[1]);
        let sends = runtime.spawn_job(move || sender.send(7));
        assert!(sends.wait().expect("no panic").is_ok());
        assert_eq!(fiber.wait().expect("no panic"), Some(7));
        resizes.join().expect("no panic");
    });
}

#[test]
fn the_pool_closes_meanwhile() {
    check(|| {
        let runtime = small("fifo");
        let pool = runtime.first().clone();
        let resizes = thread::spawn(move || {
            for size in [1, 2, 1] {
                let _ = pool.resize(size);
            }
        });
        drop(runtime.spawn_job(|| ()));
        drop(TaskBuilder::new().on(&runtime).spawn_pinned(1, || ()));
        drop(runtime);
        resizes.join().expect("no panic");
    });
}
