//! `join_async`: trees that wait and trees that compute, panics, dropping, the end of a pool.

use crate::eventually::eventually;
use crate::everywhere::everywhere;
use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use warpweft::policy::Count;
use warpweft::sync::oneshot;
use warpweft::time::{sleep, timeout};
use warpweft::{ForkCx, Runtime, block_on, join_async, spawn, yield_now};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A leaf counts itself; some leaves sleep, some yield, some are ready at once.
fn sum(from: u64, to: u64, millis: u64) -> Boxed<u64> {
    Box::pin(async move {
        if to - from == 1 {
            match from % 3 {
                0 => sleep(Duration::from_millis(millis)).await,
                1 => yield_now().await,
                _ => {}
            }
            return from;
        }
        let middle = from + (to - from) / 2;
        let (left, right) = join_async(sum(from, middle, millis), sum(middle, to, millis)).await;
        left + right
    })
}

/// Counts when it is dropped.
struct Drops(Arc<AtomicUsize>);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Polls on a worker, and returns true if the future waits.
fn is_pending_on<F: Future + Send>(runtime: &Runtime, future: Pin<&mut F>) -> bool {
    let poll = |_: ForkCx<'_>| future.poll(&mut Context::from_waker(Waker::noop())).is_pending();
    runtime.install(poll).expect("open")
}

#[test]
fn a_tree_of_leaves_that_wait_and_leaves_that_do_not() {
    everywhere(|runtime| {
        assert_eq!(runtime.spawn(sum(0, 500, 1)).wait().expect("a sum"), 124_750);
        assert_eq!(runtime.block_on(sum(0, 100, 0)), 4950);
    });
}

#[test]
fn the_waits_of_a_tree_overlap() {
    let runtime = Runtime::builder().workers(1).build().expect("one");
    let start = Instant::now();
    assert_eq!(runtime.spawn(sum(0, 300, 100)).wait().expect("a sum"), 44_850);
    // One after the other they take ten seconds.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn a_tree_that_waits_for_nothing_makes_no_tasks() {
    fn leaves(depth: u32) -> Boxed<u64> {
        Box::pin(async move {
            match depth {
                0 => 1,
                _ => {
                    let (left, right) = join_async(leaves(depth - 1), leaves(depth - 1)).await;
                    left + right
                }
            }
        })
    }
    let runtime = Runtime::builder().workers(1).build().expect("one");
    assert_eq!(runtime.spawn(leaves(10)).wait().expect("a count"), 1024);
    let counters = runtime.counters().total();
    assert_eq!(counters.get(Count::Spawned), 0, "{counters:?}");
    assert_eq!(counters.get(Count::Suspensions), 0, "{counters:?}");
}

#[test]
fn halves_that_compute_are_shared() {
    async fn busy(id: usize, other: Arc<AtomicUsize>) {
        other.fetch_or(id, Ordering::AcqRel);
        eventually("the other half runs at the same time", || {
            other.load(Ordering::Acquire) == 3
        });
    }
    let runtime = Runtime::builder().workers(2).build().expect("two");
    let seen = Arc::new(AtomicUsize::new(0));
    let (first, second) = (busy(1, Arc::clone(&seen)), busy(2, seen));
    runtime.spawn(join_async(first, second)).wait().expect("both");
}

#[test]
fn halves_wait_for_each_other() {
    everywhere(|runtime| {
        let (to_second, from_first) = oneshot::channel();
        let (to_first, from_second) = oneshot::channel();
        let first = async move {
            let got: u32 = from_second.await.expect("sent");
            to_second.send(got + 1).expect("wanted");
            got
        };
        let second = async move {
            to_first.send(7).expect("wanted");
            from_first.await.expect("sent")
        };
        assert_eq!(
            runtime.spawn(join_async(first, second)).wait().expect("both"),
            (7, 8)
        );
    });
}

#[test]
fn the_first_half_borrows_from_the_frame_that_awaits() {
    everywhere(|runtime| {
        runtime.block_on(async {
            let mut numbers = vec![1, 2, 3];
            let ((), second) = join_async(
                async {
                    yield_now().await;
                    numbers.push(4);
                },
                async { 5 },
            )
            .await;
            numbers.push(second);
            assert_eq!(numbers, [1, 2, 3, 4, 5]);
        });
    });
}

#[test]
fn a_panic_is_raised_when_both_have_ended() {
    everywhere(|runtime| {
        for first_waits in [false, true] {
            for second_waits in [false, true] {
                for who in 1..=3 {
                    let half = move |mine: usize, waits: bool| async move {
                        if waits {
                            sleep(Duration::from_millis(1)).await;
                        }
                        if who & mine != 0 {
                            panic_any(mine);
                        }
                        mine
                    };
                    let both = join_async(half(1, first_waits), half(2, second_waits));
                    let error = runtime.spawn(both).wait().expect_err("a panic");
                    let payload = *error
                        .into_panic()
                        .expect("a panic")
                        .downcast::<usize>()
                        .expect("ours");
                    assert_eq!(payload, if who & 1 != 0 { 1 } else { 2 });
                }
            }
        }
    });
}

#[test]
fn a_panic_of_the_first_half_cancels_a_second_one_that_would_never_end() {
    everywhere(|runtime| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let guard = Drops(Arc::clone(&dropped));
        let (started, wait) = oneshot::channel();
        let first = async move {
            wait.await.expect("the second half says that it has begun");
            panic_any("first");
        };
        let second = async move {
            let _guard = guard;
            started.send(()).expect("awaited");
            pending::<()>().await;
        };
        let error = runtime
            .spawn(join_async(first, second))
            .wait()
            .expect_err("a panic");
        assert_eq!(
            error.into_panic().expect("a panic").downcast_ref::<&str>(),
            Some(&"first")
        );
        // Not eventually: the join has waited for it.
        assert_eq!(dropped.load(Ordering::Acquire), 1);
    });
}

#[test]
fn a_panic_before_anybody_came_drops_the_second_half() {
    struct Never;
    impl Future for Never {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            unreachable!("nobody took it, and the first half panicked")
        }
    }
    impl Drop for Never {
        fn drop(&mut self) {
            panic_any("the drop");
        }
    }
    let runtime = Runtime::builder().workers(1).build().expect("one");
    let both = join_async(async { panic_any("first") }, Never);
    let error = runtime.spawn(both).wait().expect_err("a panic");
    assert_eq!(
        error.into_panic().expect("a panic").downcast_ref::<&str>(),
        Some(&"first")
    );
}

#[test]
fn a_panic_while_a_half_is_dropped_is_its_own() {
    struct Bomb(u32);
    impl Future for Bomb {
        type Output = u32;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
            Poll::Ready(self.0)
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_any(self.0);
        }
    }
    let runtime = Runtime::builder().workers(1).build().expect("one");
    let error = runtime
        .spawn(join_async(Bomb(5), ready(())))
        .wait()
        .expect_err("a panic");
    assert_eq!(
        error.into_panic().expect("a panic").downcast_ref::<u32>(),
        Some(&5)
    );
    let error = runtime
        .spawn(join_async(ready(()), Bomb(6)))
        .wait()
        .expect_err("a panic");
    assert_eq!(
        error.into_panic().expect("a panic").downcast_ref::<u32>(),
        Some(&6)
    );
}

#[test]
fn dropping_it_ends_the_whole_tree() {
    fn leaves(depth: u32, dropped: &Arc<AtomicUsize>) -> Boxed<()> {
        let dropped = Arc::clone(dropped);
        Box::pin(async move {
            if depth == 0 {
                let _guard = Drops(dropped);
                return pending().await;
            }
            join_async(leaves(depth - 1, &dropped), leaves(depth - 1, &dropped)).await;
        })
    }
    everywhere(|runtime| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let tree = leaves(6, &dropped);
        let limited = runtime.block_on(timeout(Duration::from_millis(5), tree));
        assert!(limited.is_err());
        // A leaf that had not begun by then has made no guard; no leaf is left.
        eventually("the tree is gone", || Arc::strong_count(&dropped) == 1);
        drop(join_async(leaves(2, &dropped), leaves(2, &dropped)));
        assert_eq!(
            Arc::strong_count(&dropped),
            1,
            "nothing is spawned before the first poll"
        );
    });
}

#[test]
fn a_second_half_that_was_polled_is_dropped_where_it_was() {
    // The future looks where it is, each time.
    struct Stays {
        at: usize,
        polls: usize,
        moved: Arc<AtomicBool>,
        _pinned: std::marker::PhantomPinned,
    }
    impl Future for Stays {
        type Output = ();
        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            let here = std::ptr::from_ref(&*self).addr();
            // SAFETY: nothing is moved out.
            let this = unsafe { self.get_unchecked_mut() };
            if this.polls > 0 && this.at != here {
                this.moved.store(true, Ordering::Release);
            }
            this.at = here;
            this.polls += 1;
            if this.polls < 5 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        }
    }
    impl Drop for Stays {
        fn drop(&mut self) {
            if self.polls > 0 && self.at != std::ptr::from_ref(self).addr() {
                self.moved.store(true, Ordering::Release);
            }
        }
    }
    everywhere(|runtime| {
        let moved = Arc::new(AtomicBool::new(false));
        let stays = || Stays {
            at: 0,
            polls: 0,
            moved: Arc::clone(&moved),
            _pinned: std::marker::PhantomPinned,
        };
        // In place, elsewhere, and both.
        runtime
            .spawn(join_async(ready(()), stays()))
            .wait()
            .expect("both");
        runtime
            .spawn(join_async(yield_now(), stays()))
            .wait()
            .expect("both");
        runtime.spawn(join_async(stays(), stays())).wait().expect("both");
        assert!(!moved.load(Ordering::Acquire));
    });
}

#[test]
fn in_a_job_a_fiber_and_on_a_thread_of_nobody() {
    everywhere(|runtime| {
        let job = runtime.spawn_job(|| block_on(sum(0, 50, 1)));
        assert_eq!(job.wait().expect("a sum"), 1225);
        let inside = runtime.spawn_job(|| {
            let fiber = warpweft::fiber::spawn(|| warpweft::fiber::wait(sum(0, 50, 1)));
            fiber.wait().expect("a sum")
        });
        assert_eq!(inside.wait().expect("a fiber"), 1225);
    });
    assert_eq!(block_on(sum(0, 50, 1)), 1225);
}

#[test]
fn the_pool_ends_under_a_join() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().expect("workers");
        let dropped = Arc::new(AtomicUsize::new(0));
        let (first, second) = (Drops(Arc::clone(&dropped)), Drops(Arc::clone(&dropped)));
        let (started, wait) = oneshot::channel();
        let both = join_async(
            async move {
                let _guard = first;
                pending::<()>().await;
            },
            async move {
                let _guard = second;
                started.send(()).expect("awaited");
                pending::<()>().await;
            },
        );
        let handle = runtime.spawn(both);
        wait.wait().expect("the second half runs");
        drop(runtime);
        assert!(handle.wait().expect_err("the end").is_cancelled());
        assert_eq!(dropped.load(Ordering::Acquire), 2);
    }
}

#[test]
fn a_second_half_whose_pool_ends_is_raised_where_it_is_awaited() {
    // The first half waits when the join is first polled, on a worker; later an external thread awaits it.
    let runtime = Runtime::builder().workers(1).build().expect("one");
    let (go_on, first) = oneshot::channel();
    let mut both = Box::pin(join_async(first, pending::<()>()));
    assert!(is_pending_on(&runtime, both.as_mut()));
    drop(runtime);
    go_on.send(()).expect("awaited");
    let raised = catch_unwind(AssertUnwindSafe(|| block_on(both))).expect_err("no result");
    let text = raised.downcast_ref::<String>().expect("a text");
    assert!(
        text.contains("second half") && text.contains("shut down"),
        "{text}"
    );
}

#[test]
fn a_join_within_a_join_with_tasks_between() {
    everywhere(|runtime| {
        let inner = |n: u64| async move {
            let task = spawn(async move { n });
            let (a, b) = join_async(async move { task.await.expect("a task") }, async move { n * 10 }).await;
            a + b
        };
        let ((a, b), c) = runtime.block_on(join_async(join_async(inner(1), inner(2)), inner(3)));
        assert_eq!((a, b, c), (11, 22, 33));
    });
}
