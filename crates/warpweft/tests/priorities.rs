//! Priorities from the spawner to the queue, and nodes from the task's birth to its end.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#![allow(
    clippy::disallowed_types,
    reason = "outside the checkers the system's own locks are what is tested against"
)]

use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use warpweft::policy::order::{FifoOrder, PriorityOrder, SlotOrder};
use warpweft::policy::{Cforall, Negele, NegeleLocal, Policy, Stealing};
use warpweft::{Fifo, PolicySpec, Runtime, TaskBuilder, spawn_detached, yield_now};

fn runtime(policy: impl Policy + std::fmt::Display, workers: usize) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .policy(policy)
        .build()
        .unwrap()
}

fn by_text(policy: &str, workers: usize) -> Runtime {
    let policy: PolicySpec = policy.parse().unwrap();
    Runtime::builder()
        .workers(workers)
        .policy_spec(policy)
        .build()
        .unwrap()
}

/// Levels in levels: the outer ones decide.
fn nested() -> impl Policy + std::fmt::Display {
    let levels = NonZeroUsize::new(4).unwrap();
    Stealing::with_order(PriorityOrder::new(PriorityOrder::new(FifoOrder, levels), levels))
}

#[test]
fn urgent_tasks_come_first() {
    for runtime in [
        runtime(Negele::new(), 1),
        runtime(NegeleLocal::new(), 1),
        runtime(nested(), 1),
        by_text("negele", 1),
        by_text("priority:4", 1),
        by_text("priority:4+woken=last+yield=local", 1),
    ] {
        let [urgent, normal, low, idle] = [0, 1, 2, 3].map(|level| runtime.priority(level).unwrap());
        let (order, (open, gate)) = (Arc::new(Mutex::new(Vec::new())), mpsc::channel::<()>());
        let spawned = Arc::clone(&order);
        let spawner = runtime.spawn_job(move || {
            gate.recv().unwrap();
            let mut tasks = Vec::new();
            for (priority, name) in [
                (Some(idle), "idle"),
                (Some(low), "low"),
                (None, "none"),
                (Some(urgent), "urgent"),
                (Some(normal), "normal"),
            ] {
                let spawned = Arc::clone(&spawned);
                let mut task = TaskBuilder::new();
                if let Some(priority) = priority {
                    task = task.priority(priority);
                }
                tasks.push(task.spawn(async move {
                    // Keeps its priority when it comes back.
                    yield_now().await;
                    spawned.lock().unwrap().push(name);
                }));
            }
            tasks
        });
        open.send(()).unwrap();
        for task in spawner.wait().unwrap() {
            task.wait().unwrap();
        }
        assert_eq!(
            *order.lock().unwrap(),
            ["urgent", "none", "normal", "low", "idle"]
        );
    }
}

#[test]
fn priorities_that_do_not_exist_are_errors() {
    let negele = runtime(Negele::new().levels(3), 1);
    let error = negele.priority(3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "priority 3 of 3: there are 0, the most urgent, to 2"
    );
    for without in [
        runtime(Fifo::new(), 1),
        runtime(Cforall::new(), 1),
        by_text("slot:3", 1),
    ] {
        let error = without.priority(0).unwrap_err();
        assert_eq!((error.asked, error.priorities), (0, 0));
        assert!(error.to_string().contains("without priorities"), "{error}");
        assert!(
            error.to_string().contains("`priority:N` and `negele` have"),
            "{error}"
        );
    }
    let slot = NonZeroUsize::new(3).unwrap();
    let inside = Stealing::with_order(SlotOrder::new(PriorityOrder::new(FifoOrder, slot), slot));
    for (runtime, levels) in [
        (by_text("priority:3", 1), 3),
        (by_text("priority:64", 1), 64),
        (runtime(inside, 1), 3),
    ] {
        assert_eq!(runtime.priority(levels - 1).unwrap().level(), levels - 1);
        let error = runtime.priority(levels).unwrap_err();
        assert_eq!((error.asked, error.priorities), (levels, levels));
    }
    // A policy that cannot be is an error of the builder, before any thread is there.
    let error = Runtime::builder()
        .workers(1)
        .policy(Negele::new().levels(1))
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("2 to 32"), "{error}");
}

#[test]
fn a_priority_of_another_runtime_says_nothing() {
    let (here, there) = (runtime(Negele::new(), 1), runtime(Negele::new(), 1));
    let idle = there.priority(3).unwrap();
    assert_eq!(idle.level(), 3);
    let task = TaskBuilder::new().on(&here).priority(idle).spawn_job(|| 1);
    assert_eq!(task.wait().ok(), Some(1));
}

#[test]
fn everything_comes_to_its_end() {
    for workers in [1, 2, 4] {
        for runtime in [
            runtime(Negele::new(), workers),
            runtime(NegeleLocal::new().balance(2), workers),
            by_text("priority:4", workers),
            by_text("priority:4+woken=last+capacity=2+overflow=locked", workers),
        ] {
            let levels = [0, 1, 2, 3].map(|level| runtime.priority(level).unwrap());
            let tasks: Vec<_> = (0..2_000usize)
                .map(|number| {
                    let task = TaskBuilder::new().on(&runtime).priority(levels[number % 4]);
                    task.spawn(async move {
                        for _ in 0..number % 5 {
                            spawn_detached(|| ());
                            yield_now().await;
                        }
                        number
                    })
                })
                .collect();
            for (number, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.wait().ok(), Some(number));
            }
            // A closure that waits gives its worker away, and a task that is nobody's takes its place.
            let waits = (0..20)
                .map(|_| runtime.spawn_job(|| warpweft::block_on(warpweft::spawn(async { 1 })).unwrap()));
            let waits: Vec<_> = waits.collect();
            assert_eq!(
                waits.into_iter().map(|wait| wait.wait().unwrap()).sum::<i32>(),
                20
            );
            runtime.shutdown();
        }
    }
}
