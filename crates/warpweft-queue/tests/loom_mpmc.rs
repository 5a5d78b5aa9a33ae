//! Every interleaving of few users of a tiny MPMC queue, its tickets about to wrap.
#![cfg(warpweft_loom)]

mod support;

use loom::sync::Arc;
use loom::thread;
use std::num::NonZeroUsize;
use support::drops::Drops;
use support::loom::model;
use warpweft_platform::atomic::{AtomicBool, Ordering, fence};
use warpweft_queue::{Full, Mpmc};

type Queue = Arc<Mpmc<NonZeroUsize>>;

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// A queue that holds `elements` and whose tickets are about to wrap.
fn queue_of(capacity: usize, elements: &[usize]) -> Queue {
    let queue = Mpmc::with_start(capacity, u64::MAX).unwrap();
    for &n in elements {
        queue.try_push(word(n)).unwrap();
    }
    Arc::new(queue)
}

fn start<R: 'static>(queue: &Queue, body: impl FnOnce(&Queue) -> R + 'static) -> thread::JoinHandle<R> {
    let queue = Arc::clone(queue);
    thread::spawn(move || body(&queue))
}

fn drain(queue: &Queue) -> Vec<usize> {
    std::iter::from_fn(|| queue.try_pop()).map(usize::from).collect()
}

#[test]
fn two_pops_share_one_element() {
    model(3, || {
        let queue = queue_of(2, &[1]);
        let other = start(&queue, |queue| queue.try_pop());
        let taken = [queue.try_pop(), other.join().unwrap()];
        assert_eq!(taken.iter().flatten().count(), 1, "{taken:?}");
        assert!(queue.is_empty());
        queue.try_push(word(2)).unwrap();
        assert_eq!(drain(&queue), [2]);
    });
}

#[test]
fn two_pushes_share_one_room() {
    model(3, || {
        let queue = queue_of(2, &[1]);
        let other = start(&queue, |queue| queue.try_push(word(2)).is_ok());
        let pushed = [queue.try_push(word(3)).is_ok(), other.join().unwrap()];
        assert_eq!(pushed.iter().filter(|&&pushed| pushed).count(), 1);
        assert_eq!(queue.len(), 2);
        assert_eq!(drain(&queue), [1, if pushed[0] { 3 } else { 2 }]);
    });
}

/// The element pushed in between was there before the last pop began: if that pop finds nothing, the other
/// thread must have taken the element. It does not if it was about to hand its ticket back when the push
/// came.
#[test]
fn none_is_honest_while_another_overshoots() {
    model(3, || {
        let queue = queue_of(2, &[1]);
        let other = start(&queue, |queue| queue.try_pop());
        let first = queue.try_pop();
        queue.try_push(word(2)).unwrap();
        let last = queue.try_pop();
        let other = other.join().unwrap();
        let taken = || [first, last, other].into_iter().flatten().map(usize::from);
        assert!(
            last.is_some() || taken().count() == 2,
            "nobody took the element, but there was none"
        );
        let mut all: Vec<_> = taken().chain(drain(&queue)).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// There was room before the last push began: if that push finds none, the other thread must have used it.
#[test]
fn full_is_honest_while_another_overshoots() {
    model(3, || {
        let queue = queue_of(2, &[1]);
        let other = start(&queue, |queue| queue.try_push(word(4)).is_ok());
        let first = queue.try_push(word(2)).is_ok();
        assert!(queue.try_pop().is_some());
        let last = queue.try_push(word(3)).is_ok();
        let other = other.join().unwrap();
        let pushed = [first, last, other].into_iter().filter(|&pushed| pushed).count();
        assert!(last || pushed == 2, "nobody used the room, but there was none");
        assert_eq!(drain(&queue).len(), pushed);
    });
}

#[test]
fn producer_and_consumer_lap_each_other_in_order() {
    for capacity in [1, 2] {
        model(3, move || {
            let queue = queue_of(capacity, &[]);
            let producer = start(&queue, |queue| {
                let mut pushed = 0;
                while pushed < 3 && queue.try_push(word(pushed + 1)).is_ok() {
                    pushed += 1;
                }
                pushed
            });
            let mut taken: Vec<_> = (0..3).filter_map(|_| queue.try_pop()).map(usize::from).collect();
            let pushed = producer.join().unwrap();
            taken.extend(drain(&queue));
            assert_eq!(taken, (1..=pushed).collect::<Vec<_>>());
        });
    }
}

#[test]
fn both_ends_overshoot_at_once() {
    model(2, || {
        let queue = queue_of(1, &[]);
        let pushers = [1, 2].map(|n| start(&queue, move |queue| queue.try_push(word(n)).is_ok()));
        let mut taken: Vec<_> = (0..2).filter_map(|_| queue.try_pop()).map(usize::from).collect();
        let pushed = pushers.map(|pusher| pusher.join().unwrap());
        taken.extend(drain(&queue));
        taken.sort_unstable();
        let expected: Vec<_> = [1, 2].into_iter().filter(|n| pushed[n - 1]).collect();
        assert_eq!(taken, expected);
        assert!(!expected.is_empty());
    });
}

#[test]
fn blocking_calls_meet() {
    model(2, || {
        let queue = queue_of(1, &[]);
        let consumer = start(&queue, |queue| [queue.pop_blocking(), queue.pop_blocking()]);
        queue.push_blocking(word(1));
        queue.push_blocking(word(2));
        assert_eq!(consumer.join().unwrap(), [word(1), word(2)]);
        assert!(queue.is_empty());
    });
}

fn pusher_and_sleeper(finds: fn(&Queue) -> bool) {
    let queue = queue_of(1, &[]);
    let sleeping = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&sleeping);
    let pusher = start(&queue, move |queue| {
        queue.try_push(word(1)).unwrap();
        fence(Ordering::SeqCst);
        seen.load(Ordering::Relaxed)
    });
    sleeping.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let found = finds(&queue);
    let woken = pusher.join().unwrap();
    assert!(found || woken, "the sleeper sleeps, the element waits");
}

#[test]
fn pusher_and_sleeper_who_pops_do_not_miss_each_other() {
    model(3, || pusher_and_sleeper(|queue| queue.try_pop().is_some()));
}

#[test]
fn pusher_and_sleeper_who_looks_do_not_miss_each_other() {
    model(3, || pusher_and_sleeper(|queue| !queue.is_empty()));
}

#[test]
fn each_is_dropped_once() {
    model(2, || {
        let drops = Drops::new(3);
        let queue = Arc::new(Mpmc::with_capacity(2).unwrap());
        let (shared, of_pusher) = (Arc::clone(&queue), drops.clone());
        let pusher = thread::spawn(move || {
            for id in 0..2 {
                if let Err(Full(back)) = shared.try_push(of_pusher.make(id)) {
                    drop(back);
                }
            }
        });
        drop(queue.try_push(drops.make(2)));
        drop(queue.try_pop());
        pusher.join().unwrap();
        drop(queue);
        drops.assert_each_once();
    });
}
