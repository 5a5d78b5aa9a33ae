//! Futures that belong to a scope: those that borrow from a frame that waits, and those of a scope that is a
//! future.

use crate::eventually::eventually;
use crate::everywhere::everywhere;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use warpweft::sync::oneshot;
use warpweft::time::{sleep, timeout};
use warpweft::{JoinError, Runtime, block_on, fiber, scope, scope_async, yield_now};

/// Counts the values that exist.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn payload<T>(outcome: thread::Result<T>) -> &'static str {
    let panic = outcome.err().expect("a panic");
    panic.downcast_ref::<&'static str>().copied().expect("ours")
}

/// Sums what it borrows, in pieces that wait.
fn lengths(names: &[String]) -> usize {
    scope(|scope| {
        let parts: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(n, name)| {
                scope.spawn_future(async move {
                    match n % 3 {
                        0 => sleep(Duration::from_millis(1)).await,
                        1 => yield_now().await,
                        _ => {}
                    }
                    name.len()
                })
            })
            .collect();
        parts.into_iter().map(|part| part.wait().expect("no panic")).sum()
    })
}

#[test]
fn futures_borrow_from_jobs_fibers_and_threads_of_nobody() {
    let names: Vec<String> = (0..50).map(|n| "x".repeat(n)).collect();
    everywhere(|runtime| {
        assert_eq!(runtime.install(|_| lengths(&names)), Ok(1225));
        let theirs = names.clone();
        assert_eq!(
            runtime
                .spawn_fiber(move || lengths(&theirs))
                .wait()
                .expect("a sum"),
            1225
        );
        let theirs = names.clone();
        let inside = async move { lengths(&theirs) };
        assert_eq!(runtime.spawn(inside).wait().expect("a sum"), 1225);
    });
    assert_eq!(lengths(&names), 1225);
}

#[test]
fn the_scope_waits_for_futures_that_nobody_asks_for() {
    everywhere(|runtime| {
        let mut places = vec![0; 40];
        let scoped = runtime.install(|cx| {
            cx.scope(|scope| {
                for (n, place) in places.iter_mut().enumerate() {
                    drop(scope.spawn_future(async move {
                        yield_now().await;
                        *place = n;
                    }));
                }
            });
        });
        scoped.expect("open");
        assert!(places.iter().enumerate().all(|(n, place)| n == *place));
    });
}

#[test]
fn futures_of_a_scope_await_each_other() {
    everywhere(|runtime| {
        let base = 5;
        let sum = runtime.install(|cx| {
            cx.scope(|scope| {
                let first = scope.spawn_future(async {
                    yield_now().await;
                    &base
                });
                // The result is a borrow, too.
                let second = scope.spawn_future(async move { first.await.expect("no panic") + 1 });
                second.wait().expect("no panic") + base
            })
        });
        assert_eq!(sum, Ok(11));
    });
}

#[test]
fn a_panic_is_whose_who_asks_and_the_scopes_else() {
    everywhere(|runtime| {
        for waits in [false, true] {
            let panics = move || async move {
                if waits {
                    yield_now().await;
                }
                panic_any("the future");
            };
            let asked = runtime.install(|cx| {
                cx.scope(|scope| scope.spawn_future::<_>(panics()).wait().expect_err("a panic"))
            });
            assert_eq!(
                payload(Err::<(), _>(asked.expect("open").into_panic().expect("a panic"))),
                "the future"
            );
            // Dropped before it ends, dropped after it ended, kept to the end of the body.
            for kept in 0..3 {
                let raised = runtime.install(|cx| {
                    catch_unwind(AssertUnwindSafe(|| {
                        cx.scope(|scope| {
                            let handle = scope.spawn_future(async move {
                                panics().await;
                            });
                            if kept == 1 {
                                block_on(sleep(Duration::from_millis(5)));
                            }
                            if kept < 2 {
                                drop(handle);
                            }
                        });
                    }))
                });
                assert_eq!(payload(raised.expect("open")), "the future");
            }
        }
    });
}

#[test]
fn what_panics_while_a_future_is_dropped_is_the_scopes() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_any("the drop");
        }
    }
    everywhere(|runtime| {
        let raised = runtime.install(|cx| {
            catch_unwind(AssertUnwindSafe(|| {
                cx.scope(|scope| {
                    // A result that is not taken.
                    drop(scope.spawn_future(async {
                        yield_now().await;
                        Bomb
                    }));
                });
            }))
        });
        assert_eq!(payload(raised.expect("open")), "the drop");
    });
}

#[test]
fn a_waker_outlives_the_scope_and_the_pool() {
    let runtime = Runtime::builder().workers(2).build().expect("two");
    let kept = Mutex::new(None::<Waker>);
    let polls = AtomicUsize::new(0);
    let scoped = runtime.install(|cx| {
        cx.scope(|scope| {
            let waits = poll_fn(|cx| {
                *kept.lock().expect("unpoisoned") = Some(cx.waker().clone());
                match polls.fetch_add(1, Ordering::AcqRel) {
                    0 => Poll::Pending,
                    _ => Poll::Ready(()),
                }
            });
            let handle = scope.spawn_future(waits);
            eventually("it waits", || kept.lock().expect("unpoisoned").is_some());
            kept.lock()
                .expect("unpoisoned")
                .as_ref()
                .expect("a waker")
                .wake_by_ref();
            handle.wait().expect("no panic");
        });
    });
    scoped.expect("open");
    let waker = kept.into_inner().expect("unpoisoned").expect("a waker");
    waker.wake_by_ref();
    drop(runtime);
    waker.wake();
    assert_eq!(polls.load(Ordering::Acquire), 2);
}

#[test]
fn the_pool_ends_under_futures_that_borrow() {
    for fibers in [false, true] {
        let runtime = Runtime::builder().workers(2).build().expect("two");
        let alive = Arc::new(AtomicUsize::new(0));
        let (started, wait) = oneshot::channel();
        let count = Arc::clone(&alive);
        let body = move || {
            let place = String::from("borrowed");
            scope(|scope| {
                drop(scope.spawn_future(async {
                    let _alive = Alive::new(&count);
                    started.send(place.len()).expect("awaited");
                    pending::<()>().await;
                }));
            });
        };
        let handle = if fibers {
            runtime.spawn_fiber(body)
        } else {
            runtime.spawn_job(body)
        };
        assert_eq!(wait.wait(), Ok(8));
        drop(runtime);
        assert!(handle.wait().is_err());
        assert_eq!(alive.load(Ordering::Acquire), 0);
    }
}

#[test]
fn a_future_that_switches_fibers_waits_for_futures_that_borrow() {
    let runtime = Runtime::builder().workers(1).build().expect("one");
    let sums = runtime.spawn_fiber(|| {
        let others: Vec<_> = (0..20)
            .map(|n| fiber::spawn(move || lengths(&vec![String::from("ab"); n])))
            .collect();
        others
            .into_iter()
            .map(|other| other.wait().expect("a sum"))
            .sum::<usize>()
    });
    assert_eq!(sums.wait().expect("a sum"), 380);
}

#[test]
fn an_async_scope_waits_for_its_tasks() {
    everywhere(|runtime| {
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        let value = runtime.block_on(scope_async(|scope| async move {
            for n in 0..50_u64 {
                let (count, inner) = (Arc::clone(&count), scope.clone());
                let handle = scope.spawn(async move {
                    if n.is_multiple_of(3) {
                        sleep(Duration::from_millis(1)).await;
                    }
                    // Tasks spawn tasks, also after the body has ended.
                    let count_inside = Arc::clone(&count);
                    drop(inner.spawn(async move {
                        yield_now().await;
                        count_inside.fetch_add(1, Ordering::AcqRel);
                    }));
                    count.fetch_add(1, Ordering::AcqRel);
                    n
                });
                if n == 7 {
                    assert_eq!(handle.await.expect("no panic"), 7);
                }
            }
            "value"
        }));
        assert_eq!((value, done.load(Ordering::Acquire)), ("value", 100));
    });
}

#[test]
fn panics_of_an_async_scope() {
    everywhere(|runtime| {
        let alive = Arc::new(AtomicUsize::new(0));
        // A panic of the body: its tasks are cancelled, and have ended when the panic continues.
        let raised = catch_unwind(AssertUnwindSafe(|| {
            let scope = scope_async(|scope| {
                let member = Alive::new(&alive);
                drop(scope.spawn(async move {
                    let _member = member;
                    pending::<()>().await;
                }));
                async {
                    yield_now().await;
                    panic_any("the body");
                }
            });
            runtime.block_on(scope);
        }));
        assert_eq!(payload(raised), "the body");
        assert_eq!(alive.load(Ordering::Acquire), 0);
        // A panic of a task whose result is not taken.
        let raised = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(scope_async(|scope| async move {
                drop(scope.spawn(async {
                    yield_now().await;
                    panic_any("a task");
                }));
            }));
        }));
        assert_eq!(payload(raised), "a task");
        // A panic of a task whose result is taken.
        let asked = runtime.block_on(scope_async(|scope| async move {
            let handle = scope.spawn(async {
                yield_now().await;
                panic_any("a task");
            });
            handle.await.expect_err("a panic")
        }));
        assert!(asked.is_panic());
    });
}

/// Its end takes some time.
struct Slow(Arc<AtomicUsize>);

impl Drop for Slow {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(20));
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The only worker is busy, so the task is cancelled before it runs.
#[test]
fn a_task_that_never_ran_has_ended_before_its_scope() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let alive = Arc::new(AtomicUsize::new(1));
    let (go_on, told) = std::sync::mpsc::channel::<()>();
    let busy = runtime.spawn_job(move || told.recv());
    let slow = Slow(Arc::clone(&alive));
    let raised = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(scope_async(|scope| async move {
            drop(scope.spawn(async move {
                let _slow = slow;
                pending::<()>().await;
            }));
            // After the task was cancelled.
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(50));
                go_on.send(()).expect("it waits");
            });
            panic_any("the body");
        }));
    }));
    assert_eq!(payload(raised), "the body");
    assert_eq!(alive.load(Ordering::Acquire), 0);
    busy.wait().expect("no panic").expect("told");
}

#[test]
fn dropping_an_async_scope_cancels_its_tasks() {
    everywhere(|runtime| {
        let alive = Arc::new(AtomicUsize::new(0));
        let kept = Arc::new(Mutex::new(None));
        let (count, place) = (Arc::clone(&alive), Arc::clone(&kept));
        let limited = runtime.block_on(timeout(
            Duration::from_millis(3),
            scope_async(|scope| async move {
                *place.lock().expect("unpoisoned") = Some(scope.clone());
                for _ in 0..20 {
                    let member = Alive::new(&count);
                    drop(scope.spawn(async move {
                        let _member = member;
                        pending::<()>().await;
                    }));
                }
                pending::<()>().await;
            }),
        ));
        assert!(limited.is_err());
        eventually("all are gone", || alive.load(Ordering::Acquire) == 0);
        // It is over: what is spawned now never runs.
        let scope = kept.lock().expect("unpoisoned").take().expect("a scope");
        let member = Alive::new(&alive);
        let late = runtime.block_on(async {
            scope
                .spawn(async move {
                    let _member = member;
                    unreachable!("the scope has ended")
                })
                .await
        });
        assert!(matches!(late, Err::<(), _>(JoinError::Cancelled)));
        assert_eq!(alive.load(Ordering::Acquire), 0);
    });
}

#[test]
fn an_async_scope_that_is_forgotten_harms_nobody() {
    let runtime = Runtime::builder().workers(1).build().expect("one");
    let (send, receive) = oneshot::channel();
    runtime.block_on(async {
        let mut scope = Box::pin(scope_async(|scope| async move {
            drop(scope.spawn(async move {
                yield_now().await;
                send.send(3).expect("awaited");
            }));
            pending::<()>().await;
        }));
        assert!(
            scope
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        std::mem::forget(scope);
        // Its tasks continue: they were not cancelled.
        assert_eq!(receive.await, Ok(3));
    });
}

#[test]
fn the_pool_ends_under_an_async_scope() {
    let runtime = Runtime::builder().workers(2).build().expect("two");
    let alive = Arc::new(AtomicUsize::new(0));
    let (started, wait) = oneshot::channel();
    let count = Arc::clone(&alive);
    let mut scope = pin!(scope_async(|scope| async move {
        let member = Alive::new(&count);
        let handle = scope.spawn(async move {
            let _member = member;
            started.send(()).expect("awaited");
            pending::<()>().await;
        });
        handle.await
    }));
    runtime.block_on(async {
        assert!(
            scope
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        wait.await.expect("it runs");
    });
    drop(runtime);
    // An external thread awaits the scope: it ends all the same.
    assert!(matches!(block_on(scope), Err(JoinError::Cancelled)));
    assert_eq!(alive.load(Ordering::Acquire), 0);
}

/// The closure is a part of the body: the scope waits for its tasks, also if it makes no future.
#[test]
fn a_scope_whose_closure_panics_waits_for_its_tasks() {
    struct Ends(Arc<AtomicBool>);
    impl Drop for Ends {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(2));
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let runtime = Runtime::builder().workers(2).build().expect("workers");
    let ended = Arc::new(AtomicBool::new(false));
    let (inside, task_ended) = (Arc::clone(&ended), Arc::clone(&ended));
    let outcome = runtime.spawn(async move {
        let ends = Ends(inside);
        let scope = scope_async(move |scope| {
            drop(scope.spawn(async move {
                let _ends = ends;
                pending::<()>().await;
            }));
            if task_ended.load(Ordering::SeqCst) {
                return std::future::ready(());
            }
            panic!("no future")
        });
        scope.await;
    });
    let outcome = outcome.wait().expect_err("it panics");
    assert!(outcome.to_string().contains("no future"), "{outcome}");
    assert!(ended.load(Ordering::SeqCst), "the task has ended before");
}
