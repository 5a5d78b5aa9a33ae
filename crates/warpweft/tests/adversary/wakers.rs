//! Wakers that outlive their task and their runtime, wake again, panic, or are called in odd places.
#![forbid(unsafe_code)]

use crate::keepers::{all_answer, eventually};
use std::cell::RefCell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;
use warpweft::time::sleep;
use warpweft::{JoinError, JoinHandle, Runtime, spawn_job, yield_now};

/// Where tasks leave their wakers.
type Wakers = Arc<Mutex<Vec<Waker>>>;

/// Tasks that leave a waker at each poll, and end after a number of polls.
fn sleepers(runtime: &Runtime, wakers: &Wakers, tasks: usize, polls: usize) -> Vec<JoinHandle<()>> {
    let spawn = |_| {
        let (wakers, mut left) = (Arc::clone(wakers), polls);
        runtime.spawn(poll_fn(move |cx| {
            wakers.lock().expect("a lock").push(cx.waker().clone());
            left -= 1;
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        }))
    };
    (0..tasks).map(spawn).collect()
}

fn take(wakers: &Wakers) -> Vec<Waker> {
    std::mem::take(&mut *wakers.lock().expect("a lock"))
}

/// Tries: wakers called and dropped after the end of their runtime, by several threads.
/// Expected: nothing happens.
#[test]
fn wakes_after_the_end() {
    program!(|world| {
        for _ in 0..world.count(20) {
            let wakers = Wakers::default();
            let runtime = world.runtime();
            let handles = sleepers(&runtime, &wakers, 50, 2);
            eventually("all sleep", || wakers.lock().expect("a lock").len() == 50);
            drop(runtime);
            assert_eq!(all_answer(handles).shutdown, 50);
            let late = take(&wakers);
            let threads: Vec<_> = late
                .chunks(10)
                .map(|some| {
                    let some = some.to_vec();
                    thread::spawn(move || some.into_iter().for_each(Waker::wake))
                })
                .collect();
            late.iter().for_each(Waker::wake_by_ref);
            threads
                .into_iter()
                .for_each(|thread| thread.join().expect("no panic"));
        }
    });
}

/// Tries: one waker, cloned 100,000 times, whose clones are woken and dropped in another runtime's tasks.
/// Expected: the task ends once.
#[test]
fn a_waker_cloned_a_hundred_thousand_times() {
    program!(|world| {
        let wakers = Wakers::default();
        let (runtime, other) = (world.runtime(), world.runtime());
        let handles = sleepers(&runtime, &wakers, 1, 5);
        eventually("it sleeps", || wakers.lock().expect("a lock").len() == 1);
        let waker = take(&wakers).remove(0);
        let clones: Vec<_> = (0..world.count(100_000)).map(|_| waker.clone()).collect();
        let jobs: Vec<_> = clones
            .chunks(1000)
            .enumerate()
            .map(|(n, some)| {
                let some = some.to_vec();
                other.spawn_job(move || match n % 3 {
                    0 => some.iter().for_each(Waker::wake_by_ref),
                    1 => some.into_iter().for_each(Waker::wake),
                    _ => drop(some),
                })
            })
            .collect();
        drop(clones);
        all_answer(jobs);
        eventually("it ends", || {
            take(&wakers).into_iter().for_each(Waker::wake);
            waker.wake_by_ref();
            handles[0].is_finished()
        });
        assert_eq!(all_answer(handles).done, 1);
    });
}

/// Wakes when it is dropped.
struct WakesAsItGoes(Wakers);

impl Drop for WakesAsItGoes {
    fn drop(&mut self) {
        for waker in take(&self.0) {
            waker.wake_by_ref();
            drop(waker.clone());
            waker.wake();
        }
    }
}

/// Tries: futures whose destructors wake themselves and each other, when they end, are cancelled or go with
/// the runtime. Expected: each joiner gets a result.
#[test]
fn destructors_of_futures_wake() {
    program!(|world| {
        for round in 0..world.count(20) {
            let wakers = Wakers::default();
            let runtime = world.runtime();
            let handles: Vec<_> = (0..50)
                .map(|n| {
                    let (wakers, goes) = (Arc::clone(&wakers), WakesAsItGoes(Arc::clone(&wakers)));
                    let handle = runtime.spawn(async move {
                        let _goes = goes;
                        poll_fn(|cx| {
                            wakers.lock().expect("a lock").push(cx.waker().clone());
                            if n % 3 == 0 {
                                Poll::Ready(())
                            } else {
                                Poll::Pending
                            }
                        })
                        .await;
                    });
                    if (n + round) % 5 == 0 {
                        handle.cancel();
                    }
                    handle
                })
                .collect();
            drop(runtime);
            drop(take(&wakers));
            assert_eq!(all_answer(handles).all(), 50);
        }
    });
}

/// Tries: wakers that are dropped last, and called, by thread-local destructors of a worker and of another
/// thread. Expected: nothing happens, or the task continues.
#[test]
fn wakers_in_thread_local_destructors() {
    struct Late(Vec<Waker>);
    impl Drop for Late {
        fn drop(&mut self) {
            for waker in self.0.drain(..) {
                waker.wake_by_ref();
                waker.wake();
            }
        }
    }
    thread_local!(static LATE: RefCell<Late> = const { RefCell::new(Late(Vec::new())) });
    program!(|world| {
        let wakers = Wakers::default();
        let (runtime, other) = (world.runtime(), world.runtime());
        let handles = sleepers(&runtime, &wakers, 20, 2);
        eventually("all sleep", || wakers.lock().expect("a lock").len() == 20);
        let mut left = take(&wakers);
        let mine = left.split_off(10);
        other
            .spawn_job(move || LATE.with(|late| late.borrow_mut().0.extend(left)))
            .wait()
            .expect("no panic");
        drop(other);
        thread::spawn(move || LATE.with(|late| late.borrow_mut().0.extend(mine)))
            .join()
            .expect("no panic");
        assert_eq!(all_answer(handles).done, 20);
        // The same from its workers.
        let handles = sleepers(&runtime, &wakers, 20, 2);
        let own = Arc::clone(&wakers);
        eventually("all sleep", || wakers.lock().expect("a lock").len() >= 20);
        runtime
            .spawn_job(move || LATE.with(|late| late.borrow_mut().0.extend(take(&own))))
            .wait()
            .expect("no panic");
        drop(runtime);
        assert_eq!(all_answer(handles).all(), 20);
    });
}

/// Tries: storms of wakes against cancellation, transfers to another pool, and shutdown.
/// Expected: each joiner gets a result, once.
#[test]
fn wake_storms() {
    program!(|world| {
        for round in 0..world.count(20) {
            let wakers = Wakers::default();
            let second = Runtime::builder().workers(1).capacity(3);
            let runtime = world.builder().then("second", second).build().expect("a runtime");
            let there = runtime.pool("second").expect("it is there").clone();
            let here = runtime.first().clone();
            let over = Arc::new(AtomicBool::new(false));
            let handles: Vec<_> = (0..30)
                .map(|n| {
                    let (wakers, here, there) = (Arc::clone(&wakers), here.clone(), there.clone());
                    runtime.spawn(async move {
                        loop {
                            let mut first = true;
                            poll_fn(|cx| {
                                wakers.lock().expect("a lock").push(cx.waker().clone());
                                if std::mem::take(&mut first) {
                                    Poll::Pending
                                } else {
                                    Poll::Ready(())
                                }
                            })
                            .await;
                            if n % 3 == 0 {
                                // The first pool is the earlier one: it may refuse, which is as good.
                                let _ = there.try_enter().await;
                                let _ = here.try_enter().await;
                            }
                        }
                    })
                })
                .collect();
            let stormers: Vec<_> = (0..2)
                .map(|_| {
                    let (wakers, over) = (Arc::clone(&wakers), Arc::clone(&over));
                    thread::spawn(move || {
                        while !over.load(Ordering::Relaxed) {
                            for waker in take(&wakers) {
                                waker.wake_by_ref();
                                waker.wake();
                            }
                        }
                    })
                })
                .collect();
            thread::sleep(Duration::from_millis(1));
            for handle in handles.iter().skip(round % 3).step_by(3) {
                handle.cancel();
            }
            drop(runtime);
            let answers = all_answer(handles);
            assert_eq!((answers.all(), answers.done), (30, 0));
            over.store(true, Ordering::Relaxed);
            stormers
                .into_iter()
                .for_each(|thread| thread.join().expect("no panic"));
        }
    });
}

/// Tries: foreign wakers that panic when they are cloned, woken or dropped, in the handle of a task.
/// Expected: the panic is the caller's; the task and its joiner continue.
#[test]
fn joiners_whose_wakers_panic() {
    struct Panics(AtomicUsize);
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("a waker panics");
        }
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            if !thread::panicking() {
                panic!("a waker panics as it goes");
            }
        }
    }
    program!(|world| {
        let runtime = world.runtime();
        for _ in 0..world.count(50) {
            let (open, gate) = warpweft::sync::oneshot::channel::<()>();
            let mut handle = Box::pin(runtime.spawn(async move {
                let _ = gate.await;
                7
            }));
            for _ in 0..3 {
                let waker = Waker::from(Arc::new(Panics(AtomicUsize::new(0))));
                let poll = AssertUnwindSafe(|| {
                    let polled = handle.as_mut().poll(&mut Context::from_waker(&waker));
                    drop(waker);
                    polled.is_ready()
                });
                let _ = catch_unwind(poll);
            }
            drop(open);
            // Each poll that drops such a waker panics; the handle is as good as before.
            let poll = || catch_unwind(AssertUnwindSafe(|| runtime.block_on(handle.as_mut())));
            let end = std::iter::repeat_with(poll).find_map(Result::ok);
            assert_eq!(end.expect("it ends").expect("no panic of its own"), 7);
        }
        assert_eq!(runtime.spawn_job(|| 1).wait().expect("no panic"), 1);
    });
}

/// Tries: futures that wake themselves for ever while the runtime shuts down or their handle cancels them.
/// Expected: they end.
#[test]
fn futures_that_wake_themselves_for_ever() {
    program!(|world| {
        for round in 0..world.count(30) {
            let runtime = world.runtime();
            let polls = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = (0..10)
                .map(|n| {
                    let polls = Arc::clone(&polls);
                    runtime.spawn(poll_fn(move |cx| {
                        polls.fetch_add(1, Ordering::Relaxed);
                        if n % 2 == 0 {
                            cx.waker().wake_by_ref();
                        } else {
                            let waker = cx.waker().clone();
                            spawn_job(move || waker.wake()).detach();
                        }
                        Poll::<()>::Pending
                    }))
                })
                .collect();
            eventually("they run", || polls.load(Ordering::Relaxed) > 20);
            if round % 2 == 0 {
                for handle in &handles {
                    handle.cancel();
                }
                assert_eq!(all_answer(handles).cancelled, 10);
            } else {
                drop(runtime);
                assert_eq!(all_answer(handles).shutdown, 10);
            }
        }
    });
}

/// Tries: wakers of `block_on`, of a fiber, of a scope's future and of a stream, kept and called after their
/// end. Expected: nothing happens.
#[test]
fn wakers_of_all_kinds_of_waits_are_kept() {
    fn leave(wakers: &Wakers) -> impl Future<Output = ()> + Send + use<> {
        let (wakers, mut polls) = (Arc::clone(wakers), 0);
        poll_fn(move |cx| {
            wakers.lock().expect("a lock").push(cx.waker().clone());
            cx.waker().wake_by_ref();
            polls += 1;
            if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
        })
    }
    program!(|world| {
        let wakers = Wakers::default();
        for _ in 0..world.count(20) {
            let runtime = world.runtime();
            runtime.block_on(leave(&wakers));
            warpweft::block_on(leave(&wakers));
            let kept = Arc::clone(&wakers);
            runtime
                .spawn_fiber(move || {
                    warpweft::fiber::wait(leave(&kept));
                    warpweft::scope(|scope| {
                        drop(scope.spawn_future(leave(&kept)));
                    });
                    let (left, right) = (leave(&kept), leave(&kept));
                    warpweft::block_on(warpweft::join_async(left, right));
                })
                .wait()
                .expect("no panic");
            let kept = Arc::clone(&wakers);
            let sum = runtime.spawn(async move {
                warpweft::scope_async(|scope| async move {
                    drop(scope.spawn(leave(&kept)));
                })
                .await;
                sleep(Duration::from_micros(1)).await;
                yield_now().await;
            });
            assert!(!matches!(sum.wait(), Err(JoinError::Panicked(_))));
            take(&wakers).into_iter().for_each(|waker| waker.wake_by_ref());
        }
        take(&wakers).into_iter().for_each(Waker::wake);
    });
}
