//! Recorded histories of the shared queues, by real threads, are linearizable.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod support;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use support::linear::{Call, Part, Spec, linearize, record};
use warpweft_queue::{
    Carried, InboxOwner, Lifo, Linked, Locked, Mpmc, Multi, Nodes, Owner, Slot, Thief, Transfer,
};

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(usize),
    Pop,
    PopMany(usize),
}

#[derive(Debug)]
enum Ret {
    Done,
    Full,
    Taken(Vec<usize>),
}

fn taken(elements: impl IntoIterator<Item = NonZeroUsize>) -> Ret {
    Ret::Taken(elements.into_iter().map(usize::from).collect())
}

/// A FIFO with room for `room` elements more.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Fifo {
    queue: VecDeque<usize>,
    room: usize,
}

impl Fifo {
    fn new(room: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            room,
        }
    }
}

impl Spec for Fifo {
    type Op = Op;
    type Ret = Ret;

    fn step(&mut self, op: &Op, ret: &Ret) -> bool {
        match (*op, ret) {
            (Op::Push(_), Ret::Full) => self.room == 0,
            (Op::Push(_), _) if self.room == 0 => false,
            (Op::Push(element), Ret::Done) => {
                self.queue.push_back(element);
                self.room -= 1;
                true
            }
            (Op::Pop, Ret::Taken(taken)) => self.take(1, taken),
            (Op::PopMany(max), Ret::Taken(taken)) => self.take(max, taken),
            _ => false,
        }
    }
}

impl Fifo {
    fn take(&mut self, max: usize, taken: &[usize]) -> bool {
        let count = max.min(self.queue.len());
        self.room += count;
        self.queue.drain(..count).eq(taken.iter().copied())
    }
}

/// Calls `round` with changing seeds for a second.
fn rounds(mut round: impl FnMut(u64)) {
    let start = Instant::now();
    let mut seed = 0;
    while start.elapsed() < Duration::from_secs(1) {
        seed += 1;
        round(seed);
    }
    assert!(seed > 20, "only {seed} rounds in a second say little");
}

#[test]
fn locked() {
    rounds(|seed| {
        let queue = Locked::new();
        let part = |first: usize| -> Part<'_, Op, Ret> {
            let queue = &queue;
            Box::new(move |log| {
                for n in first..first + 2 {
                    log.call(Op::Push(n), || {
                        queue.push(word(n));
                        Ret::Done
                    });
                    log.call(Op::Pop, || taken(queue.pop()));
                    log.call(Op::PopMany(2), || {
                        let mut into = Vec::new();
                        queue.pop_batch(&mut into, 2);
                        taken(into)
                    });
                }
            })
        };
        let calls = record(seed, vec![part(10), part(20), part(30), part(40)]);
        linearize(Fifo::new(usize::MAX), &calls).unwrap();
    });
}

/// A slot: a push displaces its element.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SlotSpec(Option<usize>);

impl Spec for SlotSpec {
    type Op = Op;
    type Ret = Ret;

    fn step(&mut self, op: &Op, ret: &Ret) -> bool {
        let before = match *op {
            Op::Push(element) => self.0.replace(element),
            Op::Pop | Op::PopMany(_) => self.0.take(),
        };
        matches!(ret, Ret::Taken(out) if before.into_iter().eq(out.iter().copied()))
    }
}

#[test]
fn slot() {
    rounds(|seed| {
        let slot = Slot::new();
        let part = |first: usize| -> Part<'_, Op, Ret> {
            let slot = &slot;
            Box::new(move |log| {
                for n in first..first + 3 {
                    log.call(Op::Push(n), || taken(slot.swap(word(n))));
                    log.call(Op::Pop, || taken(slot.take()));
                }
            })
        };
        let calls = record(seed, vec![part(10), part(20), part(30)]);
        linearize(SlotSpec(None), &calls).unwrap();
    });
}

#[test]
fn inbox() {
    rounds(|seed| {
        let mut owner = InboxOwner::new();
        let sender = owner.sender();
        // Every other round begins shortly before the end of a block.
        for n in 0..seed as usize % 2 * 60 {
            sender.push(word(n + 1));
            owner.pop().unwrap();
        }
        let push = |first: usize| -> Part<'_, Op, Ret> {
            let sender = sender.clone();
            Box::new(move |log| {
                for n in first..first + 4 {
                    log.call(Op::Push(n), || {
                        sender.push(word(n));
                        Ret::Done
                    });
                }
            })
        };
        let pop: Part<'_, Op, Ret> =
            Box::new(move |log| (0..12).for_each(|_| log.call(Op::Pop, || taken(owner.pop()))));
        let calls = record(seed, vec![pop, push(10), push(20), push(30)]);
        linearize(Fifo::new(usize::MAX), &calls).unwrap();
    });
}

#[test]
fn linked() {
    rounds(|seed| {
        let (nodes, processors) = Nodes::new(4, 1);
        let queue = Linked::new(&nodes);
        let part = |(place, processor)| -> Part<'_, Op, Ret> {
            let queue = &queue;
            Box::new(move |log| {
                // It adds again what it takes, in the node that came with it.
                let mut carried = Carried::NONE;
                for n in 10 * place + 1..10 * place + 4 {
                    log.call(Op::Push(n), || {
                        queue.push(&processor, word(n), std::mem::take(&mut carried));
                        Ret::Done
                    });
                    log.call(Op::Pop, || {
                        let popped = queue.pop(&processor);
                        carried = popped.map_or(Carried::NONE, |(_, carried)| carried);
                        taken(popped.map(|(element, _)| element))
                    });
                }
            })
        };
        let parts = processors.into_iter().enumerate().map(part).collect();
        linearize(Fifo::new(usize::MAX), &record(seed, parts)).unwrap();
        // At most one for each part, for the element that it is about to add; one for the queue, and those in
        // the hazard slots.
        assert!(nodes.made() <= 4 + 1 + nodes.places(), "{nodes:?}");
    });
}

#[test]
fn mpmc() {
    for capacity in [1, 2, 4] {
        rounds(|seed| {
            let queue = Mpmc::with_start(capacity, u64::MAX - seed % 4).unwrap();
            let part = |first: usize| -> Part<'_, Op, Ret> {
                let queue = &queue;
                Box::new(move |log| {
                    for n in first..first + 3 {
                        log.call(Op::Push(n), || match queue.try_push(word(n)) {
                            Ok(()) => Ret::Done,
                            Err(_) => Ret::Full,
                        });
                        log.call(Op::Pop, || taken(queue.try_pop()));
                    }
                })
            };
            let calls = record(seed, vec![part(10), part(20), part(30), part(40)]);
            linearize(Fifo::new(capacity), &calls).unwrap();
        });
    }
}

const SHARDS: usize = 3;

/// A [`Multi`] is one FIFO per shard. A pop that passes a shard has only seen that one empty.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Shards([VecDeque<usize>; SHARDS]);

/// The effect of a call on one shard.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push(usize),
    Pop(usize),
    SeeEmpty,
}

impl Spec for Shards {
    type Op = (usize, Step);
    type Ret = ();

    fn step(&mut self, (shard, step): &Self::Op, (): &()) -> bool {
        let queue = &mut self.0[*shard];
        match *step {
            Step::Push(element) => queue.push_back(element),
            Step::Pop(element) => return queue.pop_front() == Some(element),
            Step::SeeEmpty => return queue.is_empty(),
        }
        true
    }
}

#[test]
fn multi() {
    rounds(|seed| {
        let queue = Multi::with_capacity(SHARDS, 16).unwrap();
        // An element's number modulo SHARDS is its shard. A call to pop is recorded with the shard it starts
        // at.
        let part = |first: usize| -> Part<'_, (bool, usize), Option<usize>> {
            let queue = &queue;
            Box::new(move |log| {
                for n in first..first + 3 {
                    log.call((true, n), || {
                        queue.push(word(n), n).unwrap();
                        None
                    });
                    log.call((false, n + 1), || queue.pop(n + 1).map(usize::from));
                }
            })
        };
        let calls = record(seed, vec![part(10), part(20), part(30)]);
        // A pop becomes one step per shard that it looked at, all within the time of the call.
        let steps = calls.into_iter().flat_map(
            |Call {
                 thread,
                 op: (push, n),
                 ret,
                 begin,
                 end,
             }| {
                let looked_at = if push {
                    1
                } else {
                    ret.map_or(SHARDS, |x| (x + SHARDS - n % SHARDS) % SHARDS + 1)
                };
                (0..looked_at).map(move |i| {
                    let step = match ret {
                        _ if push => Step::Push(n),
                        Some(x) if i + 1 == looked_at => Step::Pop(x),
                        _ => Step::SeeEmpty,
                    };
                    Call {
                        thread,
                        op: ((n + i) % SHARDS, step),
                        ret: (),
                        begin,
                        end,
                    }
                })
            },
        );
        linearize(Shards::default(), &steps.collect::<Vec<_>>()).unwrap();
    });
}

/// A deque whose young end belongs to the thread that has the claim.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Deque(VecDeque<usize>);

#[derive(Clone, Copy, Debug)]
enum At {
    Push(usize),
    PopYoungest,
    StealOldest,
}

impl Spec for Deque {
    type Op = At;
    type Ret = Option<usize>;

    fn step(&mut self, op: &At, ret: &Option<usize>) -> bool {
        match *op {
            At::Push(element) => {
                self.0.push_back(element);
                true
            }
            At::PopYoungest => self.0.pop_back() == *ret,
            // A thief that lost a race returns without an element: that says nothing about the deque.
            At::StealOldest => ret.is_none() || self.0.pop_front() == *ret,
        }
    }
}

#[test]
fn transfer() {
    rounds(|seed| {
        let deque = Transfer::new(Lifo::with_capacity(16).unwrap());
        let owner = |first: usize| -> Part<'_, At, Option<usize>> {
            let deque = &deque;
            Box::new(move |log| {
                for n in first..first + 3 {
                    log.call(At::Push(n), || {
                        deque.claim().push(word(n)).unwrap();
                        None
                    });
                    log.call(At::PopYoungest, || deque.claim().pop().map(usize::from));
                }
            })
        };
        let thief: Part<'_, At, Option<usize>> = Box::new(|log| {
            for _ in 0..6 {
                log.call(At::StealOldest, || {
                    deque.thief().steal_one().taken().map(usize::from)
                });
            }
        });
        let calls = record(seed, vec![owner(10), owner(20), owner(30), thief]);
        linearize(Deque::default(), &calls).unwrap();
    });
}
