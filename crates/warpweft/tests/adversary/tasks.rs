//! Futures, closures and their handles.
#![forbid(unsafe_code)]

use crate::child::Ends;
use crate::keepers::{all_answer, eventually};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use warpweft::time::sleep;
use warpweft::{JoinError, JoinHandle, Runtime, TaskBuilder, fiber, spawn, spawn_job, yield_now};

/// Tries: cancellation of jobs, futures and fibers that wait in a queue behind a busy worker.
/// Expected: `cancel` returns true, and the result is `Cancelled`.
#[test]
fn cancelled_before_the_start_is_never_ok() {
    program!(|world| {
        let runtime = Runtime::builder()
            .workers(1)
            .stuck_after(None)
            .build()
            .expect("a runtime");
        let other = world.runtime();
        for _ in 0..world.count(200) {
            let (open, gate) = std::sync::mpsc::channel::<()>();
            let (begin, begun) = std::sync::mpsc::channel();
            // Holds the worker, so that nothing behind it starts: once it has begun, whatever the policy has
            // learned of its kind.
            let plug = runtime.spawn_job(move || {
                begin.send(()).expect("it is waited for");
                gate.recv().is_err()
            });
            begun.recv().expect("it begins");
            let handles = [
                runtime.spawn_job(|| ()),
                runtime.spawn(async {}),
                runtime.spawn_fiber(|| ()),
                runtime.spawn(async { sleep(Duration::from_secs(3600)).await }),
            ];
            let asked = handles.each_ref().map(JoinHandle::cancel);
            let again = other.spawn_job(|| ()).cancel();
            let _ = again;
            drop(open);
            assert!(plug.wait().expect("no panic"));
            for (asked, handle) in asked.into_iter().zip(handles) {
                let end = handle.wait();
                assert!(
                    asked && matches!(end, Err(JoinError::Cancelled)),
                    "{asked} {end:?}"
                );
            }
        }
    });
}

/// Tries: a cancelled future that has started, and then suspends. Expected: `Cancelled`, and its
/// destructor runs.
#[test]
fn cancelled_while_it_sleeps_is_never_ok() {
    program!(|world| {
        let runtime = world.runtime();
        for n in 0..world.count(100) {
            let begun = Arc::new(AtomicUsize::new(0));
            let told = Arc::clone(&begun);
            // A future is dropped where it sleeps; a fiber sleeps to its end first.
            let timed_park = if n % 2 == 0 {
                Duration::from_secs(3600)
            } else {
                Duration::from_millis(20)
            };
            let future = async move {
                told.store(1, Ordering::Release);
                sleep(timed_park).await;
            };
            let handle = if n % 2 == 0 {
                runtime.spawn(future)
            } else {
                runtime.spawn_fiber(move || fiber::wait(future))
            };
            eventually("it begins", || begun.load(Ordering::Acquire) == 1);
            assert!(handle.cancel());
            let end = handle.wait();
            assert!(matches!(end, Err(JoinError::Cancelled)), "{n}: {end:?}");
            assert_eq!(Arc::strong_count(&begun), 1);
        }
    });
}

/// Tries: a `par_for` that is cancelled in the middle. Expected: a true `cancel` is followed by `Cancelled`,
/// not by `Ok`.
#[test]
fn a_cancelled_loop_is_never_ok() {
    program!(|world| {
        let runtime = world.runtime();
        for _ in 0..world.count(10) {
            let begun = Arc::new(AtomicUsize::new(0));
            let told = Arc::clone(&begun);
            let handle = runtime.spawn_job(move || {
                warpweft::par_for(0..20_000, 1, |_| {
                    told.fetch_add(1, Ordering::Relaxed);
                });
            });
            eventually("it begins", || {
                begun.load(Ordering::Relaxed) > 100 || handle.is_finished()
            });
            let cancelled = handle.cancel();
            let end = handle.wait();
            assert_eq!(
                cancelled,
                matches!(end, Err(JoinError::Cancelled)),
                "{cancelled} {end:?}"
            );
        }
    });
}

/// Tries: storms of `cancel` from several threads against tasks of all kinds, with handles asked again after
/// the end. Expected: each joiner gets a result; a `cancel` after the end returns false.
#[test]
fn cancel_storms() {
    program!(|world| {
        let runtime = world.runtime();
        for _ in 0..world.count(30) {
            let handles: Vec<_> = (0..60)
                .map(|n| match n % 4 {
                    0 => runtime.spawn_job(|| drop(spawn_job(|| ()).wait())),
                    1 => runtime.spawn(async { sleep(Duration::from_micros(200)).await }),
                    2 => runtime.spawn_fiber(|| fiber::wait(sleep(Duration::from_micros(200)))),
                    _ => runtime.spawn(async {
                        for _ in 0..10 {
                            yield_now().await;
                        }
                    }),
                })
                .collect();
            let handles = Arc::new(handles);
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let handles = Arc::clone(&handles);
                    thread::spawn(move || {
                        for handle in handles.iter() {
                            handle.cancel();
                            let _ = (handle.is_finished(), handle.info().location());
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().expect("no panic"));
            eventually("all end", || handles.iter().all(JoinHandle::is_finished));
            assert!(!handles.iter().any(JoinHandle::cancel));
            let handles = Arc::into_inner(handles).expect("the threads have ended");
            assert_eq!(all_answer(handles).all(), 60);
        }
    });
}

/// A payload whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("a payload panics as it goes");
        }
    }
}

/// Tries: tasks that panic with a payload whose destructor panics, with and without a joiner.
/// Expected: the joiner gets the payload; without one nothing but the message is left.
#[test]
fn payloads_that_panic_as_they_go() {
    program!(|world| {
        let runtime = world.runtime();
        for _ in 0..world.count(20) {
            runtime.spawn_job(|| panic_any(Bomb)).detach();
            runtime.spawn(async { panic_any(Bomb) }).detach();
            runtime.spawn_fiber(|| panic_any(Bomb)).detach();
            TaskBuilder::new().on(&runtime).spawn_detached(|| panic_any(Bomb));
            drop(runtime.try_spawn_blocking(|| panic_any(Bomb)));
            let end = runtime.spawn_job(|| panic_any(Bomb)).wait();
            let payload = end.expect_err("it panicked").into_panic().expect("a payload");
            assert!(payload.is::<Bomb>());
            assert!(catch_unwind(AssertUnwindSafe(|| drop(payload))).is_err());
        }
        let scoped = || {
            warpweft::scope(|scope| {
                scope.spawn(|_| panic_any(Bomb));
                scope.spawn(|_| panic_any(Bomb));
                panic_any(Bomb)
            })
        };
        for _ in 0..world.count(20) {
            let end = catch_unwind(AssertUnwindSafe(|| runtime.install(|_| scoped())));
            let payload = end.expect_err("it panicked");
            assert!(catch_unwind(AssertUnwindSafe(|| drop(payload))).is_err());
        }
        assert_eq!(runtime.spawn_job(|| 7).wait().expect("no panic"), 7);
    });
}

/// Tries: results, closures and futures that panic as they go, dropped by a detached task, a cancelled one, a
/// handle, and the end of a runtime. Expected: the process continues.
#[test]
fn destructors_that_panic() {
    program!(|world| {
        let runtime = world.runtime();
        for n in 0..world.count(30) {
            // Results that are never taken.
            runtime.spawn_job(|| Bomb).detach();
            runtime.spawn(async { Bomb }).detach();
            let handle = runtime.spawn_job(|| Bomb);
            eventually("it ends", || handle.is_finished());
            let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
            // Work that never begins, or never ends.
            let bomb = Bomb;
            let handle = runtime.spawn(async move {
                let _bomb = bomb;
                pending::<()>().await;
            });
            if n % 2 == 0 {
                handle.cancel();
            } else {
                handle.detach();
            }
            let bomb = Bomb;
            runtime
                .spawn_fiber(move || {
                    let _bomb = bomb;
                    fiber::wait(sleep(Duration::from_secs(3600)));
                })
                .cancel();
        }
        assert_eq!(runtime.spawn_job(|| 7).wait().expect("no panic"), 7);
        let second = world.runtime();
        for _ in 0..20 {
            let bomb = Bomb;
            second
                .spawn(async move {
                    let _bomb = bomb;
                    pending::<()>().await;
                })
                .detach();
        }
        drop(second);
        drop(runtime);
    });
}

/// Tries: handles dropped, cancelled and waited for by the task itself, by each other in a circle, and in
/// destructors. Expected: no freed memory; a circle of waits is the program's own deadlock, which the end of
/// the runtime resolves.
#[test]
fn handles_in_circles() {
    program!(|world| {
        let runtime = world.runtime();
        // A task that owns its own handle.
        for _ in 0..world.count(50) {
            let place: Arc<Mutex<Option<JoinHandle<()>>>> = Arc::default();
            let inside = Arc::clone(&place);
            let handle = runtime.spawn(async move {
                while inside.lock().expect("a lock").is_none() {
                    yield_now().await;
                }
                let own = inside.lock().expect("a lock").take().expect("it is there");
                own.cancel();
                drop(own);
                yield_now().await;
            });
            *place.lock().expect("a lock") = Some(handle);
        }
        // Two tasks that wait for each other.
        let places: [Arc<Mutex<Option<JoinHandle<()>>>>; 2] = Default::default();
        let circle: Vec<_> = [0, 1]
            .map(|n| {
                let other = Arc::clone(&places[1 - n]);
                runtime.spawn(async move {
                    let mut taken = None;
                    while taken.is_none() {
                        taken = other.lock().expect("a lock").take();
                        yield_now().await;
                    }
                    let _ = taken.expect("it is there").await;
                })
            })
            .into_iter()
            .collect();
        for (place, handle) in places.iter().zip(circle) {
            *place.lock().expect("a lock") = Some(handle);
        }
        thread::sleep(Duration::from_millis(5));
        drop(runtime);
    });
}

/// Waits for a handle as it goes.
struct WaitsForIt(Option<JoinHandle<()>>);

impl Drop for WaitsForIt {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.cancel();
            let _ = handle.wait();
        }
    }
}

/// Tries: handles that are waited for in destructors of futures, of fibers and of thread-locals, on workers
/// and outside. Expected: each wait ends.
#[test]
fn handles_are_waited_for_in_destructors() {
    thread_local!(static LATE: std::cell::RefCell<Vec<WaitsForIt>> = const { std::cell::RefCell::new(Vec::new()) });
    program!(|world| {
        let (runtime, other) = (Arc::new(world.runtime()), Arc::new(world.runtime()));
        let task = || other.spawn(async { sleep(Duration::from_millis(1)).await });
        for _ in 0..world.count(20) {
            let waits = WaitsForIt(Some(task()));
            runtime
                .spawn(async move {
                    let _waits = waits;
                    pending::<()>().await;
                })
                .detach();
            let waits = WaitsForIt(Some(task()));
            let cancelled = runtime.spawn_fiber(move || {
                let _waits = waits;
                fiber::wait(sleep(Duration::from_secs(3600)));
            });
            cancelled.cancel();
            let waits = WaitsForIt(Some(task()));
            runtime
                .spawn_job(move || LATE.with(|late| late.borrow_mut().push(waits)))
                .wait()
                .expect("no panic");
            let waits = WaitsForIt(Some(task()));
            thread::spawn(move || LATE.with(|late| late.borrow_mut().push(waits)))
                .join()
                .expect("no panic");
        }
        drop(runtime);
        drop(other);
    });
}

/// Tries: a future that panics in each of its polls and in its destructor at once.
/// Expected: an abort, as Rust has it, with the message of the language's own runtime.
#[test]
fn a_panic_in_a_destructor_while_panicking() {
    struct Always;
    impl Drop for Always {
        fn drop(&mut self) {
            panic!("while another panic is under way");
        }
    }
    program!(Ends::Aborting("while another panic is under way"), |world| {
        let runtime = world.runtime();
        let handle = runtime.spawn(async {
            let _always = Always;
            panic!("the first panic");
        });
        let _: Result<(), _> = handle.wait();
    });
}

/// Tries: futures that are forgotten, leaked in cycles and polled by hand while they are tasks' parts.
/// Expected: a leak, and an end.
#[test]
fn futures_that_are_leaked() {
    program!(|world| {
        let runtime = world.runtime();
        for _ in 0..world.count(50) {
            runtime.block_on(async {
                let mut timed_park = Box::pin(sleep(Duration::from_secs(3600)));
                poll_fn(|cx| {
                    assert!(timed_park.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                std::mem::forget(timed_park);
                let mut child = Box::pin(spawn(async { yield_now().await }));
                poll_fn(|cx| {
                    let _ = child.as_mut().poll(cx);
                    Poll::Ready(())
                })
                .await;
                std::mem::forget(child);
            });
        }
        assert_eq!(runtime.spawn_job(|| 7).wait().expect("no panic"), 7);
    });
}

/// Tries: a handle that is polled again after it gave its result. Expected: a panic that says so.
#[test]
fn a_handle_that_is_polled_after_its_result() {
    program!(|world| {
        let runtime = world.runtime();
        let mut handle = runtime.spawn_job(|| 7);
        assert_eq!(runtime.block_on(&mut handle).expect("no panic"), 7);
        let again = catch_unwind(AssertUnwindSafe(|| runtime.block_on(&mut handle)));
        let payload = again.expect_err("it panics");
        let text = payload.downcast_ref::<&str>().copied().unwrap_or_default();
        assert!(text.contains("polled after it had given its result"), "{text}");
    });
}
