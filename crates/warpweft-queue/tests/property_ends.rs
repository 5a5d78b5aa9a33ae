//! The stealable queues against a sequential model; every element is dropped exactly once.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod support;

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use proptest::prelude::*;
use support::drops::Drops;
use support::kinds::{Kind, OldestFirst, YoungestFirst};
use warpweft_queue::{Amount, CapacityError, Fifo, Full, Lifo, MAX_CAPACITY, Owner, Steal, Thief};

#[derive(Clone, Copy, Debug)]
enum Op {
    Push,
    Pop,
    /// From the queue with the given number, into the other one or into itself.
    Steal(Amount, bool),
    StealOne,
    Grow,
}

fn amount() -> impl Strategy<Value = Amount> {
    let at_least = (1_usize..6).prop_map(|k| Amount::AtLeast(NonZeroUsize::new(k).unwrap()));
    prop_oneof![Just(Amount::One), Just(Amount::Half), at_least]
}

/// An operation and the queue, 0 or 1, that it is for.
fn op() -> impl Strategy<Value = (usize, Op)> {
    let op = prop_oneof![
        8 => Just(Op::Push),
        4 => Just(Op::Pop),
        3 => (amount(), prop::bool::weighted(0.1)).prop_map(|(amount, itself)| Op::Steal(amount, itself)),
        1 => Just(Op::StealOne),
        1 => Just(Op::Grow),
    ];
    (0_usize..2, op)
}

/// First indices: at the beginning, and shortly before every wrap that there is.
fn start() -> impl Strategy<Value = u64> {
    let wraps = prop::sample::select(vec![0_u64, 1 << 31, 1 << 32, 1 << 63, 0xFFFF_FFFF_0000_0000]);
    (wraps, 0_u64..8).prop_map(|(wrap, back)| wrap.wrapping_sub(back))
}

/// Two queues and their expected content.
struct Pair<K: Kind> {
    queues: [K::Queue<NonZeroUsize>; 2],
    models: [VecDeque<NonZeroUsize>; 2],
    next: NonZeroUsize,
}

impl<K: Kind> Pair<K> {
    fn apply(&mut self, at: usize, op: Op) {
        let queue = &mut self.queues[at];
        match op {
            Op::Push => {
                let element = self.next;
                self.next = element.saturating_add(1);
                let room = self.models[at].len() < queue.capacity();
                assert_eq!(
                    queue.push(element),
                    if room { Ok(()) } else { Err(Full(element)) }
                );
                if room {
                    self.models[at].push_back(element);
                }
            }
            Op::Pop => {
                let model = &mut self.models[at];
                let expected = if K::YOUNGEST_FIRST {
                    model.pop_back()
                } else {
                    model.pop_front()
                };
                assert_eq!(queue.pop(), expected);
            }
            Op::Steal(amount, itself) => self.steal(at, amount, itself),
            Op::StealOne => {
                let expected = match self.models[at].pop_front() {
                    Some(first) => Steal::Taken { first, moved: 0 },
                    None => Steal::Empty,
                };
                let thief = queue.thief();
                let before = thief.glance();
                assert_eq!(thief.steal_one(), expected);
                assert_eq!(
                    thief.glance() == before,
                    expected == Steal::Empty,
                    "a glance shows a theft"
                );
            }
            Op::Grow => {
                let capacity = queue.capacity();
                if capacity < 64 {
                    queue.grow().expect("there is memory");
                    assert_eq!(queue.capacity(), 2 * capacity);
                }
            }
        }
    }

    fn steal(&mut self, from: usize, amount: Amount, itself: bool) {
        let into = if itself { from } else { 1 - from };
        let available = self.models[from].len();
        let room = if itself {
            0
        } else {
            self.queues[into].capacity() - self.models[into].len()
        };
        let expected = match amount.of(available) {
            _ if available == 0 => Steal::Empty,
            0 => Steal::Few(available),
            wanted => {
                let moved = room.min(wanted - 1);
                let first = self.models[from].pop_front().unwrap();
                let rest: Vec<_> = self.models[from].drain(..moved).collect();
                self.models[into].extend(rest);
                Steal::Taken { first, moved }
            }
        };
        let thief = self.queues[from].thief();
        assert_eq!(thief.steal_into(&mut self.queues[into], amount), expected);
    }

    fn check(&self) {
        for (queue, model) in self.queues.iter().zip(&self.models) {
            assert_eq!(queue.len(), model.len());
            assert_eq!(queue.is_empty(), model.is_empty());
            assert_eq!(queue.thief().glance().len, model.len());
            for most in [0, 3, usize::MAX] {
                let mut seen = Vec::new();
                queue.thief().peek(most, &mut |peek| seen.push(peek.word()));
                let expected: Vec<_> = model.iter().copied().take(most).collect();
                assert_eq!(seen, expected, "a peek shows the oldest");
            }
        }
    }
}

fn follows_the_model<K: Kind>(capacities: [usize; 2], start: u64, ops: Vec<(usize, Op)>) {
    let mut pair = Pair::<K> {
        queues: capacities.map(|capacity| K::make(capacity, start)),
        models: Default::default(),
        next: NonZeroUsize::MIN,
    };
    for (at, op) in ops {
        pair.apply(at, op);
        pair.check();
    }
    for at in [0, 1] {
        while !pair.models[at].is_empty() {
            pair.apply(at, Op::Pop);
        }
        pair.apply(at, Op::Pop);
    }
}

proptest! {
    #[test]
    fn fifo_follows_the_model(
        capacities in prop::array::uniform2(1_usize..9),
        start in start(),
        ops in prop::collection::vec(op(), 0..200),
    ) {
        follows_the_model::<OldestFirst>(capacities, start, ops);
    }

    #[test]
    fn lifo_follows_the_model(
        capacities in prop::array::uniform2(1_usize..9),
        start in start(),
        ops in prop::collection::vec(op(), 0..200),
    ) {
        follows_the_model::<YoungestFirst>(capacities, start, ops);
    }

    #[test]
    fn amounts(available in 0_usize..1000, least in 1_usize..1000) {
        prop_assert_eq!(Amount::One.of(available), available.min(1));
        prop_assert_eq!(Amount::Half.of(available), available - available / 2);
        let at_least = Amount::AtLeast(NonZeroUsize::new(least).unwrap()).of(available);
        if available < least {
            prop_assert_eq!(at_least, 0);
        } else {
            prop_assert_eq!(at_least, least.max(available.div_ceil(2)));
        }
    }
}

/// Elements leave in every possible way; each is dropped once.
fn each_is_dropped_once<K: Kind>() {
    let drops = Drops::new(40);
    let mut mine = K::make(2, 0);
    let mut other = K::make(4, 0);
    for id in 0..40 {
        if let Err(Full(back)) = mine.push(drops.make(id)) {
            // Every other time the element that finds no room is dropped at once.
            if id % 2 == 0 {
                mine.grow().expect("there is memory");
                mine.push(back)
                    .unwrap_or_else(|_| panic!("a larger ring has room"));
            }
        }
        match id % 7 {
            0 => drop(mine.pop()),
            3 => drop(mine.thief().steal_one()),
            5 => drop(mine.thief().steal_into(&mut other, Amount::Half)),
            6 => drop(mine.thief().steal_into(&mut mine, Amount::Half)),
            _ => {}
        }
    }
    assert!(
        !mine.is_empty() && !other.is_empty(),
        "the test wants to drop queues that hold elements"
    );
    let thief = other.thief();
    drop(other);
    assert!(
        thief.steal_one().taken().is_some(),
        "elements outlive their owner"
    );
    drop((mine, thief));
    drops.assert_each_once();
}

#[test]
fn fifo_drops_each_once() {
    each_is_dropped_once::<OldestFirst>();
}

#[test]
fn lifo_drops_each_once() {
    each_is_dropped_once::<YoungestFirst>();
}

/// The drop of one element panics: the others are dropped nevertheless.
fn a_panicking_drop_spares_the_others<K: Kind>() {
    struct Bad<'a>(Option<Box<support::drops::Counted>>, Option<&'a str>);
    impl Drop for Bad<'_> {
        fn drop(&mut self) {
            drop(self.0.take());
            if let Some(message) = self.1 {
                panic!("{message}");
            }
        }
    }
    let drops = Drops::new(4);
    let mut queue = K::make(4, 0);
    for id in 0..4 {
        let message = (id == 1).then_some("this drop panics on purpose");
        assert!(queue.push(Box::new(Bad(Some(drops.make(id)), message))).is_ok());
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(queue)));
    assert!(result.is_err());
    drops.assert_each_once();
}

#[test]
fn fifo_a_panicking_drop_spares_the_others() {
    a_panicking_drop_spares_the_others::<OldestFirst>();
}

#[test]
fn lifo_a_panicking_drop_spares_the_others() {
    a_panicking_drop_spares_the_others::<YoungestFirst>();
}

#[test]
fn capacities_are_rounded_up_and_bounded() {
    assert_eq!(Fifo::<NonZeroUsize>::with_capacity(5).unwrap().capacity(), 8);
    assert_eq!(Lifo::<NonZeroUsize>::with_capacity(8).unwrap().capacity(), 8);
    let asked = MAX_CAPACITY + 1;
    let too_large = CapacityError::TooLarge {
        asked,
        limit: MAX_CAPACITY,
    };
    assert_eq!(Fifo::<NonZeroUsize>::with_capacity(asked).unwrap_err(), too_large);
    assert_eq!(Lifo::<NonZeroUsize>::with_capacity(asked).unwrap_err(), too_large);
    assert_eq!(
        Fifo::<NonZeroUsize>::with_capacity(0).unwrap_err(),
        CapacityError::Zero
    );
    assert_eq!(
        Lifo::<NonZeroUsize>::with_capacity(0).unwrap_err(),
        CapacityError::Zero
    );
    // The messages say the value and what would be right.
    assert!(too_large.to_string().contains(&asked.to_string()));
    assert!(too_large.to_string().contains(&MAX_CAPACITY.to_string()));
}
