//! Every interleaving of few users of a locked queue. They test the length that is read without the lock.
#![cfg(warpweft_loom)]

mod support;

use loom::sync::Arc;
use loom::thread;
use std::num::NonZeroUsize;
use support::loom::model;
use warpweft_platform::atomic::{AtomicBool, Ordering, fence};
use warpweft_queue::Locked;

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

#[test]
fn a_completed_push_is_seen_without_the_lock() {
    model(3, || {
        let queue = Arc::new(Locked::new());
        let pushers = [1, 2].map(|n| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                queue.push(word(n));
                assert!(!queue.is_empty(), "two were pushed at most, none taken");
            })
        });
        for pusher in pushers {
            pusher.join().unwrap();
        }
        assert_eq!(queue.len(), 2);
    });
}

#[test]
fn two_pops_share_one_element() {
    model(3, || {
        let queue = Arc::new(Locked::new());
        queue.push(word(1));
        let poppers = [(); 2].map(|()| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.pop())
        });
        let taken = poppers.map(|popper| popper.join().unwrap());
        assert_eq!(taken.iter().flatten().count(), 1, "{taken:?}");
        assert_eq!((queue.pop(), queue.len()), (None, 0));
    });
}

#[test]
fn batches_stay_together() {
    model(3, || {
        let queue = Arc::new(Locked::new());
        let pushers = [[1, 2], [3, 4]].map(|batch| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.push_batch(batch.map(word)))
        });
        let mut taken = Vec::new();
        let first = queue.pop_batch(&mut taken, 2);
        assert!(first == 0 || first == 2);
        for pusher in pushers {
            pusher.join().unwrap();
        }
        assert_eq!(first + queue.pop_batch(&mut taken, 9), 4);
        let taken: Vec<_> = taken.into_iter().map(usize::from).collect();
        assert!(taken == [1, 2, 3, 4] || taken == [3, 4, 1, 2], "{taken:?}");
    });
}

#[test]
fn pusher_and_sleeper_do_not_miss_each_other() {
    model(3, || {
        let queue = Arc::new(Locked::new());
        let sleeping = Arc::new(AtomicBool::new(false));
        let (shared, seen) = (Arc::clone(&queue), Arc::clone(&sleeping));
        let pusher = thread::spawn(move || {
            shared.push(word(1));
            fence(Ordering::SeqCst);
            seen.load(Ordering::Relaxed)
        });
        sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let taken = queue.pop();
        let woken = pusher.join().unwrap();
        assert!(taken.is_some() || woken, "the owner sleeps, the element waits");
    });
}
