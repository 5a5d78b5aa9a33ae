//! What ends when a task panics.

use crate::eventually::eventually;
use crate::kinds::{KINDS, Log, PanicBy, WAYS, assert_panicked, builder};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpweft::{JoinError, PanicPolicy, Runtime, SpawnError, join, scope, scope_async, spawn};

#[test]
fn by_default_nothing_else_ends() {
    assert_eq!(PanicPolicy::default(), PanicPolicy::Continue);
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    let (sender, receiver) = warpweft::sync::oneshot::channel();
    let waits = runtime.spawn(receiver);
    for kind in KINDS {
        drop(kind.spawn(&runtime, || PanicBy::Macro.panic()));
    }
    eventually("each is told", || log.len() == KINDS.len());
    assert!(!runtime.first().is_closed());
    sender.send(1).expect("it waits");
    assert_eq!(waits.wait().expect("no panic"), Ok(1));
}

/// A runtime of two pools that ends with the first panic.
fn ends(log: &Log) -> Runtime {
    let policy = PanicPolicy::ShutDown;
    builder(log)
        .panic_policy(policy)
        .then("cellar", Runtime::builder().workers(1))
        .build()
        .expect("a runtime")
}

#[test]
fn shut_down_ends_all_pools_and_waits_for_nothing() {
    for kind in KINDS {
        for way in WAYS {
            for keeps in [true, false] {
                let log = Log::default();
                let runtime = ends(&log);
                let waits = runtime.spawn(std::future::pending::<()>());
                let fiber = runtime.spawn_fiber(|| warpweft::block_on(std::future::pending::<()>()));
                let below = runtime.pools()[1].spawn(std::future::pending::<()>());
                match kind.spawn(&runtime, move || way.panic()) {
                    Some(handle) if keeps => assert_panicked(handle.wait()),
                    handle => drop(handle),
                }
                // A pool that stays open is found here: a wait for its task would have no end.
                let closed = || runtime.pools().iter().all(warpweft::Pool::is_closed);
                eventually("all pools close", closed);
                for task in [waits, fiber, below] {
                    let end = task.wait();
                    assert!(
                        matches!(end, Err(JoinError::Shutdown)),
                        "{kind:?} {way:?}: {end:?}"
                    );
                }
                assert!(matches!(runtime.try_spawn_job(|| 1), Err(SpawnError::Closed)));
                assert!(matches!(runtime.spawn_job(|| 1).wait(), Err(JoinError::Shutdown)));
                assert_eq!(log.messages(), ["beans"], "{kind:?}");
                // It returns.
                drop(runtime);
            }
        }
    }
}

#[test]
fn shut_down_by_a_pool_behind_and_by_frames() {
    let log = Log::default();
    let runtime = builder(&log)
        .then(
            "cellar",
            Runtime::builder().workers(1).panic_policy(PanicPolicy::ShutDown),
        )
        .build()
        .expect("a runtime");
    let waits = runtime.spawn(std::future::pending::<()>());
    assert_panicked(runtime.spawn_job(|| PanicBy::Macro.panic()).wait());
    assert!(!runtime.first().is_closed(), "the first pool goes on");
    assert_panicked(runtime.pools()[1].spawn_job(|| PanicBy::Macro.panic()).wait());
    assert!(matches!(waits.wait(), Err(JoinError::Shutdown)));

    let frames: [fn(); 3] = [
        || _ = join(|| PanicBy::Macro.panic(), || ()),
        || scope(|scope| scope.spawn(|_| PanicBy::Macro.panic())),
        || {
            drop(warpweft::block_on(async {
                spawn(async {}).await.map(|()| PanicBy::Macro.panic())
            }));
        },
    ];
    for frame in frames {
        let runtime = ends(&log);
        assert_panicked(runtime.spawn_job(frame).wait());
        assert!(runtime.first().is_closed());
    }
}

#[test]
fn a_task_may_end_the_runtime_while_others_run() {
    for _ in 0..20 {
        let log = Log::default();
        let runtime = builder(&log)
            .workers(4)
            .panic_policy(PanicPolicy::ShutDown)
            .build()
            .expect("a runtime");
        let tasks: Vec<_> = (0..200)
            .map(|n| match n % 3 {
                0 => runtime.spawn(async move {
                    warpweft::yield_now().await;
                    assert!(n != 99, "beans");
                }),
                1 => runtime.spawn_job(move || assert!(n != 100, "beans")),
                _ => runtime.spawn_fiber(move || {
                    warpweft::fiber::yield_now();
                    assert!(n != 101, "beans");
                }),
            })
            .collect();
        let mut panics = 0;
        for task in tasks {
            match task.wait() {
                Ok(()) | Err(JoinError::Shutdown) => {}
                Err(JoinError::Panicked(_)) => panics += 1,
                other => unreachable!("{other:?}"),
            }
        }
        assert!((1..=3).contains(&panics), "{panics}");
        assert_eq!(log.len(), panics);
        assert!(runtime.first().is_closed());
    }
}

#[test]
fn cancel_scope_cancels_those_that_wait_and_those_that_have_not_started() {
    for way in WAYS {
        let log = Log::default();
        let runtime = builder(&log)
            .panic_policy(PanicPolicy::CancelScope)
            .build()
            .expect("a runtime");
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let outside = runtime.spawn(std::future::pending::<()>());
        let task = runtime.spawn(scope_async(move |scope| async move {
            let waits = scope.spawn(std::future::pending::<()>());
            let inner = scope.spawn(scope_async(|scope| async move {
                scope.spawn(std::future::pending::<()>()).await.map_err(drop)
            }));
            warpweft::yield_now().await;
            let panics = scope.spawn(async move { way.panic() });
            // One worker, first in first out: it comes after the panic.
            let late = scope.spawn(async move { count.fetch_add(1, Ordering::SeqCst) });
            assert!(matches!(panics.await, Err(JoinError::Panicked(_))));
            assert!(matches!(waits.await, Err(JoinError::Cancelled)));
            assert!(matches!(late.await, Err(JoinError::Cancelled)));
            assert!(matches!(inner.await, Err(JoinError::Cancelled)));
            // It is closed.
            assert!(matches!(scope.spawn(async {}).await, Err(JoinError::Cancelled)));
            "the body goes on"
        }));
        eventually("the scope ends", || task.is_finished());
        assert_eq!(
            task.wait().expect("the handle has taken the panic"),
            "the body goes on"
        );
        assert_eq!(started.load(Ordering::SeqCst), 0);
        assert_eq!(log.messages(), ["beans"]);
        // It is in no scope.
        assert!(!outside.is_finished() && !runtime.first().is_closed());

        // Nobody takes the panic: it is the scope's, and nothing waits for ever.
        let task = runtime.spawn(scope_async(move |scope| async move {
            drop(scope.spawn(std::future::pending::<()>()));
            drop(scope.spawn(async move { way.panic() }));
        }));
        eventually("the scope ends", || task.is_finished());
        assert_panicked(task.wait());
    }
}

#[test]
fn cancel_scope_leaves_what_borrows_and_what_is_in_no_scope() {
    let log = Log::default();
    let runtime = builder(&log)
        .panic_policy(PanicPolicy::CancelScope)
        .build()
        .expect("a runtime");
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let job = runtime.spawn_job(move || {
        scope(|scope| {
            for n in 0..10 {
                let count = &count;
                scope.spawn(move |_| {
                    count.fetch_add(1, Ordering::SeqCst);
                    assert!(n != 5, "beans");
                });
            }
            drop(scope.spawn_future(async { PanicBy::Macro.panic() }));
            drop(scope.spawn_future(async {
                warpweft::yield_now().await;
                count.fetch_add(1, Ordering::SeqCst);
            }));
        });
    });
    assert_panicked(job.wait());
    assert_eq!(ran.load(Ordering::SeqCst), 11);
    let waits = runtime.spawn(std::future::pending::<()>());
    for kind in KINDS {
        drop(kind.spawn(&runtime, || PanicBy::Macro.panic()));
    }
    eventually("each is told", || log.len() >= KINDS.len());
    assert!(!waits.is_finished());
    assert_panicked(
        runtime
            .spawn(scope_async(|_| async { PanicBy::Macro.panic() }))
            .wait(),
    );
    assert_eq!(runtime.spawn_job(|| 1).wait().expect("the pool goes on"), 1);
}

#[test]
fn without_that_policy_the_others_of_a_scope_go_on() {
    let log = Log::default();
    let runtime = builder(&log).build().expect("a runtime");
    let task = runtime.spawn(scope_async(|scope| async move {
        let (sender, receiver) = warpweft::sync::oneshot::channel();
        let waits = scope.spawn(receiver);
        let panics = scope.spawn(async { PanicBy::Macro.panic() });
        assert!(panics.await.is_err());
        sender.send(1).expect("it waits");
        waits.await
    }));
    assert_eq!(task.wait().expect("no panic").expect("no panic"), Ok(1));
}
