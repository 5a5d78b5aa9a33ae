//! Tasks and closures that go to another pool.

use super::{here, of};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use warpweft::policy::Count;
use warpweft::sync::{Notify, oneshot};
use warpweft::{
    EnterError, JoinError, Pool, Runtime, block_on, join_async, scope_async, spawn, stage, time, yield_now,
};

/// Two pools, of 1, 2 and 4 workers each, of policies that leave something in a task's word or nothing.
fn pairs(program: impl Fn(&Runtime, &Pool, &Pool)) {
    for workers in [1, 2, 4] {
        for policies in [
            ["fifo", "lifo"],
            ["prows", "negele"],
            ["negele", "prows"],
            ["lifo", "cforall"],
        ] {
            let runtime = stage("first", of(workers, policies[0]))
                .then("second", of(workers, policies[1]))
                .build()
                .expect("small pools");
            let second = runtime.pool("second").expect("it is there");
            program(&runtime, runtime.first(), second);
        }
    }
}

/// Polls `future` once, and drops it.
async fn poll_once(future: impl Future) {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        let _ = future.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_task_goes_there_and_back_and_keeps_what_it_has() {
    pairs(|runtime, first, second| {
        let tasks: Vec<_> = (0..50)
            .map(|n| {
                let (first, second) = (first.clone(), second.clone());
                runtime.spawn(async move {
                    let mut had_entered = vec![here()];
                    for _ in 0..3 {
                        second.enter().await.expect("it is open");
                        assert!(second.is_here() && !first.is_here());
                        had_entered.push(here());
                        yield_now().await;
                        assert!(second.is_here());
                        first.enter().await.expect("it is open");
                        assert!(first.is_here());
                    }
                    (n, had_entered)
                })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            let (number, had_entered) = task.wait().expect("no panic");
            assert_eq!((number, had_entered.len()), (n, 4));
            assert!(had_entered[1..].iter().all(|name| name == "second"));
        }
        for pool in [first, second] {
            assert_eq!(
                pool.counters().total().get(Count::Transfers),
                150,
                "{}",
                pool.name()
            );
        }
        assert_eq!(second.counters().total().get(Count::Injected), 150);
    });
}

#[test]
fn a_task_that_slept_is_woken_where_it_is_now() {
    pairs(|runtime, _, second| {
        let (before, after) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (there, arrived) = oneshot::channel();
        let task = {
            let (second, before, after) = (second.clone(), Arc::clone(&before), Arc::clone(&after));
            runtime.spawn(async move {
                // It is among the owned tasks of the first pool.
                before.notified().await;
                second.enter().await.expect("it is open");
                there.send(()).expect("somebody waits");
                after.notified().await;
                (here(), second.is_here())
            })
        };
        before.notify_one();
        block_on(arrived).expect("it came");
        after.notify_one();
        assert_eq!(task.wait().expect("no panic"), (String::from("second"), true));
    });
}

#[test]
fn timers_and_what_was_spawned_follow_a_task() {
    pairs(|runtime, first, second| {
        let (first, second) = (first.clone(), second.clone());
        let task = runtime.spawn(async move {
            let timed_park = time::sleep(Duration::from_millis(5));
            let child = spawn(async { here() });
            second.enter().await.expect("it is open");
            timed_park.await;
            assert!(second.is_here());
            assert_eq!(child.await.expect("no panic"), "first");
            let (left, right) = join_async(async { 1 }, async { 2 }).await;
            let mut sum = left + right;
            sum += scope_async(async |scope| {
                let one = scope.spawn(async { 3 });
                one.await.expect("no panic")
            })
            .await;
            first.enter().await.expect("it is open");
            sum
        });
        assert_eq!(task.wait().expect("no panic"), 6);
    });
}

#[test]
fn a_closure_runs_elsewhere_for_jobs_fibers_and_threads() {
    pairs(|runtime, first, second| {
        let mut words = vec![String::from("borrowed")];
        let name = second.run(|| {
            words.push(here());
            here()
        });
        assert_eq!((name.as_deref(), words.len()), (Ok("second"), 2));
        let there = second.clone();
        let job = first.spawn_job(move || (there.run(here).expect("it is open"), here()));
        let there = second.clone();
        let fiber = runtime.spawn_fiber(move || (there.run(here).expect("it is open"), here()));
        let expected = (String::from("second"), String::from("first"));
        assert_eq!(job.wait().expect("no panic"), expected);
        assert_eq!(fiber.wait().expect("no panic"), expected);
        // Back and forth, on top of each other.
        let (a, b) = (first.clone(), second.clone());
        let nested = first
            .run(|| b.run(|| a.run(|| b.run(here))))
            .expect("open")
            .expect("open");
        assert_eq!(nested.expect("open").expect("open"), "second");
    });
}

#[test]
fn panics_come_back_to_whoever_waits() {
    pairs(|runtime, _, second| {
        let there = second.clone();
        let task = runtime.spawn(async move {
            there.enter().await.expect("it is open");
            panic!("after the transfer");
        });
        let panic = task
            .wait()
            .expect_err("it panicked")
            .into_panic()
            .expect("a panic");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"after the transfer"));
        let there = second.clone();
        let job = runtime.spawn_job(move || there.run(|| -> () { panic!("over there") }));
        assert!(job.wait().expect_err("it panicked").is_panic());
        assert_eq!(second.run(|| 1), Ok(1));
    });
}

#[test]
fn a_handle_cancels_its_task_wherever_it_is() {
    pairs(|runtime, _, second| {
        let there = second.clone();
        let (tell, arrived) = oneshot::channel();
        let task = runtime.spawn(async move {
            there.enter().await.expect("it is open");
            tell.send(()).expect("somebody waits");
            std::future::pending::<()>().await;
        });
        block_on(arrived).expect("it came");
        assert!(task.cancel());
        assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn only_a_task_itself_can_go_elsewhere() {
    pairs(|runtime, first, second| {
        assert_eq!(block_on(second.enter()), Err(EnterError::NotATask));
        assert_eq!(runtime.block_on(second.enter()), Err(EnterError::NotATask));
        let there = second.clone();
        let job = first.spawn_job(move || block_on(there.enter()));
        assert_eq!(job.wait().expect("no panic"), Err(EnterError::NotATask));
        let there = second.clone();
        let inner = runtime.spawn(async move {
            let refused = block_on(there.enter());
            yield_now().await;
            (refused, there.is_here())
        });
        assert_eq!(
            inner.wait().expect("no panic"),
            (Err(EnterError::NotATask), false)
        );
    });
}

#[test]
fn an_entry_that_is_dropped_leaves_the_task_where_it_is_and_no_place_taken() {
    for workers in [1, 2, 4] {
        let runtime = stage("first", of(workers, "fifo"))
            .then("second", of(1, "fifo").capacity(1))
            .build()
            .expect("small pools");
        let second = runtime.pool("second").expect("it is there").clone();
        let there = second.clone();
        let task = runtime.spawn(async move {
            for _ in 0..100 {
                poll_once(there.enter()).await;
                // Another task, so that it really yields: the yield would otherwise return at once.
                spawn(async {}).detach();
                yield_now().await;
                assert!(!there.is_here());
            }
            // It waits in the middle of the step in which it made its request: the request is lost, and made
            // again.
            let mut enter = std::pin::pin!(there.enter());
            let mut waits = true;
            std::future::poll_fn(|cx| {
                let polled = enter.as_mut().poll(cx);
                if std::mem::take(&mut waits) {
                    block_on(spawn(async {})).expect("no panic");
                }
                polled
            })
            .await
            .expect("it is open");
            there.is_here()
        });
        assert!(task.wait().expect("no panic"));
        assert_eq!(second.free_places(), Some(1));
        assert_eq!(runtime.counters().total().get(Count::Transfers), 1);
    }
}

#[test]
fn a_request_that_was_left_behind_moves_no_other_task() {
    // The request is with the worker, so there must be no compensating worker.
    let runtime = stage("first", of(1, "fifo").stuck_after(None))
        .then("second", of(1, "fifo").capacity(1))
        .build()
        .expect("small pools");
    let second = runtime.pool("second").expect("it is there").clone();
    let (leave, left) = oneshot::channel();
    let there = second.clone();
    let other = runtime.spawn(async move {
        left.await.expect("somebody leaves it");
        // It is woken in the middle of its step, and so may move.
        yield_now().await;
        there.is_here()
    });
    let there = second.clone();
    let task = runtime.spawn(async move {
        std::future::poll_fn(|cx| {
            let mut enter = Box::pin(there.enter());
            assert!(enter.as_mut().poll(cx).is_pending());
            std::mem::forget(enter);
            Poll::Ready(())
        })
        .await;
        leave.send(()).expect("somebody waits");
        // Another task, so that the other one really yields.
        spawn(async {}).detach();
    });
    task.wait().expect("no panic");
    assert!(!other.wait().expect("no panic"));
    assert_eq!(second.free_places(), Some(1));
}
