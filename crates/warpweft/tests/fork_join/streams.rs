//! Parallel streams and pipelines: order, bounds, panics, errors in the middle, dropping, the end of a pool.

use crate::eventually::eventually;
use crate::everywhere::everywhere;
use futures_core::Stream;
use std::future::pending;
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::stream::{NoRoom, ParStream, next, pipeline};
use warpweft::sync::{Semaphore, channel, oneshot};
use warpweft::time::sleep;
use warpweft::{JoinError, Runtime, block_on, yield_now};

/// Numbers, one after the other; now and then the source has to wait.
struct Numbers {
    range: std::ops::Range<u32>,
    waited: bool,
    asked: Arc<AtomicUsize>,
}

fn numbers(range: std::ops::Range<u32>) -> Numbers {
    Numbers {
        range,
        waited: false,
        asked: Arc::default(),
    }
}

impl Stream for Numbers {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        self.waited = !self.waited && self.range.start % 5 == 4;
        if self.waited {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(self.range.next())
    }
}

/// Counts the values that exist, and the largest number at a time.
#[derive(Clone, Default)]
struct Crowd(Arc<(AtomicUsize, AtomicUsize)>);

struct Member(Crowd);

impl Crowd {
    fn enter(&self) -> Member {
        let now = self.0.0.fetch_add(1, Ordering::AcqRel) + 1;
        self.0.1.fetch_max(now, Ordering::AcqRel);
        Member(self.clone())
    }

    fn here(&self) -> usize {
        self.0.0.load(Ordering::Acquire)
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::Acquire)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn collect<S: Stream + Unpin>(mut stream: S) -> Vec<S::Item> {
    let mut all = Vec::new();
    while let Some(item) = next(&mut stream).await {
        all.push(item);
    }
    // A stream that has ended stays so.
    assert!(next(&mut stream).await.is_none());
    all
}

fn values<T>(items: Vec<Result<T, JoinError>>) -> Vec<T> {
    items.into_iter().map(|item| item.expect("no panic")).collect()
}

/// Later items are done sooner.
async fn backwards(n: u32) -> u32 {
    for _ in 0..(40_u32.saturating_sub(n)) {
        yield_now().await;
    }
    n
}

#[test]
fn results_come_in_order_or_as_they_are_there() {
    everywhere(|runtime| {
        for limit in [1, 3, 100] {
            let ordered = numbers(0..40)
                .map_each(backwards)
                .par_buffered(limit)
                .expect("room");
            assert_eq!(
                values(runtime.block_on(collect(ordered))),
                (0..40).collect::<Vec<_>>()
            );
            let items = numbers(0..40).map_each(backwards);
            let unordered = items.par_buffered_unordered(limit).expect("room");
            let mut all = values(runtime.block_on(collect(unordered)));
            all.sort_unstable();
            assert_eq!(all, (0..40).collect::<Vec<_>>());
        }
    });
}

#[test]
fn unordered_is_who_comes_first() {
    everywhere(|runtime| {
        let (open, gate) = oneshot::channel::<()>();
        let gate = Arc::new(Mutex::new(Some(gate)));
        let items = numbers(0..3).map_each(move |n| {
            let gate = (n == 0)
                .then(|| gate.lock().expect("unpoisoned").take())
                .flatten();
            async move {
                if let Some(gate) = gate {
                    gate.await.expect("opened");
                }
                n
            }
        });
        runtime.block_on(async {
            let mut results = items.par_buffered_unordered(3).expect("room");
            let mut early = [0; 2];
            for place in &mut early {
                *place = next(&mut results).await.expect("two").expect("no panic");
            }
            early.sort_unstable();
            assert_eq!(early, [1, 2]);
            open.send(()).expect("awaited");
            assert_eq!(next(&mut results).await.expect("a third").expect("no panic"), 0);
            assert!(next(&mut results).await.is_none());
        });
    });
}

#[test]
fn no_more_are_under_way_than_may_be_and_all_that_may_be_are() {
    everywhere(|runtime| {
        for ordered in [true, false] {
            let crowd = Crowd::default();
            let all_here = Arc::new(Semaphore::new(0));
            let items = {
                let (crowd, all_here) = (crowd.clone(), Arc::clone(&all_here));
                numbers(0..30).map_each(move |n| {
                    let (crowd, all_here) = (crowd.clone(), Arc::clone(&all_here));
                    async move {
                        let _member = crowd.enter();
                        // The first ones wait until four of them are here at the same time.
                        if crowd.here() == 4 {
                            all_here.add(30);
                        }
                        all_here.acquire(1).await.expect("open").forget();
                        n
                    }
                })
            };
            let all = runtime.block_on(async {
                if ordered {
                    collect(items.par_buffered(4).expect("room")).await
                } else {
                    collect(items.par_buffered_unordered(4).expect("room")).await
                }
            });
            assert_eq!(all.len(), 30);
            assert_eq!(crowd.most(), 4);
        }
    });
}

#[test]
fn a_source_is_asked_for_no_more_than_there_is_room_for() {
    let runtime = Runtime::builder().workers(2).build().expect("two");
    let source = numbers(0..100);
    let asked = Arc::clone(&source.asked);
    let mut stream = source
        .map_each(|_| pending::<()>())
        .par_buffered(3)
        .expect("room");
    runtime.block_on(async {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            assert!(Pin::new(&mut stream).poll_next(&mut cx).is_pending());
        }
    });
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[test]
fn a_panic_is_its_item_and_the_others_go_on() {
    everywhere(|runtime| {
        let items = || {
            numbers(0..20).map_each(|n| async move {
                yield_now().await;
                if n == 7 {
                    panic_any("seven");
                }
                n
            })
        };
        let ordered = items().par_buffered(4).expect("room");
        let unordered = items().par_buffered_unordered(4).expect("room");
        let (ordered, unordered) =
            runtime.block_on(async { (collect(ordered).await, collect(unordered).await) });
        assert!(ordered[7].as_ref().is_err_and(JoinError::is_panic));
        for all in [ordered, unordered] {
            assert_eq!(all.len(), 20);
            assert_eq!(all.iter().filter(|item| item.is_err()).count(), 1);
            assert_eq!(all.iter().flatten().sum::<u32>(), 190 - 7);
        }
    });
}

#[test]
fn dropping_it_ends_what_is_under_way() {
    everywhere(|runtime| {
        for form in 0..3 {
            let crowd = Crowd::default();
            let forever = {
                let crowd = crowd.clone();
                move |_| {
                    let member = crowd.enter();
                    async move {
                        let _member = member;
                        pending::<()>().await;
                    }
                }
            };
            runtime.block_on(async {
                let mut stream: Pin<Box<dyn Stream<Item = Result<(), JoinError>> + Send>> = match form {
                    0 => Box::pin(numbers(0..9).map_each(forever).par_buffered(3).expect("room")),
                    1 => Box::pin(
                        numbers(0..9)
                            .map_each(forever)
                            .par_buffered_unordered(3)
                            .expect("room"),
                    ),
                    _ => Box::pin(pipeline(numbers(0..9)).stage(3, forever).build().expect("room")),
                };
                let polled = stream.as_mut().poll_next(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
                eventually("three are under way", || crowd.here() == 3);
            });
            eventually("all are gone", || crowd.here() == 0);
            assert_eq!(crowd.most(), 3);
        }
    });
}

#[test]
fn a_limit_of_nothing_is_an_error_that_says_so() {
    let error = numbers(0..1)
        .map_each(backwards)
        .par_buffered(0)
        .expect_err("no room");
    assert_eq!(error.stage, None);
    assert!(error.to_string().contains("at least 1"), "{error}");
    let error = numbers(0..1)
        .map_each(backwards)
        .par_buffered_unordered(0)
        .expect_err("no room");
    assert_eq!(error.stage, None);
    let built = pipeline(numbers(0..1))
        .stage(1, backwards)
        .stage(0, backwards)
        .stage(0, backwards)
        .build();
    let error: NoRoom = built.expect_err("no room");
    assert_eq!(error.stage, Some(2));
    assert!(
        error.to_string().contains("stage 2") && error.to_string().contains("at least 1"),
        "{error}"
    );
}

#[test]
fn a_pipeline_keeps_the_order_and_the_bounds() {
    everywhere(|runtime| {
        let (first, second) = (Crowd::default(), Crowd::default());
        let step = |crowd: &Crowd, by: u32| {
            let crowd = crowd.clone();
            move |n: u32| {
                let crowd = crowd.clone();
                async move {
                    let _member = crowd.enter();
                    backwards(n % 40).await;
                    n + by
                }
            }
        };
        let run = pipeline(numbers(0..50))
            .stage(4, step(&first, 100))
            .stage(2, step(&second, 1000));
        let all = values(runtime.block_on(collect(run.build().expect("room"))));
        assert_eq!(all, (1100..1150).collect::<Vec<_>>());
        assert!(
            first.most() <= 4 && second.most() <= 2,
            "{} {}",
            first.most(),
            second.most()
        );
    });
}

#[test]
fn stages_go_on_while_the_consumer_is_busy() {
    let runtime = Runtime::builder().workers(2).build().expect("two");
    let done = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&done);
    let mut run = pipeline(numbers(0..100))
        .stage(2, backwards)
        .stage(3, move |n| {
            let count = Arc::clone(&count);
            async move {
                count.fetch_add(1, Ordering::AcqRel);
                n
            }
        })
        .build()
        .expect("room");
    runtime.block_on(async {
        assert_eq!(next(&mut run).await.expect("one").expect("no panic"), 0);
        // Nothing polls now. Four parts are full: the results, the slot behind the stage, what waits for that
        // slot, and the running tasks.
        eventually("the stages are full", || done.load(Ordering::Acquire) == 6);
        thread::sleep(Duration::from_millis(20));
        assert_eq!(done.load(Ordering::Acquire), 6, "the bounds hold");
        assert_eq!(collect(run).await.len(), 99);
    });
}

#[test]
fn panics_in_a_pipeline_stay_in_their_place() {
    everywhere(|runtime| {
        let run = pipeline(numbers(0..20))
            .stage(3, |n| {
                assert_ne!(n, 3, "the closure");
                async move {
                    yield_now().await;
                    assert_ne!(n, 5, "the future");
                    n
                }
            })
            .stage(2, |n| async move { n * 2 });
        let all = runtime.block_on(collect(run.build().expect("room")));
        for (n, item) in all.iter().enumerate() {
            match n {
                3 | 5 => assert!(item.as_ref().is_err_and(JoinError::is_panic), "{item:?}"),
                _ => assert_eq!(*item.as_ref().expect("no panic"), 2 * n as u32),
            }
        }
        assert_eq!(all.len(), 20);
    });
}

#[test]
fn an_error_in_the_middle_comes_after_what_was_before_it() {
    struct Breaks(u32);
    impl Stream for Breaks {
        type Item = Result<u32, String>;
        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.0 += 1;
            Poll::Ready(match self.0 {
                n @ 1..=6 => Some(Ok(n)),
                7 => Some(Err(String::from("the connection broke"))),
                _ => None,
            })
        }
    }
    everywhere(|runtime| {
        let run = pipeline(Breaks(0))
            .try_stage(3, |n| async move {
                yield_now().await;
                if n == 2 {
                    Err(String::from("two"))
                } else {
                    Ok(n * 10)
                }
            })
            .try_stage(2, |n| async move { Ok(n + 1) });
        let all = values(runtime.block_on(collect(run.build().expect("room"))));
        let expected = [
            Ok(11),
            Err("two"),
            Ok(31),
            Ok(41),
            Ok(51),
            Ok(61),
            Err("the connection broke"),
        ];
        assert_eq!(all, expected.map(|item| item.map_err(String::from)));
    });
}

#[test]
fn a_source_that_panics_ends_it_after_what_was_before() {
    struct Bursts(u32);
    impl Stream for Bursts {
        type Item = u32;
        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
            self.0 += 1;
            if self.0 > 4 {
                panic_any("the source");
            }
            Poll::Ready(Some(self.0))
        }
    }
    everywhere(|runtime| {
        let run = pipeline(Bursts(0))
            .stage(3, backwards)
            .stage(1, backwards)
            .build()
            .expect("room");
        let mut all = runtime.block_on(collect(run));
        let last = all.pop().expect("five").expect_err("the panic");
        assert_eq!(
            last.into_panic().expect("a panic").downcast_ref::<&str>(),
            Some(&"the source")
        );
        assert_eq!(values(all), [1, 2, 3, 4]);
    });
}

#[test]
fn the_pool_ends_under_a_stream() {
    for form in 0..3 {
        let runtime = Runtime::builder().workers(2).build().expect("two");
        let (sender, receiver) = channel::unbounded();
        let forever = move |n: u32| {
            let sender = sender.clone();
            async move {
                sender.send(n).await.expect("wanted");
                pending::<u32>().await
            }
        };
        let mut stream: Pin<Box<dyn Stream<Item = Result<u32, JoinError>> + Send>> = match form {
            0 => Box::pin(numbers(0..2).map_each(forever).par_buffered(5).expect("room")),
            1 => Box::pin(
                numbers(0..2)
                    .map_each(forever)
                    .par_buffered_unordered(5)
                    .expect("room"),
            ),
            _ => Box::pin(pipeline(numbers(0..2)).stage(5, forever).build().expect("room")),
        };
        runtime.block_on(async {
            let polled = stream.as_mut().poll_next(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            for _ in 0..2 {
                receiver.recv().await.expect("under way");
            }
        });
        drop(runtime);
        // An external thread continues to read: it gets the reason why there is nothing, and the end.
        let rest = block_on(collect(stream));
        assert!(!rest.is_empty());
        for item in rest {
            assert!(item.expect_err("the end").is_cancelled());
        }
    }
}

#[test]
fn a_waker_that_outlives_the_pool() {
    let runtime = Runtime::builder().workers(1).build().expect("one");
    let kept = Arc::new(Mutex::new(None));
    let items = {
        let kept = Arc::clone(&kept);
        numbers(0..1).map_each(move |_| {
            let kept = Arc::clone(&kept);
            std::future::poll_fn(move |cx| {
                *kept.lock().expect("unpoisoned") = Some(cx.waker().clone());
                Poll::<()>::Pending
            })
        })
    };
    let mut stream = items.par_buffered(1).expect("room");
    runtime.block_on(async {
        let polled = Pin::new(&mut stream).poll_next(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        eventually("the item waits", || kept.lock().expect("unpoisoned").is_some());
    });
    drop(runtime);
    let waker: Waker = kept.lock().expect("unpoisoned").take().expect("a waker");
    waker.wake_by_ref();
    let ended = block_on(next(&mut stream)).expect("an item");
    assert!(ended.expect_err("the end").is_cancelled());
    waker.wake();
    assert!(block_on(next(&mut stream)).is_none());
}

#[test]
fn waits_of_items_overlap() {
    let runtime = Runtime::builder().workers(1).build().expect("one");
    let items = numbers(0..200).map_each(|n| async move {
        sleep(Duration::from_millis(50)).await;
        n
    });
    let start = Instant::now();
    let all = runtime.block_on(collect(items.par_buffered(200).expect("room")));
    assert_eq!(all.len(), 200);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
