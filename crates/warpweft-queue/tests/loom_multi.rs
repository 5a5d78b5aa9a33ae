//! Every interleaving of few users of a queue of two tiny shards.
#![cfg(warpweft_loom)]

mod support;

use loom::sync::Arc;
use loom::thread;
use std::num::NonZeroUsize;
use support::loom::model;
use warpweft_platform::atomic::{AtomicBool, Ordering, fence};
use warpweft_queue::{Locked, Mpmc, Multi, Shard};

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// Two shards of one slot each, their tickets about to wrap.
fn rings() -> Arc<Multi<NonZeroUsize>> {
    let ring = || Mpmc::with_start(1, u64::MAX).unwrap();
    Arc::new(Multi::from_shards([ring(), ring()]).unwrap())
}

fn locked() -> Arc<Multi<NonZeroUsize, Locked<NonZeroUsize>>> {
    Arc::new(Multi::from_shards([Locked::new(), Locked::new()]).unwrap())
}

fn one_element_is_taken_once<S: Shard<NonZeroUsize> + Send + 'static>(queue: &Arc<Multi<NonZeroUsize, S>>) {
    queue.push(word(1), 0).unwrap();
    let shared = Arc::clone(queue);
    let other = thread::spawn(move || shared.pop(0));
    let taken = [queue.pop(1), other.join().unwrap()];
    assert_eq!(taken.iter().flatten().count(), 1, "{taken:?}");
    assert!(queue.is_empty());
}

#[test]
fn one_element_is_taken_once_from_rings() {
    model(3, || one_element_is_taken_once(&rings()));
}

#[test]
fn one_element_is_taken_once_from_locked() {
    model(3, || one_element_is_taken_once(&locked()));
}

#[test]
fn what_was_there_all_the_time_is_found() {
    model(2, || {
        let queue = rings();
        queue.push(word(1), 1).unwrap();
        let shared = Arc::clone(&queue);
        let other = thread::spawn(move || {
            shared.push(word(2), 0).unwrap();
            shared.pop(0)
        });
        let mine = queue.pop(0);
        let others = other.join().unwrap();
        assert_eq!(
            [mine, others].iter().flatten().count(),
            2,
            "the bag was never empty in either call"
        );
        assert_ne!(mine, others);
    });
}

#[test]
fn two_pushers_find_two_rooms() {
    model(3, || {
        let queue = rings();
        let shared = Arc::clone(&queue);
        let other = thread::spawn(move || shared.push(word(1), 1).unwrap());
        queue.push(word(2), 1).unwrap();
        other.join().unwrap();
        assert!(queue.push(word(3), 1).is_err());
        let mut taken = [queue.pop(1), queue.pop(1)].map(Option::unwrap);
        taken.sort_unstable();
        assert_eq!(taken, [word(1), word(2)]);
    });
}

#[test]
fn pusher_and_sleeper_do_not_miss_each_other() {
    model(3, || {
        let queue = rings();
        let sleeping = Arc::new(AtomicBool::new(false));
        let (shared, seen) = (Arc::clone(&queue), Arc::clone(&sleeping));
        let pusher = thread::spawn(move || {
            shared.push(word(1), 0).unwrap();
            fence(Ordering::SeqCst);
            seen.load(Ordering::Relaxed)
        });
        sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let found = !queue.is_empty();
        let woken = pusher.join().unwrap();
        assert!(found || woken, "the sleeper sleeps, the element waits");
    });
}
