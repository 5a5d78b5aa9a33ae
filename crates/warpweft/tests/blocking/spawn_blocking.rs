//! Closures that block, on threads of their own.

use crate::eventually::eventually;
use crate::everywhere::everywhere;
use crate::in_place::sleeper;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::Duration;
use warpweft::{BlockingError, JoinError, Runtime, block_on, spawn_blocking, spawn_job, try_spawn_blocking};

fn with_threads(threads: usize) -> Runtime {
    Runtime::builder()
        .workers(1)
        .max_blocking_threads(threads)
        .build()
        .expect("one worker")
}

#[test]
fn results_and_panics_come_back() {
    everywhere(|runtime| {
        let task = runtime.spawn(async {
            let name = || thread::current().name().map(str::to_owned);
            let there = spawn_blocking(name).await.expect("no panic").expect("named");
            let inside = spawn_blocking(move || spawn_job(name).wait().expect("no panic"));
            let inside = inside.await.expect("no panic").expect("named");
            let panicked = spawn_blocking(|| panic!("inside")).await;
            (there, inside, panicked)
        });
        let (there, inside, panicked) = task.wait().expect("no panic");
        assert!(there.starts_with("warpweft-b"), "{there}");
        assert!(
            !inside.starts_with("warpweft-b") && inside.starts_with("warpweft-"),
            "{inside}"
        );
        assert!(matches!(panicked, Err::<(), _>(JoinError::Panicked(_))));
        assert_eq!(runtime.spawn_blocking(|| 1).wait().expect("no panic"), 1);
    });
}

#[test]
fn neither_threads_nor_queue_grow_beyond_their_bounds() {
    everywhere(|_| {
        let runtime = Arc::new(with_threads(2));
        let (now, most, sum) = (Arc::default(), Arc::default(), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..200)
            .map(|n| {
                let (now, most): (Arc<AtomicUsize>, Arc<AtomicUsize>) = (Arc::clone(&now), Arc::clone(&most));
                let (sum, there) = (Arc::clone(&sum), Arc::clone(&runtime));
                runtime.spawn(async move {
                    let closure = move || {
                        most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                        assert!(there.threads().blocking_queued <= 2);
                        thread::yield_now();
                        sum.fetch_add(n, Ordering::Relaxed);
                        now.fetch_sub(1, Ordering::Relaxed);
                    };
                    spawn_blocking(closure).await
                })
            })
            .collect();
        for task in tasks {
            task.wait().expect("no panic").expect("no panic");
        }
        assert_eq!(sum.load(Ordering::Relaxed), 199 * 100);
        assert!(most.load(Ordering::Relaxed) <= 2);
        assert!(runtime.threads().blocking <= 2);
    });
}

#[test]
fn a_full_pool_gives_the_closure_back() {
    let runtime = with_threads(1);
    let (open, gate) = mpsc::channel::<()>();
    let busy = runtime
        .try_spawn_blocking(move || gate.recv().is_ok())
        .expect("room");
    eventually("it runs", || runtime.threads().blocking_queued == 0);
    let queued = runtime.try_spawn_blocking(|| 1).expect("room");
    let refused = runtime.try_spawn_blocking(|| 2).expect_err("no room");
    assert!(matches!(refused.error(), BlockingError::Full { waiting: 1 }));
    assert!(refused.to_string().contains("wait as may (1)"), "{refused}");
    assert_eq!(refused.into_closure()(), 2);
    open.send(()).expect("it waits");
    assert!(busy.wait().expect("no panic"));
    assert_eq!(queued.wait().expect("no panic"), 1);
}

#[test]
fn closures_that_wait_are_admitted_in_order() {
    let runtime = with_threads(1);
    let (open, gate) = mpsc::channel::<()>();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |n| {
        let order = Arc::clone(&order);
        move || order.lock().expect("unpoisoned").push(n)
    };
    let busy = runtime
        .try_spawn_blocking(move || gate.recv().is_ok())
        .expect("room");
    eventually("it runs", || runtime.threads().blocking_queued == 0);
    let queued = runtime.try_spawn_blocking(note(0)).expect("room");
    let tasks = [1, 2, 3].map(|n| {
        let asked = runtime.spawn_blocking(note(n));
        let (told, wait) = mpsc::channel();
        let task = runtime.spawn(async move {
            let mut asked = std::pin::pin!(asked);
            let mut told = Some(told);
            std::future::poll_fn(|cx| {
                let polled = asked.as_mut().poll(cx);
                told.take().map(|told| told.send(()));
                polled
            })
            .await
        });
        wait.recv().expect("it is polled");
        task
    });
    open.send(()).expect("it waits");
    assert!(busy.wait().expect("no panic"));
    queued.wait().expect("no panic");
    for task in tasks {
        task.wait().expect("no panic").expect("no panic");
    }
    assert_eq!(*order.lock().expect("unpoisoned"), [0, 1, 2, 3]);
}

#[test]
fn idle_threads_end() {
    let runtime = Runtime::builder()
        .workers(1)
        .blocking_keep_alive(Duration::from_millis(20))
        .build()
        .expect("one worker");
    for _ in 0..3 {
        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let handles: Vec<_> = (0..4)
            .map(|_| {
                let gate = Arc::clone(&gate);
                block_on(
                    runtime
                        .spawn_blocking(move || gate.lock().expect("unpoisoned").recv().is_ok())
                        .admitted(),
                )
                .expect("a thread")
            })
            .collect();
        eventually("all have a thread", || runtime.threads().blocking_queued == 0);
        assert_eq!(runtime.threads().blocking, 4);
        (0..4).for_each(|_| open.send(()).expect("they wait"));
        for handle in handles {
            assert!(handle.wait().expect("no panic"));
        }
        eventually("they end", || runtime.threads().blocking == 0);
    }
}

#[test]
fn without_threads_it_is_an_error() {
    let runtime = with_threads(0);
    let refused = runtime.try_spawn_blocking(|| 1).expect_err("no threads");
    assert!(matches!(refused.error(), BlockingError::NoThread(_)));
    assert!(refused.to_string().contains("may have 0 threads"), "{refused}");
    let task = runtime.spawn(async { spawn_blocking(|| 1).await });
    let error = task.wait().expect("no panic").expect_err("no threads");
    assert!(matches!(error, JoinError::NoThread(_)), "{error}");
}

#[test]
fn shutdown_ends_what_waits_and_lets_the_rest_end() {
    everywhere(|_| {
        let runtime = Arc::new(with_threads(1));
        let (open, gate) = mpsc::channel::<()>();
        let busy = runtime
            .try_spawn_blocking(move || (gate.recv().is_ok(), try_spawn_blocking(|| ()).is_err()))
            .expect("room");
        eventually("it runs", || runtime.threads().blocking_queued == 0);
        let queued = runtime.try_spawn_blocking(|| ()).expect("room");
        let outside = {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || runtime.spawn_blocking(|| ()).wait())
        };
        thread::scope(|threads| {
            threads.spawn(|| runtime.shutdown());
            while runtime.try_spawn_job(|| ()).is_ok() {
                thread::yield_now();
            }
            open.send(()).expect("it waits");
        });
        assert_eq!(busy.wait().expect("it ran to its end"), (true, true));
        assert!(matches!(queued.wait(), Err(JoinError::Shutdown)));
        let outside = outside.join().expect("no panic");
        assert!(matches!(outside, Err(JoinError::Shutdown)), "{outside:?}");
        assert_eq!(runtime.threads().blocking, 0);
    });
}

/// The program of tokio#4730, with the blocking part sent elsewhere.
#[test]
fn a_task_that_wakes_another_and_then_blocks_does_not_hold_it_up() {
    everywhere(|runtime| {
        for _ in 0..50 {
            let (notified, answered, sleeper) = sleeper(runtime);
            let hog = runtime.spawn(async move {
                let waker = spawn_blocking(move || notified.recv().expect("it is sent")).await;
                waker.expect("no panic").wake();
                spawn_blocking(move || answered.recv().expect("it is sent")).await
            });
            hog.wait().expect("no panic").expect("no panic");
            sleeper.wait().expect("no panic");
        }
    });
}

/// A waker is foreign code: cloning or dropping it may ask the runtime for anything.
#[test]
fn wakers_are_cloned_and_dropped_outside_of_the_lock() {
    struct Asks(Arc<Runtime>);
    impl Asks {
        fn waker(self: Arc<Self>) -> Waker {
            fn ask(data: *const ()) -> Arc<Asks> {
                // SAFETY: the data of each waker is a share of an `Asks`.
                let asks = unsafe { Arc::from_raw(data.cast::<Asks>()) };
                assert_eq!(asks.0.threads().blocking, 1);
                asks
            }
            static TABLE: RawWakerVTable = RawWakerVTable::new(
                |data| {
                    let asks = ask(data);
                    let clone = Arc::into_raw(Arc::clone(&asks));
                    std::mem::forget(asks);
                    RawWaker::new(clone.cast(), &TABLE)
                },
                |data| drop(ask(data)),
                |data| std::mem::forget(ask(data)),
                |data| drop(ask(data)),
            );
            // SAFETY: the functions of the table keep the contract of wakers.
            unsafe { Waker::new(Arc::into_raw(self).cast(), &TABLE) }
        }
    }
    let runtime = Arc::new(with_threads(1));
    let (go_on, goes_on) = mpsc::channel::<()>();
    let first = runtime.try_spawn_blocking(move || goes_on.recv().is_err());
    let first = first.unwrap_or_else(|_| panic!("there is room"));
    eventually("the first one begins", || runtime.threads().blocking_queued == 0);
    let second = runtime.try_spawn_blocking(|| ());
    let second = second.unwrap_or_else(|_| panic!("there is room"));
    for is_polled_again in [false, true] {
        let mut third = pin!(runtime.spawn_blocking(|| ()));
        for _ in 0..=usize::from(is_polled_again) {
            let waker = Arc::new(Asks(Arc::clone(&runtime))).waker();
            assert!(third.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    drop(go_on);
    assert!(first.wait().expect("no panic"));
    second.wait().expect("no panic");
}
