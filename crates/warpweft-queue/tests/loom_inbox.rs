//! Every interleaving of few pushers and the owner of an inbox, with blocks of two slots.
#![cfg(warpweft_loom)]

mod support;

use loom::sync::Arc;
use loom::thread;
use std::num::NonZeroUsize;
use support::drops::Drops;
use support::loom::model;
use warpweft_platform::atomic::{AtomicBool, Ordering, fence};
use warpweft_queue::InboxOwner;

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// An inbox whose owner is at slot `at`, counted from the first one ever.
fn inbox_at(at: usize) -> InboxOwner<NonZeroUsize> {
    let mut owner = InboxOwner::new();
    let sender = owner.sender();
    for n in 1..=at {
        sender.push(word(n));
        assert_eq!(owner.pop(), Some(word(n)));
    }
    owner
}

/// Two pushers and the owner at once; every element comes once, those of a pusher in their order.
fn pushers_against_owner(at: usize, pushes: [&'static [usize]; 2], pops: usize) {
    let mut owner = inbox_at(at);
    let pushers = pushes.map(|elements| {
        let sender = owner.sender();
        thread::spawn(move || elements.iter().for_each(|&n| sender.push(word(n))))
    });
    let mut taken: Vec<_> = (0..pops).filter_map(|_| owner.pop()).map(usize::from).collect();
    for pusher in pushers {
        pusher.join().unwrap();
    }
    taken.extend(std::iter::from_fn(|| owner.pop()).map(usize::from));
    assert!(owner.is_empty());
    for elements in pushes {
        let of_this: Vec<_> = taken.iter().copied().filter(|n| elements.contains(n)).collect();
        assert_eq!(of_this, elements);
    }
    assert_eq!(taken.len(), pushes.map(<[usize]>::len).iter().sum());
}

#[test]
fn two_pushers_in_one_block() {
    model(3, || pushers_against_owner(0, [&[11], &[21]], 2));
}

#[test]
fn two_pushers_race_for_a_new_block() {
    model(3, || pushers_against_owner(2, [&[11], &[21]], 2));
}

#[test]
fn a_block_is_used_again_under_a_skipped_pusher() {
    model(2, || pushers_against_owner(3, [&[11, 12, 13], &[21]], 3));
}

#[test]
fn a_completed_push_is_not_overlooked_behind_a_slow_one() {
    model(3, || {
        let mut owner = inbox_at(1);
        let (quick, slow) = (owner.sender(), owner.sender());
        let quick = thread::spawn(move || quick.push(word(11)));
        let slow = thread::spawn(move || slow.push(word(21)));
        quick.join().unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| owner.pop()).collect();
        assert!(taken.contains(&word(11)), "only {taken:?} was there");
        slow.join().unwrap();
    });
}

#[test]
fn pusher_and_sleeper_do_not_miss_each_other() {
    for at in [0, 2] {
        model(3, move || {
            let mut owner = inbox_at(at);
            let sender = owner.sender();
            let sleeping = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&sleeping);
            let pusher = thread::spawn(move || {
                sender.push(word(11));
                fence(Ordering::SeqCst);
                seen.load(Ordering::Relaxed)
            });
            sleeping.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let taken = owner.pop();
            let woken = pusher.join().unwrap();
            assert!(taken.is_some() || woken, "the owner sleeps, the element waits");
        });
    }
}

#[test]
fn what_is_left_is_dropped_once() {
    model(3, || {
        let drops = Drops::new(4);
        let mut owner = InboxOwner::new();
        let (sender, left) = (owner.sender(), owner.sender());
        let of_pusher = drops.clone();
        let pusher = thread::spawn(move || (0..2).for_each(|id| sender.push(of_pusher.make(id))));
        left.push(drops.make(2));
        drop(owner.pop());
        drop(owner);
        left.push(drops.make(3));
        drop(left);
        pusher.join().unwrap();
        drops.assert_each_once();
    });
}
