//! Deadlines from the spawner to the policy.

use super::inversion::hold;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use warpweft::policy::Edf;
use warpweft::{Fifo, Pool, Runtime, TaskBuilder, spawn, yield_now};

fn edf() -> Runtime {
    let builder = Runtime::builder().workers(1).stuck_after(None);
    builder.policy(Edf::new()).build().unwrap()
}

#[test]
fn the_earliest_deadline_goes_first_from_inside_and_outside() {
    let runtime = edf();
    let (order, (open, gate)) = (Arc::new(Mutex::new(Vec::new())), mpsc::channel::<()>());
    let (begin, begun) = mpsc::channel::<()>();
    let start = Instant::now();
    let note = move |pool: &Pool, seconds: u64| {
        let order = Arc::clone(&order);
        let deadline = pool.deadline(start + Duration::from_secs(seconds)).unwrap();
        let task = TaskBuilder::new().on_pool(pool).deadline(deadline);
        task.spawn(async move {
            // It keeps its deadline when it comes back.
            yield_now().await;
            let mut order = order.lock().unwrap();
            order.push(seconds);
            order.clone()
        })
    };
    let held = {
        let note = note.clone();
        runtime.spawn_job(move || {
            begin.send(()).unwrap();
            gate.recv().unwrap();
            let pool = Pool::current().unwrap();
            [50, 10].map(|seconds| note(&pool, seconds))
        })
    };
    // The worker is held before there is anything else that it could take.
    begun.recv().unwrap();
    let mut tasks: Vec<_> = [40, 20, 30].map(|seconds| note(runtime.first(), seconds)).into();
    open.send(()).unwrap();
    tasks.extend(held.wait().unwrap());
    let orders = tasks.into_iter().map(|task| task.wait().unwrap());
    let last = orders.max_by_key(Vec::len).unwrap();
    assert_eq!(last, [10, 20, 30, 40, 50]);
}

/// Late tasks go in the order in which they came, and before the others. What they spawn has no deadline.
#[test]
fn deadlines_that_are_over_are_not_told_apart_and_children_have_none() {
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .policy(Edf::new().slack(Duration::from_secs(20)))
        .build()
        .unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let (open, held) = hold(TaskBuilder::new().on(&runtime));
    let hour = Duration::from_secs(3600);
    // An hour before the present moment, so that all seconds can be subtracted.
    let Some(past) = Instant::now().checked_sub(hour) else {
        return;
    };
    let timed = |seconds: u64| {
        let order = Arc::clone(&order);
        let deadline = runtime.deadline(past + Duration::from_secs(seconds)).unwrap();
        let task = TaskBuilder::new().on(&runtime).deadline(deadline);
        task.spawn(async move {
            order.lock().unwrap().push(seconds);
            let child = spawn(async move { order.lock().unwrap().push(seconds + 1) });
            child.await.unwrap();
        })
    };
    // Ten seconds to come, and three that are over.
    let tasks = [3610, 300, 100, 200].map(timed);
    open.send(()).unwrap();
    held.wait().unwrap();
    tasks.into_iter().for_each(|task| task.wait().unwrap());
    assert_eq!(*order.lock().unwrap(), [300, 100, 200, 3610, 301, 101, 201, 3611]);
}

#[test]
fn a_deadline_needs_a_policy_that_uses_it_and_its_own_runtime() {
    let fifo = Runtime::builder().workers(1).policy(Fifo::new()).build().unwrap();
    let error = fifo.deadline(Instant::now()).unwrap_err();
    assert!(error.to_string().contains("`edf` has"), "{error}");
    let (here, there) = (edf(), edf());
    let other = there.deadline(Instant::now()).unwrap();
    let task = TaskBuilder::new().on(&here).deadline(other).spawn_job(|| 1);
    assert_eq!(task.wait().ok(), Some(1));
    assert!(
        here.priority(0).is_err(),
        "a policy with deadlines need not have priorities"
    );
}

#[test]
fn without_a_deadline_a_task_is_not_starved() {
    let runtime = Runtime::builder()
        .workers(1)
        .policy(Edf::new().slack(Duration::from_millis(5)))
        .build()
        .unwrap();
    let ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
    // Always late, and always ready.
    let late = runtime.deadline(Instant::now()).unwrap();
    let task = TaskBuilder::new().on(&runtime).deadline(late);
    let flood = {
        let ended = Arc::clone(&ended);
        task.spawn(async move {
            while !ended.load(std::sync::atomic::Ordering::SeqCst) {
                yield_now().await;
            }
        })
    };
    runtime.spawn_job(|| ()).wait().unwrap();
    ended.store(true, std::sync::atomic::Ordering::SeqCst);
    flood.wait().unwrap();
}
