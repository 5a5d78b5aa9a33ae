//! Every interleaving of few threads that pass an owner's end to each other.
#![cfg(warpweft_loom)]

mod support;

use loom::thread;
use std::num::NonZeroUsize;
use support::loom::model;
use warpweft_queue::{Fifo, Lifo, Owner, Thief, Transfer};

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn drained<O: Owner<NonZeroUsize>>(deque: &Transfer<NonZeroUsize, O>) -> Vec<usize> {
    let mut claim = deque.try_claim().expect("all others are done");
    std::iter::from_fn(|| claim.pop()).map(usize::from).collect()
}

fn two_pushers<O: Owner<NonZeroUsize> + 'static>() {
    let deque = Transfer::new(O::with_capacity(2).unwrap());
    let pushers = [1, 2].map(|n| {
        let deque = deque.clone();
        thread::spawn(move || deque.claim().push(word(n)).unwrap())
    });
    for pusher in pushers {
        pusher.join().unwrap();
    }
    let mut all = drained(&deque);
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
}

#[test]
fn two_pushers_take_turns_at_a_fifo() {
    model(3, two_pushers::<Fifo<_>>);
}

#[test]
fn two_pushers_take_turns_at_a_lifo() {
    model(3, two_pushers::<Lifo<_>>);
}

#[test]
fn one_of_two_gets_the_claim() {
    model(3, || {
        let deque = Transfer::new(Fifo::with_capacity(1).unwrap());
        let other = deque.clone();
        let other = thread::spawn(move || other.try_claim().map(|mut claim| claim.push(word(1)).is_ok()));
        let mine = deque.try_claim().map(|mut claim| claim.push(word(2)).is_ok());
        let other = other.join().unwrap();
        // Both may have had it, one after the other; the second one found the queue full.
        let pushed = [mine, other]
            .into_iter()
            .filter(|&pushed| pushed == Some(true))
            .count();
        assert_eq!(pushed, 1);
        assert_eq!(drained(&deque).len(), 1);
    });
}

/// A waker pushes onto a suspended deque while one thief takes it over and another steals from it.
fn waker_mugger_and_thief<O: Owner<NonZeroUsize> + 'static>() {
    let deque = Transfer::new(O::with_capacity(2).unwrap());
    deque.claim().push(word(1)).unwrap();
    let woken = deque.clone();
    let waker = thread::spawn(move || woken.claim().push(word(2)).unwrap());
    let taken_over = deque.clone();
    let mugger = thread::spawn(move || taken_over.try_claim_owned().ok().and_then(|mut mine| mine.pop()));
    let stolen = deque.thief().steal_one().taken();
    waker.join().unwrap();
    let mut all: Vec<_> = stolen
        .into_iter()
        .chain(mugger.join().unwrap())
        .map(usize::from)
        .collect();
    all.extend(drained(&deque));
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
}

#[test]
fn waker_mugger_and_thief_of_a_fifo() {
    model(2, waker_mugger_and_thief::<Fifo<_>>);
}

#[test]
fn waker_mugger_and_thief_of_a_lifo() {
    model(2, waker_mugger_and_thief::<Lifo<_>>);
}
