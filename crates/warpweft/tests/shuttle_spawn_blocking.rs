//! Closures on separate threads: admission, threads that come and go, the end. See
//! `src/threads/blocking_threads.rs`.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use support::{Gate, check};
use warpweft::cancel::CancelToken;
use warpweft::{BlockingError, JoinError, Runtime, block_on, spawn_blocking, spawn_job};

/// Returns a runtime of one worker and `threads` blocking threads, which stay or end at once.
fn runtime(threads: usize, stay: bool) -> Runtime {
    let time = if stay { Duration::MAX } else { Duration::ZERO };
    Runtime::builder()
        .workers(1)
        .max_blocking_threads(threads)
        .blocking_keep_alive(time)
        .build()
        .expect("a small pool")
}

#[test]
fn a_thread_ends_while_the_next_closure_comes() {
    check(|| {
        let runtime = runtime(1, false);
        let first = runtime.try_spawn_blocking(|| 1).expect("room");
        assert_eq!(first.wait().expect("no panic"), 1);
        // The thread is about to end, or has ended.
        let second = runtime.try_spawn_blocking(|| 2).expect("room");
        assert_eq!(second.wait().expect("no panic"), 2);
    });
}

#[test]
fn a_thread_stays_for_the_next_closure() {
    check(|| {
        let runtime = runtime(2, true);
        for n in 0..3 {
            assert_eq!(runtime.spawn_blocking(move || n).wait().expect("no panic"), n);
        }
        assert!(runtime.threads().blocking <= 2);
    });
}

#[test]
fn more_closures_than_room_wait_for_admission() {
    check(|| {
        let runtime = Arc::new(runtime(1, true));
        let ran = Arc::new(AtomicUsize::new(0));
        let guests = [(); 2].map(|()| {
            let (runtime, ran) = (Arc::clone(&runtime), Arc::clone(&ran));
            thread::spawn(move || {
                for _ in 0..2 {
                    let ran = Arc::clone(&ran);
                    let closure = move || ran.fetch_add(1, Ordering::Relaxed);
                    runtime.spawn_blocking(closure).wait().expect("no panic");
                }
            })
        });
        let closure = Arc::clone(&ran);
        let task = runtime
            .spawn(async move { spawn_blocking(move || closure.fetch_add(1, Ordering::Relaxed)).await });
        task.wait().expect("no panic").expect("no panic");
        for guest in guests {
            guest.join().expect("no panic");
        }
        assert_eq!(ran.load(Ordering::Relaxed), 5);
    });
}

#[test]
fn a_waiter_that_leaves_passes_the_place_on() {
    check(|| {
        let runtime = Arc::new(runtime(1, true));
        let (gate, waiting) = (Gate::default(), Gate::default());
        let inside = gate.clone();
        let first = runtime
            .try_spawn_blocking(move || block_on(inside))
            .expect("room");
        // In the queue, or the thread still has to take the first one.
        let second = block_on(runtime.spawn_blocking(|| ()).admitted()).expect("a thread");
        let (there, open) = (Arc::clone(&runtime), waiting.clone());
        let leaves = thread::spawn(move || {
            let mut guest = there.spawn_blocking(|| ()).admitted();
            let asked = block_on(poll_fn(|cx| Poll::Ready(Pin::new(&mut guest).poll(cx))));
            open.open();
            // It leaves with its place, or before it has one, or it was admitted.
            drop((asked, guest));
        });
        let there = Arc::clone(&runtime);
        let stays = thread::spawn(move || {
            block_on(waiting);
            there.spawn_blocking(|| ()).wait().expect("no panic");
        });
        gate.open();
        first.wait().expect("no panic");
        second.wait().expect("no panic");
        leaves.join().expect("no panic");
        stays.join().expect("no panic");
    });
}

/// The only thread is kept until the next closure was admitted, for which the cancelled one makes room.
#[test]
fn a_cancelled_closure_leaves_its_room() {
    check(|| {
        let runtime = Arc::new(runtime(1, true));
        let (gate, begun) = (Gate::default(), Gate::default());
        let (inside, begins) = (gate.clone(), begun.clone());
        let first = runtime.try_spawn_blocking(move || {
            begins.open();
            block_on(inside);
        });
        block_on(begun);
        let token = CancelToken::new();
        let waits = token.run(|| runtime.try_spawn_blocking(|| ()).expect("room for one"));
        let waits = waits.expect("live");
        let there = Arc::clone(&runtime);
        let guest = thread::spawn(move || block_on(there.spawn_blocking(|| ()).admitted()).expect("room"));
        token.cancel();
        assert!(matches!(waits.wait(), Err(JoinError::Cancelled)));
        let admitted = guest.join().expect("no panic");
        gate.open();
        first.expect("room").wait().expect("no panic");
        admitted.wait().expect("no panic");
    });
}

/// It begins, or it leaves its queue, and its memory goes once.
#[test]
fn a_closure_is_cancelled_while_a_thread_takes_it() {
    check(|| {
        let runtime = Arc::new(runtime(1, true));
        let ran = Arc::new(AtomicUsize::new(0));
        let token = CancelToken::new();
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let ran = Arc::clone(&ran);
                let closure = move || ran.fetch_add(1, Ordering::Relaxed);
                let task = token.run(|| runtime.spawn_blocking(closure).admitted());
                block_on(task.expect("live")).expect("room")
            })
            .collect();
        let cancels = thread::spawn(move || token.cancel());
        let results: Vec<_> = tasks.into_iter().map(warpweft::JoinHandle::wait).collect();
        cancels.join().expect("no panic");
        let ended = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(ended, ran.load(Ordering::Relaxed));
        let others = results.iter().filter_map(|result| result.as_ref().err());
        for error in others {
            assert!(matches!(error, JoinError::Cancelled), "{error:?}");
        }
        drop(runtime);
        assert_eq!(Arc::strong_count(&ran), 1);
    });
}

#[test]
fn the_pool_closes_over_queue_and_guests() {
    check(|| {
        let runtime = Arc::new(runtime(1, true));
        let guests = [(); 3].map(|()| {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || {
                let end = runtime.spawn_blocking(|| ()).wait();
                assert!(matches!(end, Ok(()) | Err(JoinError::Shutdown)), "{end:?}");
            })
        });
        runtime.shutdown();
        for guest in guests {
            guest.join().expect("no panic");
        }
        let refused = runtime.try_spawn_blocking(|| ()).expect_err("closed");
        assert!(matches!(refused.error(), BlockingError::Closed));
    });
}

#[test]
fn a_closure_ends_its_own_runtime() {
    check(|| {
        let runtime = Arc::new(runtime(1, true));
        let inside = Arc::clone(&runtime);
        let closure = runtime.try_spawn_blocking(move || {
            inside.shutdown();
            drop(inside);
            spawn_job(|| ()).wait().is_err()
        });
        assert!(closure.expect("room").wait().expect("it goes on to its end"));
    });
}

#[test]
fn a_closure_that_does_not_begin_is_cancelled() {
    check(|| {
        let runtime = runtime(1, true);
        let handle = runtime.try_spawn_blocking(|| ()).expect("room");
        handle.cancel();
        assert!(matches!(handle.wait(), Ok(()) | Err(JoinError::Cancelled)));
        runtime.spawn_blocking(|| ()).wait().expect("no panic");
    });
}

#[test]
fn without_threads_no_task_is_left_waiting() {
    check(|| {
        let runtime = runtime(0, true);
        assert!(runtime.try_spawn_blocking(|| ()).is_err());
        let task = runtime.spawn(async { spawn_blocking(|| ()).await });
        let end = task.wait().expect("no panic");
        assert!(matches!(end, Err(JoinError::NoThread(_))), "{end:?}");
    });
}
