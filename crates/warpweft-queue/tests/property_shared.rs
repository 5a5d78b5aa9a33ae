//! The shared queues, used by one thread, behave like a `VecDeque`; and every element is dropped once.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::drops::{Counted, Drops};
use warpweft_queue::{
    CapacityError, Carried, Claim, Fifo, Full, InboxOwner, Lifo, Linked, Locked, MAX_CAPACITY, Mpmc, Multi,
    Nodes, Owner, Slot, Thief, Transfer,
};

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn words(elements: std::ops::Range<usize>) -> impl Iterator<Item = NonZeroUsize> {
    elements.map(word)
}

#[derive(Clone, Debug)]
enum Op {
    Push,
    PushMany(usize),
    Pop,
    PopMany(usize),
}

impl Op {
    /// How many pushes and how many pops it is.
    fn counts(&self) -> (usize, usize) {
        match *self {
            Op::Push => (1, 0),
            Op::PushMany(count) => (count, 0),
            Op::Pop => (0, 1),
            Op::PopMany(count) => (0, count),
        }
    }
}

/// Long runs in both directions, so that blocks fill up, empty and return.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => Just(Op::Push),
        1 => (0..150usize).prop_map(Op::PushMany),
        3 => Just(Op::Pop),
        1 => (0..150usize).prop_map(Op::PopMany),
    ];
    vec(op, 0..60)
}

proptest! {
    #[test]
    fn locked_is_a_fifo(ops in ops()) {
        let (queue, mut model, mut next) = (Locked::new(), VecDeque::new(), 1);
        for op in ops {
            match op {
                Op::Push => {
                    queue.push(word(next));
                    model.push_back(word(next));
                    next += 1;
                }
                Op::PushMany(count) => {
                    queue.push_batch(words(next..next + count));
                    model.extend(words(next..next + count));
                    next += count;
                }
                Op::Pop => prop_assert_eq!(queue.pop(), model.pop_front()),
                Op::PopMany(max) => {
                    let mut taken = Vec::new();
                    let count = queue.pop_batch(&mut taken, max);
                    prop_assert_eq!(count, taken.len());
                    prop_assert_eq!(taken, model.drain(..max.min(model.len())).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.is_empty(), model.is_empty());
        }
    }

    #[test]
    fn linked_is_a_fifo(ops in ops()) {
        let (nodes, processors) = Nodes::new(1, 1);
        let worker = &processors[0];
        let (queue, other) = (Linked::new(&nodes), Linked::new(&nodes));
        let (mut model, mut moved, mut next, mut most) = (VecDeque::new(), VecDeque::new(), 1, 0);
        for op in ops {
            let (pushes, pops) = op.counts();
            for element in words(next..next + pushes) {
                if element.get() % 3 == 0 {
                    queue.push_from_outside(element, Carried::NONE);
                } else {
                    queue.push(worker, element, Carried::NONE);
                }
                model.push_back(element);
            }
            next += pushes;
            most = most.max(model.len() + moved.len());
            for turn in 0..pops {
                let popped = queue.pop(worker);
                prop_assert_eq!(popped.map(|(element, _)| element), model.pop_front());
                // Half of them end, the others are pushed elsewhere with their nodes.
                match popped {
                    Some((element, carried)) if turn % 2 == 0 => {
                        other.push(worker, element, carried);
                        moved.push_back(element);
                    }
                    Some((_, carried)) => nodes.release(carried),
                    None => {}
                }
            }
            prop_assert_eq!(queue.is_empty(worker), model.is_empty());
            prop_assert_eq!(queue.seems_empty(), model.is_empty());
        }
        // No thread read anything meanwhile: no node was left in a pool.
        prop_assert_eq!(nodes.made(), most + 2);
        while let Some((element, _)) = other.pop(worker) {
            prop_assert_eq!(Some(element), moved.pop_front());
        }
        prop_assert!(moved.is_empty());
    }

    #[test]
    fn inbox_is_a_fifo(ops in ops()) {
        let (mut owner, mut model, mut next) = (InboxOwner::new(), VecDeque::new(), 1);
        let senders = [owner.sender(), owner.sender()];
        for op in ops {
            let (pushes, pops) = op.counts();
            for element in words(next..next + pushes) {
                senders[element.get() % 2].push(element);
                model.push_back(element);
            }
            next += pushes;
            for _ in 0..pops {
                prop_assert_eq!(owner.pop(), model.pop_front());
            }
            prop_assert_eq!(owner.is_empty(), model.is_empty());
        }
    }

    #[test]
    fn mpmc_is_a_bounded_fifo(ops in ops(), asked in 1..100usize, before_wrap in 0..200u64) {
        let queue = Mpmc::with_start(asked, u64::MAX - before_wrap).unwrap();
        let (mut model, mut next) = (VecDeque::new(), 1);
        prop_assert_eq!(queue.capacity(), asked.next_power_of_two());
        for op in ops {
            let (pushes, pops) = op.counts();
            for element in words(next..next + pushes) {
                if model.len() < queue.capacity() {
                    prop_assert_eq!(queue.try_push(element), Ok(()));
                    model.push_back(element);
                } else {
                    prop_assert_eq!(queue.try_push(element), Err(Full(element)));
                }
            }
            next += pushes;
            for _ in 0..pops {
                prop_assert_eq!(queue.try_pop(), model.pop_front());
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.is_empty(), model.is_empty());
        }
    }

    #[test]
    fn multi_is_shards_of_fifos(
        ops in ops(),
        shards in 1..6usize,
        capacity in 1..40usize,
        picks in vec(any::<usize>(), 1..50),
    ) {
        let queue = Multi::with_capacity(shards, capacity).unwrap();
        let capacity = capacity.next_power_of_two();
        let mut model = vec![VecDeque::new(); shards];
        let mut picks = picks.into_iter().cycle();
        let mut next = 1;
        // The shards in the order in which a call looks at them.
        let from = |pick: usize| (0..shards).map(move |i| (pick % shards + i) % shards);
        for op in ops {
            let (pushes, pops) = op.counts();
            for element in words(next..next + pushes) {
                let pick = picks.next().unwrap();
                match from(pick).find(|&shard| model[shard].len() < capacity) {
                    Some(shard) => {
                        prop_assert_eq!(queue.push(element, pick), Ok(()));
                        model[shard].push_back(element);
                    }
                    None => prop_assert_eq!(queue.push(element, pick), Err(Full(element))),
                }
            }
            next += pushes;
            for _ in 0..pops {
                let pick = picks.next().unwrap();
                prop_assert_eq!(queue.pop(pick), from(pick).find_map(|shard| model[shard].pop_front()));
            }
            prop_assert_eq!(queue.len(), model.iter().map(VecDeque::len).sum::<usize>());
            prop_assert_eq!(queue.is_empty(), model.iter().all(VecDeque::is_empty));
        }
    }

    #[test]
    fn transfer_is_the_deque_it_wraps(ops in ops()) {
        let (fifo, lifo) = (Transfer::new(Fifo::with_capacity(8).unwrap()), Transfer::new(Lifo::with_capacity(8).unwrap()));
        transfer_is_what_it_wraps(&fifo, &ops, VecDeque::pop_front)?;
        transfer_is_what_it_wraps(&lifo, &ops, VecDeque::pop_back)?;
    }
}

/// Each operation under its own claim, borrowed or owned in turn; a thief takes one now and then.
fn transfer_is_what_it_wraps<O: Owner<NonZeroUsize>>(
    deque: &Transfer<NonZeroUsize, O>,
    ops: &[Op],
    pop: fn(&mut VecDeque<NonZeroUsize>) -> Option<NonZeroUsize>,
) -> Result<(), TestCaseError> {
    let (mut model, mut next) = (VecDeque::new(), 1);
    for op in ops {
        let (pushes, pops) = op.counts();
        let mut claim = deque.claim();
        prop_assert!(deque.try_claim().is_none());
        prop_assert!(deque.clone().try_claim_owned().is_err());
        for element in words(next..next + pushes) {
            while claim.push(element).is_err() {
                claim.grow().unwrap();
            }
            model.push_back(element);
        }
        next += pushes;
        drop(claim);
        let mut claim = deque.clone().try_claim_owned().unwrap();
        for _ in 0..pops {
            prop_assert_eq!(claim.pop(), pop(&mut model));
        }
        prop_assert_eq!(claim.len(), model.len());
        let handle = claim.release();
        prop_assert_eq!(handle.thief().steal_one().taken(), model.pop_front());
    }
    Ok(())
}

/// How many elements the drop tests push.
const COUNT: usize = 1000;

/// Four threads push `COUNT` elements while this one tries to pop as many; some are left.
fn push_and_pop(
    drops: &Drops,
    push: impl Fn(Box<Counted>) + Sync,
    mut pop: impl FnMut() -> Option<Box<Counted>>,
) {
    std::thread::scope(|scope| {
        for first in 0..4 {
            let push = &push;
            scope.spawn(move || (first..COUNT).step_by(4).for_each(|id| push(drops.make(id))));
        }
        for _ in 0..COUNT / 2 {
            drop(pop());
        }
    });
}

proptest! {
    #[test]
    fn slot_is_an_option(ops in vec(any::<bool>(), 0..60)) {
        let (slot, mut model) = (Slot::new(), None);
        for (n, put) in ops.into_iter().enumerate() {
            let element = word(n + 1);
            if put {
                prop_assert_eq!(slot.swap(element), model.replace(element));
            } else {
                prop_assert_eq!(slot.take(), model.take());
            }
            prop_assert_eq!(slot.is_empty(), model.is_none());
            let mark = model.map_or(0, |element: NonZeroUsize| element.get() as u64);
            prop_assert_eq!((slot.glance().len, slot.glance().mark), (usize::from(mark != 0), mark));
        }
    }
}

#[test]
fn locked_extracts_and_keeps_the_order_of_the_others() {
    let queue = Locked::new();
    let mut taken = Vec::new();
    queue.extract(&mut taken, |_: &NonZeroUsize| true);
    assert!(taken.is_empty());
    queue.push_batch(words(1..10));
    queue.extract(&mut taken, |n| n.get() % 3 == 0);
    assert_eq!(taken, [3, 6, 9].map(word));
    assert_eq!(queue.len(), 6);
    let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
    assert_eq!(rest, [1, 2, 4, 5, 7, 8].map(word));
}

#[test]
fn slot_drops_each_once() {
    let drops = Drops::new(4);
    let slot = Slot::new();
    (0..3).for_each(|id| drop(slot.swap(drops.make(id))));
    assert_eq!(slot.take().map(|element| element.id), Some(2));
    slot.swap(drops.make(3));
    drop(slot);
    drops.assert_each_once();
}

#[test]
fn locked_drops_each_once() {
    let (drops, queue) = (Drops::new(COUNT), Locked::new());
    push_and_pop(&drops, |element| queue.push(element), || queue.pop());
    drop(queue);
    drops.assert_each_once();
}

#[test]
fn inbox_drops_each_once() {
    for sender_goes_last in [false, true] {
        let (drops, mut owner) = (Drops::new(COUNT), InboxOwner::new());
        let sender = owner.sender();
        push_and_pop(&drops, |element| sender.push(element), || owner.pop());
        if sender_goes_last {
            drop(owner);
            drop(sender);
        } else {
            drop(sender);
            drop(owner);
        }
        drops.assert_each_once();
    }
}

#[test]
fn locked_survives_a_panicking_batch() {
    let queue = Locked::new();
    let batch = words(1..10).inspect(|n| assert!(n.get() < 4, "planned"));
    let pushed = catch_unwind(AssertUnwindSafe(|| queue.push_batch(batch)));
    assert!(pushed.is_err());
    // Everything that was pushed before the panic is there, and the length shows it.
    assert_eq!(queue.len(), std::iter::from_fn(|| queue.pop()).count());
    queue.push(word(5));
    assert_eq!(queue.pop(), Some(word(5)));
}

#[test]
fn mpmc_drops_each_once() {
    let (drops, queue) = (Drops::new(COUNT), Mpmc::with_capacity(COUNT).unwrap());
    push_and_pop(&drops, |element| queue.push_blocking(element), || queue.try_pop());
    drop(queue);
    drops.assert_each_once();
}

#[test]
fn multi_drops_each_once() {
    let (drops, queue) = (Drops::new(COUNT), Multi::with_capacity(4, 16).unwrap());
    let push = |element: Box<Counted>| {
        let pick = element.id;
        // What finds no room is dropped here.
        drop(queue.push(element, pick));
    };
    push_and_pop(&drops, push, || queue.pop(0));
    drop(queue);
    drops.assert_each_once();
}

#[test]
fn transfer_drops_each_once() {
    let (drops, deque) = (
        Drops::new(COUNT),
        Transfer::new(Lifo::with_capacity(COUNT).unwrap()),
    );
    let push = |element| assert!(deque.claim().push(element).is_ok());
    push_and_pop(&drops, push, || deque.thief().steal_one().taken());
    drop(deque);
    drops.assert_each_once();
}

#[test]
fn a_panic_gives_the_claim_back() {
    let deque = Transfer::new(Fifo::<NonZeroUsize>::with_capacity(1).unwrap());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _claim = deque.claim();
        panic!("planned");
    }));
    assert!(panicked.is_err());
    assert!(deque.try_claim().is_some());
}

#[test]
fn a_claim_goes_to_another_thread() {
    fn sent<C: Send>(claim: C) -> C {
        claim
    }
    let deque = Transfer::new(Fifo::with_capacity(1).unwrap());
    let mut claim: Claim<NonZeroUsize, _> = sent(deque.clone().try_claim_owned().unwrap());
    std::thread::spawn(move || claim.push(word(1)).unwrap())
        .join()
        .unwrap();
    assert_eq!(deque.claim().pop(), Some(word(1)));
}

#[test]
fn capacities_that_cannot_be_had() {
    let too_many = MAX_CAPACITY + 1;
    assert_eq!(
        Mpmc::<NonZeroUsize>::with_capacity(0).unwrap_err(),
        CapacityError::Zero
    );
    let error = CapacityError::TooLarge {
        asked: too_many,
        limit: MAX_CAPACITY,
    };
    assert_eq!(Mpmc::<NonZeroUsize>::with_capacity(too_many).unwrap_err(), error);
    assert_eq!(
        Multi::<NonZeroUsize>::with_capacity(0, 1).unwrap_err(),
        CapacityError::Zero
    );
    assert_eq!(
        Multi::<NonZeroUsize>::with_capacity(1, 0).unwrap_err(),
        CapacityError::Zero
    );
}
