//! A queue of rings against a sequential model, and the use of its memory.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use proptest::prelude::*;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpweft_queue::{Amount, CapacityError, Chain, Full, Owner, Steal, Thief};

fn n(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("not 0")
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Push,
    Pop,
    StealOne,
    Steal(Amount),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Push),
        4 => Just(Op::Pop),
        2 => Just(Op::StealOne),
        1 => Just(Op::Steal(Amount::Half)),
        1 => (1..6usize).prop_map(|least| Op::Steal(Amount::AtLeast(n(least)))),
    ]
}

proptest! {
    /// Everything comes out once, in order. A thief gets at least one element and at most what the oldest
    /// ring holds.
    #[test]
    fn it_is_a_queue(
        capacity in 1..6usize,
        start in prop_oneof![Just(0), Just(u64::MAX - 2), Just(u64::from(u32::MAX) - 1)],
        ops in proptest::collection::vec(op(), 0..400),
    ) {
        let mut queue = Chain::with_start(capacity, start).expect("a small capacity");
        let (thief, mut other) = (queue.thief(), Chain::with_capacity(64).expect("a small capacity"));
        let (mut model, mut next) = (VecDeque::new(), 0);
        for op in ops {
            match op {
                Op::Push => {
                    next += 1;
                    if let Err(Full(element)) = queue.push(n(next)) {
                        queue.grow().expect("there is memory");
                        prop_assert_eq!(queue.push(element), Ok(()));
                    }
                    model.push_back(n(next));
                }
                Op::Pop => prop_assert_eq!(queue.pop(), model.pop_front()),
                Op::StealOne => prop_assert_eq!(thief.steal_one().taken(), model.pop_front()),
                Op::Steal(amount) => match thief.steal_into(&mut other, amount) {
                    Steal::Taken { first, moved } => {
                        prop_assert!(moved < model.len().div_ceil(2).max(6));
                        prop_assert_eq!(Some(first), model.pop_front());
                        for _ in 0..moved {
                            prop_assert_eq!(other.pop(), model.pop_front());
                        }
                    }
                    Steal::Few(number) => {
                        let Amount::AtLeast(least) = amount else { panic!("half of few is one") };
                        prop_assert!(number > 0 && number < least.get() && number <= model.len());
                    }
                    Steal::Empty => prop_assert!(model.is_empty()),
                    Steal::Lost => prop_assert!(false, "nobody else is there"),
                },
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(thief.glance().len, model.len());
            prop_assert_eq!(queue.is_empty(), model.is_empty());
        }
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        prop_assert_eq!(left, Vec::from(model));
    }
}

#[test]
fn a_burst_takes_rings_and_gives_them_back() {
    let mut queue = Chain::with_capacity(256).expect("a small capacity");
    let mut rings = 1;
    for round in 0..3 {
        for number in 1..=1_000_000 {
            if let Err(Full(element)) = queue.push(n(number)) {
                queue.grow().expect("there is memory");
                rings += 1;
                queue.push(element).expect("a new ring has room");
            }
        }
        assert!(queue.capacity() < 1_200_000, "{} slots", queue.capacity());
        for number in 1..=1_000_000 {
            // Owner and thief by turns: both leave rings behind.
            let next = if number % 3 == 0 {
                queue.thief().steal_one().taken()
            } else {
                queue.pop()
            };
            assert_eq!(next, Some(n(number)), "round {round}");
        }
        assert_eq!((queue.pop(), queue.capacity()), (None, 256));
    }
    assert!(
        rings < 3 * 25,
        "{rings} rings: each is twice as large as the one before"
    );
}

#[test]
fn what_thieves_have_emptied_is_dropped_without_the_owner() {
    let mut queue = Chain::with_capacity(1).expect("a small capacity");
    for number in 1..=100 {
        if queue.push(n(number)).is_err() {
            queue.grow().expect("there is memory");
            queue.push(n(number)).expect("a new ring has room");
        }
    }
    let thief = queue.thief();
    for number in 1..=100 {
        assert_eq!(thief.steal_one().taken(), Some(n(number)));
    }
    assert_eq!(
        (thief.steal_one(), thief.glance().len, queue.len()),
        (Steal::Empty, 0, 0)
    );
    // It cannot steal from its own queue.
    queue.push(n(7)).expect("the last ring is empty");
    queue.push(n(8)).expect("and has room for more");
    let itself = thief.steal_into(&mut queue, Amount::Half);
    assert_eq!(
        itself,
        Steal::Taken {
            first: n(7),
            moved: 0
        }
    );
}

#[test]
fn impossible_capacities_are_errors() {
    assert_eq!(
        Chain::<NonZeroUsize>::with_capacity(0).unwrap_err(),
        CapacityError::Zero
    );
    assert!(Chain::<NonZeroUsize>::with_capacity(usize::MAX).is_err());
}

/// What is left is dropped with the last handle, in whichever ring it is.
#[test]
fn each_is_dropped_once() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut queue = Chain::with_capacity(2).expect("a small capacity");
    for _ in 0..50 {
        if let Err(Full(element)) = queue.push(Box::new(Counted(Arc::clone(&dropped)))) {
            queue.grow().expect("there is memory");
            assert!(queue.push(element).is_ok());
        }
    }
    drop((queue.pop(), queue.pop(), queue.pop()));
    let thief = queue.thief();
    drop(queue);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
    drop(thief.steal_one());
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
    drop(thief);
    assert_eq!(dropped.load(Ordering::Relaxed), 50);
}
