//! Joins, streams and scopes of futures in whole pools, under every schedule that a seed can make.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use futures_core::Stream;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use support::{Gate, check, check_with, runtime};
use warpweft::stream::{ParStream, next, pipeline};
use warpweft::sync::channel;
use warpweft::{JoinError, join_async, scope_async, spawn, yield_now};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Counts the values that exist.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Every third leaf waits, every third one is ready only at its second poll.
fn sum(from: u64, to: u64, gate: &Gate) -> Boxed<u64> {
    let gate = gate.clone();
    Box::pin(async move {
        if to - from == 1 {
            match from % 3 {
                0 => gate.await,
                1 => yield_now().await,
                _ => {}
            }
            return from;
        }
        let middle = from + (to - from) / 2;
        let (left, right) = join_async(sum(from, middle, &gate), sum(middle, to, &gate)).await;
        left + right
    })
}

#[test]
fn a_tree_of_futures() {
    for (workers, policy) in [(1, "fifo"), (2, "fifo"), (2, "lifo")] {
        check_with(Arc::new(move || {
            let runtime = runtime(workers, policy);
            let gate = Gate::default();
            gate.open();
            assert_eq!(runtime.spawn(sum(0, 7, &gate)).wait().expect("a sum"), 21);
        }));
    }
}

/// Both halves of each join need the effect of the other one, whichever worker runs them.
#[test]
fn halves_that_wait_for_each_other() {
    for workers in [1, 2] {
        check_with(Arc::new(move || {
            let (first, second) = (Gate::default(), Gate::default());
            let (open_first, open_second) = (first.clone(), second.clone());
            let one = async move {
                open_second.open();
                first.await;
            };
            let other = async move {
                open_first.open();
                second.await;
            };
            runtime(workers, "fifo")
                .spawn(join_async(one, other))
                .wait()
                .expect("both");
        }));
    }
}

/// The first half panics while the second one was not started, is in a queue, or is suspended: the join ends,
/// and nothing is left.
#[test]
fn a_panic_of_the_first_half() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let (mine, others) = (Alive::new(&alive), Alive::new(&alive));
        let first = async move {
            let _mine = mine;
            yield_now().await;
            resume_unwind(Box::new(5))
        };
        let second = async move {
            let _others = others;
            pending::<()>().await;
        };
        let both = join_async(first, second);
        let count = Arc::clone(&alive);
        let handle = runtime.spawn(async move {
            let error = spawn(async move {
                let ((), ()) = both.await;
            })
            .await
            .expect_err("a panic");
            // The join has waited for its second half.
            (
                error.into_panic().expect("a panic").downcast_ref() == Some(&5),
                count.load(Ordering::Acquire),
            )
        });
        assert_eq!(handle.wait().expect("asked"), (true, 0));
    });
}

/// A join is dropped at any point: nothing of it is left when the pool has ended, and nothing hangs.
#[test]
fn a_join_is_dropped() {
    check(|| {
        let runtime = runtime(2, "lifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let gate = Gate::default();
        let half = || {
            let (gate, alive) = (gate.clone(), Alive::new(&alive));
            async move {
                let _alive = alive;
                gate.await;
            }
        };
        let handle = runtime.spawn(join_async(join_async(half(), half()), half()));
        gate.open();
        handle.cancel();
        let ended = handle.wait();
        assert!(ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()));
        drop(runtime);
        assert_eq!(alive.load(Ordering::Acquire), 0);
    });
}

/// The pool ends while halves are anywhere.
#[test]
fn the_pool_ends_under_a_join() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let half = || {
            let alive = Alive::new(&alive);
            async move {
                let _alive = alive;
                pending::<()>().await;
            }
        };
        let handle = runtime.spawn(join_async(half(), join_async(half(), half())));
        drop(runtime);
        assert!(handle.wait().expect_err("the end").is_cancelled());
        assert_eq!(alive.load(Ordering::Acquire), 0);
    });
}

/// Items of a stream, from a channel that is full already.
fn items(count: u32, alive: &Arc<AtomicUsize>) -> impl Stream<Item = Boxed<u32>> + Unpin + Send + use<> {
    let (sender, receiver) = channel::unbounded();
    for n in 0..count {
        let alive = Alive::new(alive);
        let item: Boxed<u32> = Box::pin(async move {
            let _alive = alive;
            if n % 2 == 0 {
                yield_now().await;
            }
            n
        });
        sender.try_send(item).expect("room");
    }
    receiver.into_stream()
}

#[test]
fn streams_in_order_and_not() {
    for ordered in [true, false] {
        check_with(Arc::new(move || {
            let runtime = runtime(2, "fifo");
            let alive = Arc::new(AtomicUsize::new(0));
            let items = items(3, &alive);
            let mut results: Pin<Box<dyn Stream<Item = Result<u32, JoinError>> + Send>> = if ordered {
                Box::pin(items.par_buffered(2).expect("room"))
            } else {
                Box::pin(items.par_buffered_unordered(2).expect("room"))
            };
            let all = runtime.spawn(async move {
                let mut all = Vec::new();
                while let Some(result) = next(&mut results).await {
                    all.push(result.expect("no panic"));
                }
                all
            });
            let mut all = all.wait().expect("all");
            if !ordered {
                all.sort_unstable();
            }
            assert_eq!(all, [0, 1, 2]);
            assert_eq!(alive.load(Ordering::Acquire), 0);
        }));
    }
}

/// A stream is dropped while its items are anywhere: they are gone when the pool has ended, at the latest.
#[test]
fn a_stream_is_dropped() {
    for form in 0..3 {
        check_with(Arc::new(move || {
            let runtime = runtime(2, "lifo");
            let alive = Arc::new(AtomicUsize::new(0));
            let items = items(3, &alive);
            let mut results: Pin<Box<dyn Stream<Item = Result<u32, JoinError>> + Send>> = match form {
                0 => Box::pin(items.par_buffered(2).expect("room")),
                1 => Box::pin(items.par_buffered_unordered(2).expect("room")),
                _ => Box::pin(pipeline(items).stage(2, |item| item).build().expect("room")),
            };
            let first = runtime.spawn(async move { next(&mut results).await.is_some() });
            assert!(first.wait().expect("asked"));
            drop(runtime);
            assert_eq!(alive.load(Ordering::Acquire), 0);
        }));
    }
}

#[test]
fn a_pipeline_of_two_stages() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let run = pipeline(items(3, &alive))
            .stage(2, |item| item)
            .stage(1, |n| async move { n * 10 });
        let mut run = run.build().expect("room");
        let all = runtime.spawn(async move {
            let mut all = Vec::new();
            while let Some(result) = next(&mut run).await {
                all.push(result.expect("no panic"));
            }
            all
        });
        assert_eq!(all.wait().expect("all"), [0, 10, 20]);
    });
}

/// The borrowing futures are gone when the scope has ended, whichever thread polled them last, and whatever
/// happened to the handle.
#[test]
fn futures_that_borrow() {
    for workers in [1, 2] {
        check_with(Arc::new(move || {
            let gate = Gate::default();
            let place = AtomicUsize::new(0);
            let sum = runtime(workers, "fifo").install(|cx| {
                cx.scope(|scope| {
                    let waits = scope.spawn_future(async {
                        gate.clone().await;
                        place.fetch_add(1, Ordering::Relaxed);
                        &place
                    });
                    drop(scope.spawn_future(async {
                        yield_now().await;
                        place.fetch_add(10, Ordering::Relaxed);
                    }));
                    gate.open();
                    waits.wait().expect("no panic").load(Ordering::Relaxed) % 10
                })
            });
            assert_eq!(sum, Ok(1));
            assert_eq!(place.load(Ordering::Relaxed), 11);
        }));
    }
}

/// A panic goes either to the handle or to the scope, also if the handle is dropped while the future panics.
#[test]
fn a_panic_is_in_one_place() {
    check(|| {
        let scoped = runtime(2, "fifo").install(|cx| {
            catch_unwind(AssertUnwindSafe(|| {
                cx.scope(|scope| {
                    let handle = scope.spawn_future(async {
                        yield_now().await;
                        resume_unwind(Box::new(5));
                    });
                    shuttle::thread::yield_now();
                    drop(handle);
                });
            }))
            .expect_err("a panic")
            .downcast_ref()
                == Some(&5)
        });
        assert_eq!(scoped, Ok(true));
    });
}

/// The pool ends while a thread waits for futures that borrow from it.
#[test]
fn the_pool_ends_under_futures_that_borrow() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&alive);
        let handle = runtime.spawn_job(move || {
            let place = 5;
            warpweft::scope(|scope| {
                drop(scope.spawn_future(async {
                    let _alive = Alive::new(&count);
                    pending::<()>().await;
                    assert_eq!(place, 5);
                }));
            });
        });
        drop(runtime);
        assert!(handle.wait().is_err());
        assert_eq!(alive.load(Ordering::Acquire), 0);
    });
}

/// The last task leaves while the scope comes to wait for it.
#[test]
fn an_async_scope_waits_for_its_tasks() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let (tasks, count) = (Arc::clone(&alive), Arc::clone(&alive));
        let ended = runtime.spawn(async move {
            scope_async(|scope| async move {
                for _ in 0..2 {
                    let (alive, inner) = (Alive::new(&tasks), scope.clone());
                    drop(scope.spawn(async move {
                        let _alive = alive;
                        yield_now().await;
                        drop(inner.spawn(async {}));
                    }));
                }
            })
            .await;
            count.load(Ordering::Acquire)
        });
        assert_eq!(ended.wait().expect("ended"), 0);
    });
}

/// A scope is dropped while its tasks are on their way in and out.
#[test]
fn an_async_scope_is_dropped() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let alive = Arc::new(AtomicUsize::new(0));
        let tasks = Arc::clone(&alive);
        let scope = runtime.spawn(scope_async(|scope| async move {
            for _ in 0..2 {
                let alive = Alive::new(&tasks);
                drop(scope.spawn(async move {
                    let _alive = alive;
                    pending::<()>().await;
                }));
                yield_now().await;
            }
        }));
        scope.cancel();
        assert!(
            scope
                .wait()
                .expect_err("it waits for tasks that never end")
                .is_cancelled()
        );
        // Nothing waits for the tasks, but they were cancelled: the pool has nothing left when it is idle.
        drop(runtime);
        assert_eq!(alive.load(Ordering::Acquire), 0);
    });
}
