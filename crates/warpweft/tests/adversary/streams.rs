//! Parallel streams and pipelines that are dropped, leaked and polled in odd ways.
#![forbid(unsafe_code)]

use crate::keepers::eventually;
use futures_core::Stream;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use warpweft::stream::{ParStream, next, pipeline};
use warpweft::time::sleep;
use warpweft::{fiber, yield_now};

type Item = Pin<Box<dyn Future<Output = usize> + Send>>;

/// A source of futures that counts those that live. It may panic, and it may wake its poller for nothing.
struct Source {
    next: usize,
    end: usize,
    panics_at: usize,
    live: Arc<AtomicUsize>,
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Stream for Source {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        self.next += 1;
        let n = self.next;
        if n % 7 == 3 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        assert_ne!(n, self.panics_at, "a source panics");
        if n > self.end {
            return Poll::Ready(None);
        }
        self.live.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(&self.live));
        Poll::Ready(Some(Box::pin(async move {
            let _counted = counted;
            yield_now().await;
            if n.is_multiple_of(5) {
                sleep(Duration::from_micros(50)).await;
            }
            assert_ne!(n % 11, 0, "an item panics");
            n
        })))
    }
}

fn source(end: usize, panics_at: usize, live: &Arc<AtomicUsize>) -> Source {
    Source {
        next: 0,
        end,
        panics_at,
        live: Arc::clone(live),
    }
}

/// Tries: both forms, dropped after each number of items, with limits of one and of the largest number.
/// Expected: each item's future is dropped.
#[test]
fn streams_are_dropped_in_the_middle() {
    program!(|world| {
        let live = Arc::new(AtomicUsize::new(0));
        let runtime = world.runtime();
        assert!(source(1, 0, &live).par_buffered(0).is_err());
        assert!(source(1, 0, &live).par_buffered_unordered(0).is_err());
        for taken in 0..world.count(30) {
            for limit in [1, 3, usize::MAX] {
                runtime.block_on(async {
                    let mut ordered = source(40, 0, &live).par_buffered(limit).expect("a limit");
                    let mut unordered = source(40, 0, &live)
                        .par_buffered_unordered(limit)
                        .expect("a limit");
                    for _ in 0..taken {
                        drop(next(&mut ordered).await);
                        drop(next(&mut unordered).await);
                    }
                });
            }
        }
        eventually("all items are dropped", || live.load(Ordering::Relaxed) == 0);
    });
}

/// Tries: sources that panic, streams that are polled after that and after their end, with a waker that does
/// nothing. Expected: the panic is the poller's; afterwards the stream ends or panics, and nothing hangs that
/// is awaited.
#[test]
fn sources_that_panic() {
    program!(|world| {
        let live = Arc::new(AtomicUsize::new(0));
        let runtime = world.runtime();
        for at in 1..world.count(20) {
            let mut stream = source(30, at, &live).par_buffered_unordered(4).expect("a limit");
            for _ in 0..50 {
                let poll = || {
                    runtime.block_on(async {
                        Pin::new(&mut stream)
                            .poll_next(&mut Context::from_waker(Waker::noop()))
                            .is_ready()
                    })
                };
                let _ = catch_unwind(AssertUnwindSafe(poll));
            }
            drop(stream);
        }
        eventually("all items are dropped", || live.load(Ordering::Relaxed) == 0);
    });
}

/// Tries: pipelines whose stages panic, wait, spawn and are dropped with items in each stage; capacities of 0
/// and of the largest number. Expected: each item comes out once, or is dropped.
#[test]
fn pipelines_are_dropped_in_the_middle() {
    program!(|world| {
        let live = Arc::new(AtomicUsize::new(0));
        let runtime = world.runtime();
        let none = pipeline(source(3, 0, &live)).stage(0, |item| item).build();
        assert!(none.is_err());
        for taken in 0..world.count(30) {
            let flow = pipeline(source(40, 0, &live))
                .stage(2, |item| item)
                .stage(usize::MAX, |n| async move {
                    assert_ne!(n % 13, 0, "a stage panics");
                    drop(warpweft::spawn(async {}).await);
                    n
                })
                .stage(1, |n| {
                    assert_ne!(n % 17, 0, "a closure panics");
                    async move { n * 2 }
                });
            let mut run = flow.build().expect("room in each stage");
            let end = runtime.spawn_fiber(move || {
                let mut out = 0;
                for _ in 0..taken {
                    out += usize::from(fiber::wait(next(&mut run)).is_some());
                }
                out
            });
            assert!(end.wait().expect("no panic") <= 40);
        }
        eventually("all items are dropped", || live.load(Ordering::Relaxed) == 0);
    });
}

/// Tries: streams that outlive their runtime, are sent to another one, and are forgotten.
/// Expected: errors for the items that went with the runtime.
#[test]
fn streams_outlive_their_runtime() {
    program!(|world| {
        let live = Arc::new(AtomicUsize::new(0));
        for n in 0..world.count(20) {
            let (runtime, other) = (world.runtime(), world.runtime());
            let mut stream = source(40, 0, &live).par_buffered(5).expect("a limit");
            let begun = runtime.block_on(async {
                let first = pin!(next(&mut stream)).await;
                first.is_some()
            });
            assert!(begun);
            drop(runtime);
            if n % 3 == 0 {
                std::mem::forget(stream);
                continue;
            }
            let rest = other.spawn(async move {
                let mut items = 0;
                while next(&mut stream).await.is_some() {
                    items += 1;
                }
                items
            });
            assert!(rest.wait().expect("no panic") > 0);
        }
    });
}
