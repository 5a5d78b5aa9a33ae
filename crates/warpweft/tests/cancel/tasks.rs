//! Spawned tasks, futures and closures that block, under a token.

use super::{Alive, HOUR, LONG_GRACE, in_time, runtime, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use warpweft::cancel::{self, CancelToken};
use warpweft::time::sleep;
use warpweft::{JoinError, JoinHandle, Runtime, TaskBuilder, scope, scope_async, spawn, spawn_job};

fn is_cancelled<T>(result: &Result<T, JoinError>) -> bool {
    matches!(result, Err(JoinError::Cancelled))
}

#[test]
fn tasks_that_wait_in_a_queue_never_start() {
    let runtime = runtime(1);
    let (token, alive, ran) = (
        CancelToken::new(),
        Alive::default(),
        Arc::new(AtomicUsize::new(0)),
    );
    // The only worker is busy while they are spawned.
    let (busy, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let hog = runtime.spawn_job({
        let (busy, goes_on) = (Arc::clone(&busy), Arc::clone(&goes_on));
        move || {
            busy.store(true, Ordering::Release);
            until(|| goes_on.load(Ordering::Acquire));
        }
    });
    until(|| busy.load(Ordering::Acquire));
    let note = || {
        let (held, ran) = (alive.hold(), Arc::clone(&ran));
        move || {
            ran.fetch_add(1, Ordering::Relaxed);
            drop(held);
        }
    };
    let handles = token.run(|| {
        let builder = || TaskBuilder::new().on(&runtime);
        let mut handles: Vec<JoinHandle<()>> = Vec::new();
        for _ in 0..100 {
            let (in_future, in_local) = (note(), note());
            handles.push(builder().spawn_job(note()));
            handles.push(builder().spawn_fiber(note()));
            handles.push(builder().spawn(async move { in_future() }));
            handles.push(builder().spawn_pinned(0, note()));
            handles.push(builder().spawn_local(move || async move { in_local() }));
            handles.push(builder().try_spawn_job(note()).expect("room"));
            handles.push(builder().try_spawn_fiber(note()).expect("room"));
            builder().spawn_detached(note());
        }
        handles
    });
    token.cancel();
    goes_on.store(true, Ordering::Release);
    hog.wait().expect("it ends");
    assert!(
        handles
            .expect("live")
            .into_iter()
            .all(|task| is_cancelled(&task.wait()))
    );
    until(|| alive.count() == 0);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[test]
fn what_a_task_spawns_is_below_too() {
    let runtime = runtime(2);
    let (token, alive) = (CancelToken::new(), Alive::default());
    let task = token.run_async({
        let alive = alive.clone();
        async move {
            let inner = spawn(async move {
                let held = alive.hold();
                let innermost = spawn(async move {
                    let _held = held;
                    sleep(HOUR).await;
                });
                innermost.await
            });
            inner.await
        }
    });
    let task = runtime.spawn(task);
    until(|| alive.count() == 1);
    token.cancel();
    // The outermost future is dropped, or has heard from the one below.
    let ended = task.wait().expect("it returns");
    assert!(!matches!(ended, Ok(Ok(Ok(())))), "nobody slept for an hour");
    until(|| alive.count() == 0);
}

#[test]
fn a_future_is_asked_first_and_dropped_after_its_grace() {
    let runtime = runtime(2);
    for (grace, needs, in_time) in [(HOUR, 5, true), (Duration::from_millis(20), 3_600_000, false)] {
        let token = CancelToken::new().with_grace(grace);
        let alive = Alive::default();
        let (asked, held) = (token.clone(), alive.hold());
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let task = token.run_async(async move {
            let _held = held;
            begins.store(true, Ordering::Release);
            asked.cancelled().await;
            sleep(Duration::from_millis(needs)).await;
        });
        let task = runtime.spawn(task);
        // What has not begun has no grace.
        until(|| begun.load(Ordering::Acquire));
        std::thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        token.cancel();
        assert_eq!(task.wait().expect("it returns").is_ok(), in_time);
        assert!(start.elapsed() >= Duration::from_millis(5), "it was not asked");
        until(|| alive.count() == 0);
    }
}

#[test]
fn a_future_that_does_not_ask_gets_no_grace() {
    let runtime = runtime(1);
    let token = CancelToken::new().with_grace(HOUR);
    let task = runtime.spawn(token.run_async(sleep(HOUR)));
    std::thread::sleep(Duration::from_millis(5));
    let start = Instant::now();
    token.cancel();
    assert!(task.wait().expect("it returns").is_err());
    assert!(start.elapsed() < HOUR / 100);
}

#[test]
fn a_scope_of_futures_that_borrow_ends() {
    let runtime = runtime(2);
    let (token, alive) = (CancelToken::new(), Alive::default());
    let canceller = token.clone();
    let names = [String::from("a"), String::from("bc")];
    let ended = runtime.install(|_| {
        token.run(|| {
            scope(|scope| {
                let handles: Vec<_> = names
                    .iter()
                    .map(|name| {
                        let held = alive.hold();
                        scope.spawn_future(async move {
                            let _held = held;
                            sleep(HOUR).await;
                            name.len()
                        })
                    })
                    .collect();
                canceller.cancel();
                warpweft::uncooperative(|| handles.into_iter().all(|handle| is_cancelled(&handle.wait())))
            })
        })
    });
    // The scope did not run all that it was given.
    assert!(ended.expect("open").is_err());
    assert_eq!(alive.count(), 0);
}

#[test]
fn an_async_scope_ends() {
    let runtime = runtime(2);
    let (token, alive) = (CancelToken::new(), Alive::default());
    let inside = alive.clone();
    let task = runtime.spawn(token.run_async(scope_async(move |scope| async move {
        for _ in 0..10 {
            let held = inside.hold();
            drop(scope.spawn(async move {
                let _held = held;
                sleep(HOUR).await;
            }));
        }
    })));
    until(|| alive.count() == 10);
    token.cancel();
    assert!(task.wait().expect("it returns").is_err());
    until(|| alive.count() == 0);
}

#[test]
fn an_async_scope_whose_body_has_ended_has_no_value() {
    // The body has ended, and the scope waits for its only task: a value would say that this one has ended.
    for _ in 0..200 {
        let runtime = runtime(1);
        let (token, alive) = (CancelToken::new(), Alive::default());
        let held = alive.hold();
        let task = runtime.spawn(token.run_async(scope_async(|scope| async move {
            drop(scope.spawn(async move {
                let _held = held;
                sleep(HOUR).await;
            }));
        })));
        let canceller = token.clone();
        // Behind the task of the scope, which is dropped before the scope is asked.
        runtime.spawn(async move { canceller.cancel() }).detach();
        assert!(task.wait().expect("it returns").is_err());
        // A scope that is dropped waits for nobody.
        until(|| alive.count() == 0);
    }
}

#[test]
fn a_closure_that_blocks_sees_its_token() {
    let runtime = runtime(1);
    let token = CancelToken::new();
    let began = Arc::new(AtomicBool::new(false));
    let task = token.run(|| {
        let began = Arc::clone(&began);
        runtime.try_spawn_blocking(move || {
            began.store(true, Ordering::Release);
            until(cancel::is_cancelled);
            cancel::check();
            unreachable!("it is cancelled");
        })
    });
    let task = task.expect("live").expect("a thread");
    until(|| began.load(Ordering::Acquire));
    token.cancel();
    assert!(is_cancelled::<()>(&task.wait()));
}

/// All threads are kept by closures that block, for as long as the test takes.
#[test]
fn a_closure_that_waits_for_a_thread_leaves_its_queue() {
    let runtime = Runtime::builder()
        .workers(1)
        .max_blocking_threads(1)
        .build()
        .expect("threads");
    let (open, gate) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    let keeps = runtime.try_spawn_blocking(move || {
        begins.send(()).expect("the test waits");
        gate.recv()
    });
    let keeps = keeps.expect("a thread");
    begun.recv().expect("it begins");
    for cancelled_before in [false, true] {
        let (token, alive) = (CancelToken::new(), Alive::default());
        let task = token.run(|| {
            if cancelled_before {
                token.cancel();
            }
            let held = alive.hold();
            runtime.try_spawn_blocking(move || drop(held))
        });
        let task = task.expect("it was live").expect("room for one that waits");
        if !cancelled_before {
            assert!(
                runtime.try_spawn_blocking(|| ()).is_err(),
                "there is room for one"
            );
            token.cancel();
        }
        in_time(move || assert!(is_cancelled(&task.wait())));
        assert_eq!(alive.count(), 0);
    }
    // The room that it leaves is for the next one that waits for admission.
    let token = CancelToken::new();
    let first = token.run(|| runtime.try_spawn_blocking(|| ()));
    let first = first.expect("live").expect("room for one that waits");
    let (tell, told) = mpsc::channel();
    let second = runtime.spawn_blocking(|| 7);
    let second = runtime.spawn(async move {
        let mut second = std::pin::pin!(second.admitted());
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx).is_ready()));
        tell.send(polled.await).expect("the test waits");
        second.await.expect("room").await
    });
    assert_eq!(told.recv(), Ok(false), "there was no room");
    token.cancel();
    assert!(is_cancelled(&first.wait()));
    open.send(()).expect("it waits");
    assert_eq!(second.wait().expect("no panic").expect("no panic"), 7);
    assert_eq!(keeps.wait().expect("no panic"), Ok(()));
}

#[test]
fn a_job_that_waits_is_unwound() {
    let runtime = runtime(1);
    let (token, alive) = (CancelToken::new(), Alive::default());
    let lock = Arc::new(warpweft::sync::Mutex::new(()));
    let guard = lock.try_lock().expect("free");
    let job = token.run(|| {
        let (held, lock) = (alive.hold(), Arc::clone(&lock));
        runtime.spawn_job(move || {
            let _held = held;
            drop(lock.lock().wait());
        })
    });
    std::thread::sleep(Duration::from_millis(5));
    token.cancel();
    assert!(is_cancelled(&job.expect("live").wait()));
    assert_eq!(alive.count(), 0);
    drop(guard);
    assert!(lock.try_lock().is_some(), "the wait has left the lock's list");
}

#[test]
fn a_thread_outside_waits_for_a_token_and_under_one() {
    let runtime = runtime(1);
    let token = CancelToken::new();
    let waits = std::thread::spawn({
        let token = token.clone();
        move || {
            let under = token.run(|| {
                assert!(cancel::current().is_some());
                warpweft::block_on(std::future::pending::<()>());
            });
            token.cancelled().wait();
            under
        }
    });
    std::thread::sleep(Duration::from_millis(5));
    token.cancel();
    assert!(waits.join().expect("no panic").is_err());
    drop(runtime);
}

#[test]
fn a_task_without_a_token_is_not_touched() {
    let runtime = runtime(2);
    let token = CancelToken::new();
    let (before, after) = (runtime.spawn(async { 1 }), token.run(|| 2));
    token.cancel();
    assert_eq!((before.wait().ok(), after.ok()), (Some(1), Some(2)));
    assert_eq!(
        runtime.spawn(async { spawn_job(|| 3).await.ok() }).wait().ok(),
        Some(Some(3))
    );
}

/// A closure, or a future, that waits for room, is under the token of its spawn, whoever awaits it.
#[test]
fn what_waits_for_room_has_the_token_of_its_spawn() {
    let runtime = Runtime::builder()
        .workers(1)
        .capacity(8)
        .build()
        .expect("threads");
    let (token, ran) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
    let counts = || {
        let ran = Arc::clone(&ran);
        move || ran.fetch_add(1, Ordering::Relaxed)
    };
    let (closure, in_future) = (counts(), counts());
    let (blocking, future) = token
        .run(|| {
            let future = async move { in_future() };
            (
                runtime.spawn_blocking(closure),
                runtime.first().spawn_with_permit(future),
            )
        })
        .expect("live");
    token.cancel();
    assert!(is_cancelled(&blocking.wait()));
    let admitted = runtime.block_on(future).expect("there is room");
    assert!(is_cancelled(&admitted.wait()));
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

/// What a scope waits for may say goodbye in its grace. What does not wait for the cancellation ends at once.
#[test]
fn tasks_of_a_scope_that_is_waited_for_have_their_grace() {
    let runtime = runtime(2);
    for says_goodbye in [true, false] {
        // Other tokens have a second: for so long a thread may get no CPU on a busy machine.
        let token = CancelToken::new().with_grace(LONG_GRACE);
        let said = Arc::new(AtomicBool::new(false));
        let (asked, says) = (token.clone(), Arc::clone(&said));
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let inside = async move {
            begins.store(true, Ordering::Release);
            match says_goodbye {
                true => asked.cancelled().await,
                false => sleep(HOUR).await,
            }
            sleep(Duration::from_millis(20)).await;
            says.store(true, Ordering::Release);
        };
        let scope = scope_async(async |scope| drop(scope.spawn(inside)));
        let task = runtime.spawn(token.run_async(scope));
        until(|| begun.load(Ordering::Acquire));
        let start = Instant::now();
        token.cancel();
        // All tasks have ended by themselves, or not.
        assert_eq!(task.wait().expect("it returns").is_ok(), says_goodbye);
        assert_eq!(said.load(Ordering::Acquire), says_goodbye);
        assert!(start.elapsed() < LONG_GRACE / 2, "{:?}", start.elapsed());
    }
}
