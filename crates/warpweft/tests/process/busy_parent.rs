//! Forks of a parent whose runtime is at work: what it was at does not hold up the child. `in_child` calls
//! these, since a test that forks must be alone.
#![cfg(feature = "net")]

use crate::children::{RETURNED, end_of, fork, leave};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warpweft::cancel::CancelToken;
use warpweft::sync::Notify;
use warpweft::{GracefulShutdown, PolicySpec, Runtime, ShutdownStep, TaskBuilder, time, yield_now};

/// How often a child is forked.
const ROUNDS: usize = 10;

/// Its tasks stayed in the parent, so nothing is waited for.
pub(crate) fn a_graceful_shutdown_in_the_child_ends_at_once() {
    for _ in 0..ROUNDS {
        let runtime = Runtime::builder().workers(2).build().expect("workers");
        let over = Arc::new(Notify::new());
        let theirs = Arc::clone(&over);
        let task = runtime.spawn(async move { theirs.notified().await });
        let token = CancelToken::new();
        let under = runtime.spawn(token.run_async(pending::<()>()));
        let child = fork();
        if child == 0 {
            let start = Instant::now();
            let shutdown = GracefulShutdown::within(Duration::from_secs(3600)).then_cancel(&token);
            let ended = runtime.shutdown_gracefully(&shutdown);
            leave(ended == Ok(ShutdownStep::Dropped) && start.elapsed() < Duration::from_secs(60));
        }
        assert_eq!(end_of(child), RETURNED);
        assert!(!task.is_finished() && !under.is_finished(), "the parent's go on");
        // The task may not have begun to wait yet: this reaches it all the same.
        over.notify_one();
        token.cancel();
        let ended = runtime.shutdown_gracefully(&GracefulShutdown::within(Duration::from_secs(60)));
        assert_eq!(ended, Ok(ShutdownStep::Drained));
    }
}

/// The parent's threads lend priorities and cancel what waits for a thread, all the time. Whatever they were
/// at, the child has its own priorities, closures and tokens.
pub(crate) fn what_the_parent_was_at_does_not_hold_up_the_child() {
    let urgent = |runtime: &Runtime| {
        let low = runtime.priority(2).expect("a level");
        let high = runtime.priority(0).expect("a level");
        let awaited = TaskBuilder::new().on(runtime).priority(low).spawn(yield_now());
        let task = TaskBuilder::new().on(runtime).priority(high);
        task.spawn(async move { awaited.await.expect("no panic") })
    };
    let cancelled = |runtime: &Runtime| {
        let token = CancelToken::new();
        let closures: Vec<_> = (0..4)
            .filter_map(|_| {
                token
                    .run(|| runtime.try_spawn_blocking(|| ()).ok())
                    .ok()
                    .flatten()
            })
            .collect();
        token.cancel();
        closures.into_iter().for_each(|closure| drop(closure.wait()));
    };
    let build = || {
        let builder = Runtime::builder().workers(2).max_blocking_threads(2);
        let policy: PolicySpec = "priority:3".parse().expect("a policy");
        Arc::new(builder.policy_spec(policy).build().expect("workers"))
    };
    let runtime = build();
    let is_over = Arc::new(AtomicBool::new(false));
    let threads = [0, 1].map(|kind| {
        let (runtime, is_over) = (Arc::clone(&runtime), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                match kind {
                    0 => urgent(&runtime).wait().expect("no panic"),
                    _ => cancelled(&runtime),
                }
            }
        })
    });
    for _ in 0..10 * ROUNDS {
        let child = fork();
        if child == 0 {
            let own = build();
            urgent(&own).wait().expect("no panic");
            cancelled(&own);
            leave(true);
        }
        assert_eq!(end_of(child), RETURNED);
    }
    is_over.store(true, Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("no panic"));
}

/// A thread of the parent counts timers most of the time, under their lock, which is then lost to the child.
pub(crate) fn metrics_in_the_child_are_those_that_are_known() {
    const TIMERS: usize = 20_000;
    let runtime = Runtime::builder().workers(2).build().expect("workers");
    let asleep: Vec<_> = (0..TIMERS)
        .map(|_| runtime.spawn(time::sleep(Duration::from_secs(3600))))
        .collect();
    while runtime.metrics().pools[0].depths.timers < TIMERS {
        std::thread::yield_now();
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(runtime.metrics().pools[0].depths.timers, TIMERS);
            }
        });
        let ends = [(); ROUNDS].map(|()| {
            let child = fork();
            if child == 0 {
                // A panic must not reach the scope, whose thread stayed in the parent.
                let metrics = catch_unwind(AssertUnwindSafe(|| runtime.metrics()));
                leave(metrics.is_ok_and(|metrics| metrics.pools[0].depths.timers <= TIMERS));
            }
            end_of(child)
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(ends, [RETURNED; ROUNDS]);
    });
    drop(asleep);
}
