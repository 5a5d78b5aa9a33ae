//! The lock-free queues, used by hand and against their rules.
#![forbid(unsafe_code)]

use crate::child::Ends;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use warpweft_queue::{
    Amount, Carried, Chain, Deques, Fifo, InboxOwner, Lifo, Linked, Locked, MAX_CAPACITY, Mpmc, Multi, Nodes,
    Owner, Slot, Steal, StealOutcome, Thief, Transfer,
};

/// An element that counts how many there are.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Box<Self> {
        count.fetch_add(1, Ordering::Relaxed);
        Box::new(Self(Arc::clone(count)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

type Element = Box<Counted>;

/// An owner and its thieves: growth, thieves that outlive the owner, thieves that steal into themselves, full
/// queues.
fn ends<O: Owner<Element>>(turns: usize) {
    let count = Arc::new(AtomicUsize::new(0));
    for capacity in [0, usize::MAX, MAX_CAPACITY + 1] {
        assert!(O::with_capacity(capacity).is_err(), "{capacity}");
    }
    for capacity in [1, 2, 3, 64] {
        let mut owner = O::with_capacity(capacity).expect("a small one");
        let thief = owner.thief();
        for _ in 0..200 {
            if let Err(full) = owner.push(Counted::new(&count)) {
                owner.grow().expect("memory");
                owner.push(full.0).map_err(drop).expect("room");
            }
        }
        // Into itself, and all amounts.
        for amount in [
            Amount::One,
            Amount::Half,
            Amount::AtLeast(NonZeroUsize::MAX),
            Amount::AtLeast(NonZeroUsize::MIN),
        ] {
            match thief.steal_into(&mut owner, amount) {
                Steal::Taken { first, .. } => drop(first),
                Steal::Empty | Steal::Lost | Steal::Few(_) => {}
            }
        }
        let mut other = O::with_capacity(1).expect("a small one");
        drop(thief.steal_into(&mut other, Amount::Half));
        drop(owner.pop());
        // The thief outlives the owner with elements left.
        drop(owner);
        let mut taken = 0;
        while let Steal::Taken { first, .. } = thief.steal_one() {
            drop(first);
            taken += 1;
        }
        assert!(taken > 0, "the elements stay with the last end");
        assert!(thief.glance().len == 0);
        let late = thief.clone();
        drop(thief);
        drop((late, other));
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
    // Thieves against growth, and against an owner that goes.
    for _ in 0..turns {
        let mut owner = O::with_capacity(2).expect("a small one");
        let over = Arc::new(AtomicBool::new(false));
        let thieves: Vec<_> = (0..2).map(|_| (owner.thief(), Arc::clone(&over))).collect();
        thread::scope(|scope| {
            for (thief, over) in &thieves {
                scope.spawn(move || {
                    let mut own = O::with_capacity(4).expect("a small one");
                    while !over.load(Ordering::Relaxed) {
                        drop(thief.steal_into(&mut own, Amount::Half));
                        drop(thief.steal_one());
                        drop(own.pop());
                    }
                });
            }
            for n in 0..500 {
                if let Err(full) = owner.push(Counted::new(&count)) {
                    if n < 400 {
                        owner.grow().expect("memory");
                    }
                    drop(full);
                }
                if n % 3 == 0 {
                    drop(owner.pop());
                }
            }
            drop(owner);
            over.store(true, Ordering::Relaxed);
        });
        drop(thieves);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}

/// Tries: stealable queues of no size, of a huge size, grown again and again, with thieves that outlive them.
/// Expected: errors for sizes; each element is dropped once.
#[test]
fn stealable_queues() {
    program!(|world| {
        ends::<Fifo<Element>>(world.count(40));
        ends::<Lifo<Element>>(world.count(40));
    });
}

/// Tries: the same with indices that begin shortly before they wrap. Expected: as above.
#[test]
fn stealable_queues_at_the_wrap() {
    fn run<O: Owner<Element>>(make: impl Fn(u64) -> O) {
        let count = Arc::new(AtomicUsize::new(0));
        for start in [
            u64::MAX,
            u64::MAX - 3,
            u64::from(u32::MAX) - 2,
            1 << 63,
            0x7fff_ffff_7fff_fffe,
        ] {
            let mut owner = make(start);
            let thief = owner.thief();
            for n in 0..100 {
                if let Err(full) = owner.push(Counted::new(&count)) {
                    let _ = owner.grow();
                    drop(full);
                }
                match n % 3 {
                    0 => drop(owner.pop()),
                    1 => drop(thief.steal_one()),
                    _ => {}
                }
            }
            drop(owner);
            drop(thief);
            assert_eq!(count.load(Ordering::Relaxed), 0, "{start}");
        }
    }
    program!(|_world| {
        run(|start| Fifo::with_start(4, start).expect("a small one"));
        run(|start| Lifo::with_start(4, start).expect("a small one"));
        run(|start| Chain::with_start(4, start).expect("a small one"));
    });
}

/// Tries: queues of nodes with invented nodes, nodes of another table, nodes given back twice, and processors
/// elsewhere. Expected: a fresh node, or a panic for the processor of another table; each element comes out
/// once.
#[test]
fn nodes_that_are_invented() {
    program!(|world| {
        let count = Arc::new(AtomicUsize::new(0));
        let (nodes, processors) = Nodes::new(2, 1);
        let (others, foreign) = Nodes::new(1, 0);
        let (first, second) = (Linked::<Element>::new(&nodes), Linked::<Element>::new(&nodes));
        let mut seed = 1_u32;
        for n in 0..world.count(5000) {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let invented = match n % 4 {
                0 => Carried::from_bits(seed),
                1 => Carried::from_bits(seed % 64),
                2 => Carried::from_bits(u32::MAX - seed % 4),
                _ => Carried::NONE,
            };
            first.push(&processors[n % 2], Counted::new(&count), invented);
            nodes.release(invented);
            others.release(invented);
            if n % 2 == 0
                && let Some((element, carried)) = first.pop(&processors[1])
            {
                nodes.release(carried);
                second.push(&processors[0], element, carried);
                second.push_from_outside(Counted::new(&count), carried);
            }
        }
        let wrong = || first.push(&foreign[0], Counted::new(&count), Carried::NONE);
        assert!(catch_unwind(AssertUnwindSafe(wrong)).is_err());
        let mut out = 0;
        for queue in [&first, &second] {
            while let Some((element, _)) = queue.pop(&processors[0]) {
                drop(element);
                out += 1;
            }
        }
        assert!(out > 0);
        drop((first, second));
        assert_eq!(count.load(Ordering::Relaxed), 0);
    });
}

/// Tries: threads that use invented nodes at the same time. Expected: as above.
#[test]
fn nodes_that_are_invented_by_several_threads() {
    program!(|world| {
        let count = Arc::new(AtomicUsize::new(0));
        let (nodes, processors) = Nodes::new(2, 2);
        let queue = Linked::<Element>::new(&nodes);
        thread::scope(|scope| {
            for (n, processor) in processors.into_iter().enumerate() {
                let (queue, nodes, count) = (&queue, &nodes, &count);
                scope.spawn(move || {
                    for k in 0..world.count(20_000) as u32 {
                        queue.push(
                            &processor,
                            Counted::new(count),
                            Carried::from_bits(k % 97 + n as u32),
                        );
                        if let Some((element, carried)) = queue.pop(&processor) {
                            queue.push(&processor, element, carried);
                            nodes.release(carried);
                            nodes.release(Carried::from_bits(k % 31));
                        }
                        drop(queue.pop(&processor));
                    }
                });
            }
            for _ in 0..2 {
                let (queue, count) = (&queue, &count);
                scope.spawn(move || {
                    for k in 0..world.count(20_000) as u32 {
                        queue.push_from_outside(Counted::new(count), Carried::from_bits(k % 53));
                    }
                });
            }
        });
        drop(queue);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    });
}

/// Tries: deques whose words are invented, used twice, or of another pool, and owners' ends given to another
/// pool's deques. Expected: the task comes back, or a panic; each element is dropped once.
#[test]
fn deques_with_wrong_words_and_owners() {
    program!(Ends::Misusing, |world| {
        let count = Arc::new(AtomicUsize::new(0));
        assert!(Deques::<Element>::new(0, 1).is_err());
        assert!(Deques::<Element>::new(1, 0).is_err());
        assert!(Deques::<Element>::new(1, usize::MAX).is_err());
        let (deques, mut own) = Deques::<Element>::new(2, 2).expect("small ones");
        let (others, mut foreign) = Deques::<Element>::new(3, 2).expect("small ones");
        let mut words = Vec::new();
        for n in 0..world.count(2000) {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                drop(deques.push(&mut own[n % 2], Counted::new(&count)));
                drop(deques.push(&mut foreign[n % 3], Counted::new(&count)));
                drop(others.push(&mut own[n % 2], Counted::new(&count)));
                if n % 3 == 0 {
                    words.push(deques.suspend(&mut own[n % 2], n));
                    words.push(others.suspend(&mut foreign[n % 3], n));
                    words.push(deques.suspend(&mut foreign[n % 2], usize::MAX));
                }
            }));
            let word = words.get(n % words.len().max(1)).copied().unwrap_or(n as u64);
            let _ = catch_unwind(AssertUnwindSafe(|| match n % 5 {
                0 => drop(deques.resume(word, Counted::new(&count), usize::MAX - n)),
                1 => drop(others.resume(word ^ (1 << (n % 64)), Counted::new(&count), n)),
                2 => deques.abandon(u64::MAX - n as u64),
                3 => deques.abandon(word),
                _ => drop(others.resume(word, Counted::new(&count), n)),
            }));
            let _ = catch_unwind(AssertUnwindSafe(|| {
                drop(deques.steal_from(&mut own[n % 2], n % 2, |members| members.wrapping_sub(1)));
                drop(deques.steal_from(&mut foreign[n % 3], n % 2, |members| members + n));
                drop(others.sweep(n % 3));
                deques.rebalance(0, 1, |_| n);
                if let Some((_, StealOutcome::Stolen { task, .. } | StealOutcome::TakenOver { task })) =
                    deques.find(&mut own[n % 2])
                {
                    drop(task);
                }
                drop((own[0].pop(), own[1].pop_top(), foreign[2].pop()));
                let _ = (deques.all_are_active(), deques.stats());
            }));
        }
        drop((deques, others, own, foreign));
        assert_eq!(count.load(Ordering::Relaxed), 0);
    });
}

/// Tries: bounded queues of no size and of a huge one, filled, emptied, and dropped with elements; positions
/// at the wrap. Expected: errors for sizes; each element is dropped once.
#[test]
fn bounded_queues() {
    program!(|world| {
        let count = Arc::new(AtomicUsize::new(0));
        for capacity in [0, usize::MAX, MAX_CAPACITY + 1] {
            assert!(Mpmc::<Element>::with_capacity(capacity).is_err());
            assert!(Multi::<Element>::with_capacity(2, capacity).is_err());
        }
        assert!(Multi::<Element>::with_capacity(0, 4).is_err());
        assert!(Multi::<Element, Locked<Element>>::from_shards([]).is_err());
        for start in [0, u64::MAX, u64::MAX - 7, u64::MAX / 2] {
            let queue = Mpmc::with_start(4, start).expect("a small one");
            let full = (0..10)
                .filter(|_| queue.try_push(Counted::new(&count)).is_err())
                .count();
            assert_eq!(full, 10 - queue.capacity().min(10), "{start}");
            drop(queue.try_pop());
            drop(queue);
            assert_eq!(count.load(Ordering::Relaxed), 0, "{start}");
        }
        let queue = Multi::<Element>::with_capacity(3, 2).expect("small ones");
        for pick in [0, 1, usize::MAX, usize::MAX / 2] {
            drop(queue.push(Counted::new(&count), pick));
            drop(queue.pop(pick));
        }
        thread::scope(|scope| {
            for n in 0..4 {
                let (queue, count) = (&queue, &count);
                scope.spawn(move || {
                    for k in 0..world.count(5000) {
                        drop(queue.push(Counted::new(count), n + k));
                        if k % 2 == 0 {
                            drop(queue.pop(k));
                        }
                    }
                });
            }
        });
        drop(queue);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    });
}

/// Tries: inboxes whose owner goes first, slots that are swapped by several threads, locked queues that are
/// changed inside of panics of their callbacks, and transfers whose claim is dropped in odd ways. Expected:
/// each element is dropped once.
#[test]
fn inboxes_slots_and_transfers() {
    program!(|world| {
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..world.count(50) {
            let mut owner = InboxOwner::new();
            let senders: Vec<_> = (0..3).map(|_| owner.sender()).collect();
            thread::scope(|scope| {
                for sender in &senders {
                    let count = &count;
                    scope.spawn(move || (0..200).for_each(|_| sender.push(Counted::new(count))));
                }
                for _ in 0..50 {
                    drop(owner.pop());
                }
            });
            drop(owner);
            senders[0].push(Counted::new(&count));
            drop(senders);
            assert_eq!(count.load(Ordering::Relaxed), 0);
        }
        let slot = Slot::new();
        thread::scope(|scope| {
            for n in 0..3 {
                let (slot, count) = (&slot, &count);
                scope.spawn(move || {
                    for k in 0..world.count(5000) {
                        drop(if (n + k) % 2 == 0 {
                            slot.swap(Counted::new(count))
                        } else {
                            slot.take()
                        });
                    }
                });
            }
        });
        drop(slot);
        let locked = Locked::new();
        locked.push_batch((0..10).map(|_| Counted::new(&count)));
        let panics = || locked.extract(&mut Vec::new(), |_| panic!("a predicate panics"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        let _ = catch_unwind(AssertUnwindSafe(|| {
            locked.push_batch((0..10).map(|n| {
                if n == 5 {
                    panic!("an iterator panics")
                } else {
                    Counted::new(&count)
                }
            }));
        }));
        let mut into = Vec::new();
        locked.pop_batch(&mut into, usize::MAX);
        drop((locked, into));
        let transfer = Transfer::new(Fifo::<Element>::with_capacity(2).expect("a small one"));
        let claim = transfer.claim();
        assert!(transfer.try_claim().is_none());
        std::mem::forget(claim);
        assert!(
            transfer.try_claim().is_none(),
            "a forgotten claim is never given back"
        );
        let Err(transfer) = transfer.try_claim_owned() else {
            panic!("it is claimed")
        };
        drop(transfer.thief().steal_one());
        drop(transfer);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    });
}

/// Tries: elements whose destructors panic, in each queue, as the queue goes. Expected: no element is dropped
/// twice.
#[test]
fn elements_that_panic_as_they_go() {
    struct Bomb(Arc<AtomicUsize>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            let before = self.0.fetch_sub(1, Ordering::Relaxed);
            assert_ne!(before, 0, "dropped twice");
            if before.is_multiple_of(5) && !thread::panicking() {
                panic!("an element panics as it goes");
            }
        }
    }
    program!(|_world| {
        let count = Arc::new(AtomicUsize::new(0));
        let bomb = || {
            count.fetch_add(1, Ordering::Relaxed);
            Box::new(Bomb(Arc::clone(&count)))
        };
        let goes = |queue: Box<dyn FnOnce()>| drop(catch_unwind(AssertUnwindSafe(queue)));
        let mut fifo = Fifo::with_capacity(16).expect("a small one");
        (0..12).for_each(|_| drop(fifo.push(bomb())));
        goes(Box::new(move || drop(fifo)));
        let mut lifo = Lifo::with_capacity(16).expect("a small one");
        (0..12).for_each(|_| drop(lifo.push(bomb())));
        goes(Box::new(move || drop(lifo)));
        let mpmc = Mpmc::with_capacity(16).expect("a small one");
        (0..12).for_each(|_| drop(mpmc.try_push(bomb())));
        goes(Box::new(move || drop(mpmc)));
        let inbox = InboxOwner::new();
        (0..100).for_each(|_| inbox.sender().push(bomb()));
        goes(Box::new(move || drop(inbox)));
        let (nodes, processors) = Nodes::new(1, 1);
        let linked = Linked::new(&nodes);
        (0..12).for_each(|_| drop(linked.push(&processors[0], bomb(), Carried::NONE)));
        goes(Box::new(move || drop(linked)));
        let locked = Locked::new();
        (0..12).for_each(|_| locked.push(bomb()));
        goes(Box::new(move || drop(locked)));
    });
}
