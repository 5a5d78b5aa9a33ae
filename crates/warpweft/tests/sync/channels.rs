//! Channels of every kind among jobs, futures and plain threads at once.

use crate::everywhere::everywhere;
use crate::polls::{poll_counting, poll_once};
use futures_core::Stream;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use warpweft::sync::{Closed, SendError, TryRecvError, TrySendError, broadcast, channel, oneshot, watch};
use warpweft::{Runtime, block_on, yield_now};

/// A value that counts how many of its kind there are.
struct Counted(u64, Arc<AtomicUsize>);

impl Counted {
    fn new(n: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(n, Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn every_value_arrives_once_among_all_kinds() {
    const EACH: u64 = 200;
    everywhere(|runtime| {
        for capacity in [0, 1, 7, usize::MAX] {
            let (sender, receiver) = channel::bounded(capacity);
            let alive = Arc::new(AtomicUsize::new(0));
            let mut sending = Vec::new();
            let mut receiving = Vec::new();
            for _ in 0..2 {
                let (to, values) = (sender.clone(), Arc::clone(&alive));
                sending.push(runtime.spawn_job(move || {
                    for n in 0..EACH {
                        assert!(to.send(Counted::new(n, &values)).wait().is_ok());
                    }
                }));
                let (to, values) = (sender.clone(), Arc::clone(&alive));
                sending.push(runtime.spawn(async move {
                    for n in 0..EACH {
                        assert!(to.send(Counted::new(n, &values)).await.is_ok());
                    }
                }));
                let from = receiver.clone();
                receiving.push(runtime.spawn_job(move || {
                    let mut sum = 0;
                    while let Ok(value) = from.recv().wait() {
                        sum += value.0 + 1;
                    }
                    sum
                }));
                let from = receiver.clone();
                receiving.push(runtime.spawn(async move {
                    let mut sum = 0;
                    while let Ok(value) = from.recv().await {
                        sum += value.0 + 1;
                    }
                    sum
                }));
            }
            let outside = thread::spawn(move || {
                let mut sum = 0;
                while let Ok(value) = receiver.recv().wait() {
                    sum += value.0 + 1;
                }
                sum
            });
            for task in sending {
                task.wait().expect("no panic");
            }
            drop(sender);
            let received: u64 = receiving
                .into_iter()
                .map(|task| task.wait().expect("no panic"))
                .sum();
            let received = received + outside.join().expect("no panic");
            assert_eq!(received, 4 * EACH * (EACH + 1) / 2, "capacity {capacity}");
            assert_eq!(alive.load(Ordering::SeqCst), 0);
        }
    });
}

#[test]
fn values_of_one_sender_keep_their_order() {
    everywhere(|runtime| {
        for capacity in [0, 1, 3] {
            let (sender, receiver) = channel::bounded(capacity);
            let job = runtime.spawn_job(move || (0..500).try_for_each(|n| sender.send(n).wait()));
            let values = runtime.block_on(async {
                let mut values = Vec::new();
                while let Ok(value) = receiver.recv().await {
                    values.push(value);
                }
                values
            });
            assert!(values.into_iter().eq(0..500));
            job.wait().expect("no panic").expect("received");
        }
    });
}

#[test]
fn capacity_is_what_is_kept_and_none_means_hand_to_hand() {
    let (sender, receiver) = channel::bounded(2);
    assert_eq!(sender.try_send(1), Ok(()));
    assert_eq!(sender.try_send(2), Ok(()));
    assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
    let mut third = Box::pin(sender.send(3));
    assert_eq!(poll_once(&mut third), Poll::Pending);
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(poll_once(&mut third), Poll::Ready(Ok(())));
    assert_eq!(receiver.len(), 2);

    let (sender, receiver) = channel::bounded(0);
    assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    let mut send = Box::pin(sender.send(1));
    assert_eq!(poll_once(&mut send), Poll::Pending);
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(poll_once(&mut send), Poll::Ready(Ok(())));
    let mut receive = Box::pin(receiver.recv());
    assert_eq!(poll_once(&mut receive), Poll::Pending);
    assert_eq!(sender.try_send(2), Ok(()));
    assert_eq!(poll_once(&mut receive), Poll::Ready(Ok(2)));
}

#[test]
fn a_value_given_to_nobody_goes_to_the_next_or_back() {
    for capacity in [0, 1] {
        let (sender, receiver) = channel::bounded(capacity);
        let mut first = Box::pin(receiver.recv());
        let mut second = Box::pin(receiver.recv());
        assert_eq!(poll_once(&mut first), Poll::Pending);
        let wakes = poll_counting(&mut second, None);
        assert_eq!(sender.try_send(1), Ok(()));
        drop(first);
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        assert_eq!(poll_once(&mut second), Poll::Ready(Ok(1)));
        // Without a waiter it is the first again, even if the channel is full then.
        let mut third = Box::pin(receiver.recv());
        assert_eq!(poll_once(&mut third), Poll::Pending);
        assert_eq!(sender.try_send(2), Ok(()));
        let after = sender.try_send(3);
        let mut late = Box::pin(sender.send(4));
        assert_eq!(poll_once(&mut late), Poll::Pending);
        drop(third);
        assert_eq!(receiver.try_recv(), Ok(2));
        if after.is_ok() {
            assert_eq!(poll_once(&mut late), Poll::Pending, "one too many was there");
            assert_eq!(receiver.try_recv(), Ok(3));
        }
        assert_eq!(receiver.try_recv(), Ok(4));
        assert_eq!(poll_once(&mut late), Poll::Ready(Ok(())));
    }
}

#[test]
fn a_send_that_is_given_up_sends_nothing() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = channel::bounded(1);
    assert!(sender.try_send(Counted::new(1, &alive)).is_ok());
    let mut second = Box::pin(sender.send(Counted::new(2, &alive)));
    let mut third = Box::pin(sender.send(Counted::new(3, &alive)));
    assert!(poll_once(&mut second).is_pending() && poll_once(&mut third).is_pending());
    drop(second);
    assert_eq!(alive.load(Ordering::SeqCst), 2);
    let numbers = [(); 2].map(|()| receiver.try_recv().expect("there").0);
    assert_eq!(numbers, [1, 3]);
    assert!(matches!(poll_once(&mut third), Poll::Ready(Ok(()))));
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn what_is_sent_before_the_end_arrives() {
    let (sender, receiver) = channel::bounded(1);
    let mut early = Box::pin(receiver.recv());
    assert_eq!(poll_once(&mut early), Poll::Pending);
    assert_eq!(sender.try_send(0), Ok(()));
    assert_eq!(sender.try_send(1), Ok(()));
    let mut late = Box::pin(sender.send(2));
    assert_eq!(poll_once(&mut late), Poll::Pending);
    assert!(receiver.close());
    assert!(!sender.close(), "closed already");
    assert!(sender.is_closed());
    assert_eq!(poll_once(&mut late), Poll::Ready(Err(SendError(2))));
    assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
    assert_eq!(sender.send(3).wait(), Err(SendError(3)));
    assert_eq!(poll_once(&mut early), Poll::Ready(Ok(0)));
    assert_eq!(receiver.recv().wait(), Ok(1));
    assert_eq!(receiver.recv().wait(), Err(Closed));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn the_last_receiver_takes_the_values_along() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = channel::unbounded();
    let other = receiver.clone();
    for n in 0..10 {
        assert!(sender.try_send(Counted::new(n, &alive)).is_ok());
    }
    drop(receiver);
    assert_eq!(alive.load(Ordering::SeqCst), 10);
    drop(other);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert!(sender.try_send(Counted::new(0, &alive)).is_err());
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn waits_end_when_the_other_side_goes() {
    everywhere(|runtime| {
        let (sender, receiver) = channel::bounded::<i32>(0);
        let from = receiver.clone();
        let waiting = runtime.spawn_job(move || from.recv().wait());
        drop(sender);
        assert_eq!(waiting.wait().expect("no panic"), Err(Closed));
        let (sender, receiver) = channel::bounded(0);
        let waiting = runtime.spawn(async move { sender.send(1).await });
        drop(receiver);
        assert_eq!(waiting.wait().expect("no panic"), Err(SendError(1)));
    });
}

#[test]
fn a_stream_gives_back_what_it_was_given() {
    let (sender, receiver) = channel::unbounded();
    let mut stream = receiver.into_stream();
    let mut next = || Pin::new(&mut stream).poll_next(&mut Context::from_waker(Waker::noop()));
    assert_eq!(next(), Poll::Pending);
    assert_eq!(sender.try_send(1), Ok(()));
    assert_eq!(sender.try_send(2), Ok(()));
    // Value 1 is in the stream's hands.
    let receiver = stream.into_receiver();
    assert_eq!(receiver.len(), 2);
    let mut stream = receiver.into_stream();
    drop(sender);
    let values = block_on(async {
        let mut values = Vec::new();
        while let Some(value) = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await {
            values.push(value);
        }
        values
    });
    assert_eq!(values, [1, 2]);
}

#[test]
fn promises_among_all_kinds() {
    everywhere(|runtime| {
        let mut receivers = Vec::new();
        for n in 0..50 {
            let (sender, receiver) = oneshot::channel();
            receivers.push(receiver);
            match n % 3 {
                0 => runtime.spawn_job(move || sender.send(n)).detach(),
                1 => runtime
                    .spawn(async move {
                        yield_now().await;
                        sender.send(n)
                    })
                    .detach(),
                _ => drop(thread::spawn(move || sender.send(n))),
            }
        }
        let mut expected = 0;
        while let Some(receiver) = receivers.pop() {
            let value = if expected % 2 == 0 {
                runtime.spawn_job(move || receiver.wait()).wait()
            } else {
                runtime.spawn(receiver).wait()
            };
            assert_eq!(value.expect("no panic"), Ok(49 - expected));
            expected += 1;
        }
    });
}

#[test]
fn a_promise_and_waiters_that_leave() {
    let alive = Arc::new(AtomicUsize::new(0));
    let (sender, mut receiver) = oneshot::channel::<Counted>();
    assert!(matches!(receiver.try_recv(), Err(TryRecvError::Empty)));
    assert!(!sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    assert!(sender.send(Counted::new(1, &alive)).is_err());
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    // Sent, and never taken.
    let (sender, receiver) = oneshot::channel();
    assert!(sender.send(Counted::new(1, &alive)).is_ok());
    drop(receiver);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    // Another waker replaces the first.
    let (sender, receiver) = oneshot::channel();
    let mut receiver = Box::pin(receiver);
    let [first, second] = [(); 2].map(|()| poll_counting(&mut receiver, None));
    assert_eq!(sender.send(1), Ok(()));
    assert_eq!(
        (first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)),
        (0, 1)
    );
    assert_eq!(poll_once(&mut receiver), Poll::Ready(Ok(1)));
    let (sender, mut receiver) = oneshot::channel::<i32>();
    drop(sender);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(receiver.wait(), Err(Closed));
}

#[test]
fn all_receivers_of_a_broadcast_get_all_values() {
    everywhere(|runtime| {
        const VALUES: u64 = 200;
        let (sender, first) = broadcast::channel(1000);
        let mut tasks = Vec::new();
        for n in 0..6 {
            let mut receiver = first.clone();
            tasks.push(if n % 2 == 0 {
                runtime.spawn(async move {
                    let mut sum = 0;
                    while let Ok(value) = receiver.recv().await {
                        sum += value;
                    }
                    sum
                })
            } else {
                runtime.spawn_job(move || {
                    let mut sum = 0;
                    while let Ok(value) = receiver.recv().wait() {
                        sum += value;
                    }
                    sum
                })
            });
        }
        drop(first);
        let other = sender.clone();
        let thread = thread::spawn(move || (0..VALUES / 2).for_each(|n| assert!(other.send(n).is_ok())));
        (VALUES / 2..VALUES).for_each(|n| assert!(sender.send(n).is_ok()));
        thread.join().expect("no panic");
        drop(sender);
        for task in tasks {
            assert_eq!(task.wait().expect("no panic"), VALUES * (VALUES - 1) / 2);
        }
    });
}

#[test]
fn a_slow_receiver_is_told_how_many_it_missed() {
    let (sender, mut slow) = broadcast::channel(3);
    let mut fast = sender.subscribe();
    for n in 0..10 {
        assert_eq!(sender.send(n), Ok(2));
        assert_eq!(fast.try_recv(), Ok(Some(n)));
    }
    let mut late = sender.subscribe();
    assert_eq!(slow.recv().wait(), Err(broadcast::RecvError::Lagged(7)));
    assert_eq!(slow.recv().wait(), Ok(7));
    // Missed again, after having caught up in part.
    assert_eq!(sender.send(10), Ok(3));
    assert_eq!(sender.send(11), Ok(3));
    assert_eq!(slow.try_recv(), Err(broadcast::RecvError::Lagged(1)));
    drop(sender);
    let rest: Vec<_> = std::iter::from_fn(|| slow.try_recv().ok().flatten()).collect();
    assert_eq!(rest, [9, 10, 11]);
    assert_eq!(slow.recv().wait(), Err(broadcast::RecvError::Closed));
    assert_eq!(late.recv().wait(), Ok(10));
    let (sender, receiver) = broadcast::channel(0);
    drop(receiver);
    assert_eq!(sender.send(1), Err(SendError(1)));
}

#[test]
fn what_is_watched_ends_with_the_latest_value() {
    everywhere(|runtime| {
        let (sender, receiver) = watch::channel(0);
        let mut tasks = Vec::new();
        for n in 0..4 {
            let mut receiver = receiver.clone();
            tasks.push(if n % 2 == 0 {
                runtime.spawn(async move {
                    let mut last = *receiver.get();
                    while receiver.changed().await.is_ok() {
                        let now = *receiver.get();
                        assert!(now >= last);
                        last = now;
                    }
                    last
                })
            } else {
                runtime.spawn_job(move || {
                    while receiver.changed().wait().is_ok() {}
                    assert!(!receiver.has_changed());
                    *receiver.get()
                })
            });
        }
        assert_eq!(sender.receivers(), 5);
        for n in 1..=300 {
            assert_eq!(sender.send(n), Ok(()));
        }
        drop(receiver);
        assert_eq!(*sender.get(), 300);
        drop(sender);
        for task in tasks {
            assert_eq!(task.wait().expect("no panic"), 300);
        }
    });
}

#[test]
fn a_watch_that_nobody_looks_at_keeps_its_value() {
    let (sender, receiver) = watch::channel(1);
    drop(receiver);
    assert_eq!(sender.send(2), Err(SendError(2)));
    assert_eq!(*sender.subscribe().get(), 1);
}

#[test]
fn one_worker_is_enough_for_jobs_on_both_ends() {
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    let (ping, to) = channel::bounded(0);
    let (back, pong) = channel::bounded(0);
    let echo = runtime.spawn_job(move || {
        while let Ok(n) = to.recv().wait() {
            back.send(n + 1).wait().expect("the other is there");
        }
    });
    let count = runtime.spawn_job(move || {
        let mut n = 0;
        while n < 100 {
            ping.send(n).wait().expect("the other is there");
            n = pong.recv().wait().expect("the other is there");
        }
        n
    });
    assert_eq!(count.wait().expect("no panic"), 100);
    echo.wait().expect("no panic");
}

/// A value that cannot be copied now may be later.
#[test]
fn a_broadcast_value_whose_clone_panics_is_received_by_the_next_call() {
    #[derive(Debug)]
    struct Once(u32, Arc<AtomicBool>);
    impl Clone for Once {
        fn clone(&self) -> Self {
            assert!(!self.1.swap(false, Ordering::Relaxed), "not now");
            Self(self.0, Arc::clone(&self.1))
        }
    }
    let (sender, mut first) = broadcast::channel(4);
    let _second = sender.subscribe();
    let bomb = Arc::new(AtomicBool::new(true));
    for number in 0..2 {
        sender
            .send(Once(number, Arc::clone(&bomb)))
            .expect("there are receivers");
    }
    assert!(catch_unwind(AssertUnwindSafe(|| first.try_recv())).is_err());
    let numbers = [first.try_recv(), first.try_recv()].map(|value| value.expect("open").map(|value| value.0));
    assert_eq!(numbers, [Some(0), Some(1)]);
}
