//! The stealable queues under real threads: many of them on few cores, and short recorded histories.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod support;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use support::drops::{Counted, Drops};
use support::kinds::{Kind, OldestFirst, YoungestFirst};
use support::linear::{Log, Part, Spec, linearize, record};
use warpweft_queue::{Amount, Full, Owner, Steal, Thief};

/// The first index: both counters of a LIFO wrap soon, so does the index of a FIFO.
fn start<K: Kind>() -> u64 {
    if K::YOUNGEST_FIRST {
        0xFFFF_FF00_FFFF_FF00
    } else {
        u64::MAX - 255
    }
}

/// Eight thieves steal in every way while the owner pushes, pops and grows. Every element is dropped once,
/// and each thief sees ascending numbers: it takes the oldest.
fn oversubscribed<K: Kind>() {
    const ELEMENTS: usize = 200_000;
    const MAX_CAPACITY: usize = 1024;
    let drops = Drops::new(ELEMENTS);
    let done = AtomicBool::new(false);
    let mut queue: K::Queue<Box<Counted>> = K::make(2, start::<K>());
    thread::scope(|scope| {
        for number in 0..8 {
            let (victim, done) = (queue.thief(), &done);
            scope.spawn(move || {
                let mut own = K::make(1 << (number % 4), 0);
                let mut last = 0;
                // Once more when the owner is done: thieves see all that it has left.
                let mut more = true;
                while more {
                    more = !done.load(Ordering::Acquire);
                    loop {
                        let amount = match number % 3 {
                            0 => Amount::Half,
                            1 => Amount::One,
                            _ => Amount::AtLeast(NonZeroUsize::MIN.saturating_add(number / 3)),
                        };
                        let stolen = if number == 7 {
                            victim.steal_one()
                        } else {
                            victim.steal_into(&mut own, amount)
                        };
                        let Steal::Taken { first, moved } = stolen else {
                            break;
                        };
                        let mut ids: Vec<_> = std::iter::from_fn(|| own.pop())
                            .map(|element| element.id)
                            .collect();
                        assert_eq!(ids.len(), moved);
                        if K::YOUNGEST_FIRST {
                            ids.reverse();
                        }
                        for id in std::iter::once(first.id).chain(ids) {
                            assert!(last <= id, "{id} came after {last}");
                            last = id;
                        }
                    }
                    thread::yield_now();
                }
            });
        }
        for id in 0..ELEMENTS {
            let mut element = drops.make(id);
            while let Err(Full(back)) = queue.push(element) {
                element = back;
                if queue.capacity() < MAX_CAPACITY {
                    queue.grow().expect("there is memory");
                } else if queue.pop().is_none() {
                    thread::yield_now();
                }
            }
            // Now and then the queue becomes empty, so that owner and thieves contend for the last element.
            match id % 1000 {
                500 => while queue.pop().is_some() {},
                0..250 => drop(queue.pop()),
                _ => {}
            }
        }
        done.store(true, Ordering::Release);
    });
    drop(queue);
    drops.assert_each_once();
}

#[test]
fn fifo_oversubscribed() {
    oversubscribed::<OldestFirst>();
}

#[test]
fn lifo_oversubscribed() {
    oversubscribed::<YoungestFirst>();
}

/// A ring of workers, each of which steals from its neighbour until all elements are gone.
fn neighbours_steal_from_each_other<K: Kind>() {
    const ELEMENTS: usize = 100_000;
    const WORKERS: usize = 4;
    let drops = Drops::new(ELEMENTS);
    let mut queues: Vec<K::Queue<Box<Counted>>> = (0..WORKERS).map(|_| K::make(64, start::<K>())).collect();
    let thieves: Vec<_> = (0..WORKERS).map(|i| queues[(i + 1) % WORKERS].thief()).collect();
    for id in 0..ELEMENTS {
        // All elements begin with one worker: the others only steal.
        if let Err(Full(back)) = queues[0].push(drops.make(id)) {
            queues[0].grow().expect("there is memory");
            assert!(queues[0].push(back).is_ok(), "a larger ring has room");
        }
    }
    let left = std::sync::atomic::AtomicUsize::new(ELEMENTS);
    thread::scope(|scope| {
        for (mut own, victim) in queues.into_iter().zip(thieves) {
            let left = &left;
            scope.spawn(move || {
                while left.load(Ordering::Relaxed) > 0 {
                    let Some(element) = own
                        .pop()
                        .or_else(|| victim.steal_into(&mut own, Amount::Half).taken())
                    else {
                        thread::yield_now();
                        continue;
                    };
                    drop(element);
                    left.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    });
    drops.assert_each_once();
}

#[test]
fn fifo_neighbours_steal_from_each_other() {
    neighbours_steal_from_each_other::<OldestFirst>();
}

#[test]
fn lifo_neighbours_steal_from_each_other() {
    neighbours_steal_from_each_other::<YoungestFirst>();
}

/// The operations of owner and thieves on one queue.
#[derive(Clone, Copy, Debug)]
enum Op {
    Push(usize),
    Pop,
    Steal(Amount),
    Grow,
}

#[derive(Debug, PartialEq, Eq)]
enum Ret {
    /// `Lost` is among these: it says nothing about the queue.
    Done,
    Full,
    Empty,
    Few,
    Took(Vec<usize>),
}

/// The sequential queue: oldest first.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Model {
    youngest_first: bool,
    elements: VecDeque<usize>,
}

impl Spec for Model {
    type Op = Op;
    type Ret = Ret;

    fn step(&mut self, op: &Op, ret: &Ret) -> bool {
        let len = self.elements.len();
        match (op, ret) {
            (Op::Push(id), Ret::Done) => self.elements.push_back(*id),
            // A slow thief may keep a slot of any number of elements.
            (Op::Push(_), Ret::Full) | (Op::Grow | Op::Steal(_), Ret::Done) => {}
            (Op::Pop | Op::Steal(_), Ret::Empty) => return len == 0,
            (Op::Steal(amount), Ret::Few) => return amount.of(len) == 0,
            (Op::Pop, Ret::Took(ids)) => {
                let turn = if self.youngest_first {
                    self.elements.pop_back()
                } else {
                    self.elements.pop_front()
                };
                return ids.len() == 1 && turn == Some(ids[0]);
            }
            // All at one moment, and the oldest. A thief may have counted before the last pushes.
            (Op::Steal(amount), Ret::Took(ids)) => {
                return ids.len() <= amount.of(len)
                    && self.elements.drain(..ids.len()).eq(ids.iter().copied());
            }
            _ => return false,
        }
        true
    }
}

/// Steals once and says what was taken, oldest first; `own` is empty before and after.
fn steal<K: Kind>(
    victim: &<K::Queue<NonZeroUsize> as Owner<NonZeroUsize>>::Thief,
    own: &mut K::Queue<NonZeroUsize>,
    amount: Amount,
) -> Ret {
    let first = match victim.steal_into(own, amount) {
        Steal::Empty => return Ret::Empty,
        Steal::Lost => return Ret::Done,
        Steal::Few(_) => return Ret::Few,
        Steal::Taken { first, .. } => first,
    };
    let mut rest: Vec<_> = std::iter::from_fn(|| own.pop()).collect();
    if K::YOUNGEST_FIRST {
        rest.reverse();
    }
    Ret::Took(
        std::iter::once(first)
            .chain(rest)
            .map(NonZeroUsize::get)
            .collect(),
    )
}

/// Many short histories of an owner and two thieves: each is linearizable, a batch being taken at one moment.
fn histories_are_linearizable<K: Kind>() {
    for round in 0..500 {
        let mut queue = K::make(2, start::<K>() + 200);
        let mut parts: Vec<Part<'_, Op, Ret>> = Vec::new();
        for amounts in [
            [Amount::Half, Amount::One, Amount::Half, Amount::Half, Amount::One],
            [Amount::AtLeast(NonZeroUsize::MIN.saturating_add(1)); 5],
        ] {
            let victim = queue.thief();
            parts.push(Box::new(move |log: &mut Log<'_, Op, Ret>| {
                let mut own = K::make(8, 0);
                for amount in amounts {
                    log.call(Op::Steal(amount), || steal::<K>(&victim, &mut own, amount));
                }
            }));
        }
        parts.push(Box::new(move |log: &mut Log<'_, Op, Ret>| {
            for id in 1..=14 {
                let element = NonZeroUsize::new(id).expect("not 0");
                log.call(Op::Push(id), || {
                    queue.push(element).map_or(Ret::Full, |()| Ret::Done)
                });
                if id % 3 == round % 3 {
                    log.call(Op::Pop, || {
                        queue.pop().map_or(Ret::Empty, |id| Ret::Took(vec![id.get()]))
                    });
                }
                if id == 4 + round % 8 {
                    log.call(Op::Grow, || {
                        queue.grow().expect("there is memory");
                        Ret::Done
                    });
                }
            }
            for _ in 0..3 {
                log.call(Op::Pop, || {
                    queue.pop().map_or(Ret::Empty, |id| Ret::Took(vec![id.get()]))
                });
            }
        }));
        let calls = record(round as u64, parts);
        let model = Model {
            youngest_first: K::YOUNGEST_FIRST,
            elements: VecDeque::new(),
        };
        linearize(model, &calls).unwrap_or_else(|history| panic!("round {round}: {history:?}"));
    }
}

#[test]
fn fifo_histories_are_linearizable() {
    histories_are_linearizable::<OldestFirst>();
}

#[test]
fn lifo_histories_are_linearizable() {
    histories_are_linearizable::<YoungestFirst>();
}
