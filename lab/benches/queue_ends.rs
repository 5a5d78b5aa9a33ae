//! The stealable queues against those of `st3` and `crossbeam-deque`, under the same load.
//!
//! The owner pushes 64 elements and then pops 64 times. 0, 1 or 3 thieves steal half of the elements all the
//! time, into their own queues, which they empty before they steal again. The time is the owner's. Elements
//! are one word, and the bounded queues have the same capacity. With thieves, a pop may find nothing;
//! without, it must not.
//!
//! `cargo bench -p warpweft-lab --bench queue_ends`

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use warpweft_queue::{Amount, Owner as _, Thief as _};

/// Elements per round.
const BATCH: usize = 64;
/// More than a round, so that a thief that is slow to empty its slots does not make the queue full.
const CAPACITY: usize = 256;

type Element = NonZeroUsize;

/// One implementation: the calls of an owner and of a thief, and nothing around them.
trait Contestant {
    const NAME: &'static str;

    type Owner: Send;
    type Thief: Send;

    fn owner() -> Self::Owner;
    fn thief(owner: &Self::Owner) -> Self::Thief;
    /// Returns true if there was room.
    fn push(owner: &mut Self::Owner, element: Element) -> bool;
    fn pop(owner: &mut Self::Owner) -> Option<Element>;
    /// Takes half: the oldest to run at once, the others into `own`.
    fn steal(victim: &Self::Thief, own: &mut Self::Owner) -> Option<Element>;
}

/// The queues of this crate.
struct Ours<Q>(Q);

macro_rules! ours {
    ($queue:ident, $name:literal) => {
        impl Contestant for Ours<warpweft_queue::$queue<Element>> {
            const NAME: &'static str = $name;

            type Owner = warpweft_queue::$queue<Element>;
            type Thief = <Self::Owner as warpweft_queue::Owner<Element>>::Thief;

            fn owner() -> Self::Owner {
                Self::Owner::with_capacity(CAPACITY).expect("a small capacity")
            }
            fn thief(owner: &Self::Owner) -> Self::Thief {
                owner.thief()
            }
            #[inline]
            fn push(owner: &mut Self::Owner, element: Element) -> bool {
                owner.push(element).is_ok()
            }
            #[inline]
            fn pop(owner: &mut Self::Owner) -> Option<Element> {
                owner.pop()
            }
            #[inline]
            fn steal(victim: &Self::Thief, own: &mut Self::Owner) -> Option<Element> {
                victim.steal_into(own, Amount::Half).taken()
            }
        }
    };
}

ours!(Fifo, "warpweft fifo");
ours!(Lifo, "warpweft lifo");

/// The queues of `st3`.
struct St3<Q>(Q);

macro_rules! st3 {
    ($module:ident, $name:literal) => {
        impl Contestant for St3<st3::$module::Worker<Element>> {
            const NAME: &'static str = $name;

            type Owner = st3::$module::Worker<Element>;
            type Thief = st3::$module::Stealer<Element>;

            fn owner() -> Self::Owner {
                Self::Owner::new(CAPACITY)
            }
            fn thief(owner: &Self::Owner) -> Self::Thief {
                owner.stealer()
            }
            #[inline]
            fn push(owner: &mut Self::Owner, element: Element) -> bool {
                owner.push(element).is_ok()
            }
            #[inline]
            fn pop(owner: &mut Self::Owner) -> Option<Element> {
                owner.pop()
            }
            #[inline]
            fn steal(victim: &Self::Thief, own: &mut Self::Owner) -> Option<Element> {
                victim
                    .steal_and_pop(own, |available| available.div_ceil(2))
                    .ok()
                    .map(|(element, _)| element)
            }
        }
    };
}

st3!(fifo, "st3 fifo");
st3!(lifo, "st3 lifo");

/// The queues of `crossbeam-deque`: they are unbounded, and a batch has at most 32 elements.
struct Crossbeam<const FIFO: bool>;

impl<const FIFO: bool> Contestant for Crossbeam<FIFO> {
    const NAME: &'static str = if FIFO {
        "crossbeam-deque fifo"
    } else {
        "crossbeam-deque lifo"
    };

    type Owner = crossbeam_deque::Worker<Element>;
    type Thief = crossbeam_deque::Stealer<Element>;

    fn owner() -> Self::Owner {
        if FIFO {
            Self::Owner::new_fifo()
        } else {
            Self::Owner::new_lifo()
        }
    }
    fn thief(owner: &Self::Owner) -> Self::Thief {
        owner.stealer()
    }
    #[inline]
    fn push(owner: &mut Self::Owner, element: Element) -> bool {
        owner.push(element);
        true
    }
    #[inline]
    fn pop(owner: &mut Self::Owner) -> Option<Element> {
        owner.pop()
    }
    #[inline]
    fn steal(victim: &Self::Thief, own: &mut Self::Owner) -> Option<Element> {
        victim.steal_batch_and_pop(own).success()
    }
}

fn measure<C: Contestant>(criterion: &mut Criterion, thieves: usize) {
    let stop = AtomicBool::new(false);
    let mut owner = C::owner();
    thread::scope(|scope| {
        for _ in 0..thieves {
            let (victim, stop) = (C::thief(&owner), &stop);
            scope.spawn(move || {
                let mut own = C::owner();
                while !stop.load(Ordering::Relaxed) {
                    black_box(C::steal(&victim, &mut own));
                    while let Some(element) = C::pop(&mut own) {
                        black_box(element);
                    }
                }
            });
        }
        let mut group = criterion.benchmark_group("ends");
        group.throughput(Throughput::Elements(BATCH as u64));
        group.bench_function(BenchmarkId::new(C::NAME, thieves), |bencher| {
            bencher.iter(|| {
                for element in (1..=BATCH).filter_map(Element::new) {
                    let had_room = C::push(&mut owner, black_box(element));
                    assert!(had_room || thieves > 0, "{} had no room", C::NAME);
                }
                for _ in 0..BATCH {
                    let element = black_box(C::pop(&mut owner));
                    assert!(element.is_some() || thieves > 0, "{} lost an element", C::NAME);
                }
            });
        });
        group.finish();
        stop.store(true, Ordering::Relaxed);
    });
}

fn ends(criterion: &mut Criterion) {
    for thieves in [0, 1, 3] {
        measure::<Ours<warpweft_queue::Fifo<Element>>>(criterion, thieves);
        measure::<St3<st3::fifo::Worker<Element>>>(criterion, thieves);
        measure::<Crossbeam<true>>(criterion, thieves);
        measure::<Ours<warpweft_queue::Lifo<Element>>>(criterion, thieves);
        measure::<St3<st3::lifo::Worker<Element>>>(criterion, thieves);
        measure::<Crossbeam<false>>(criterion, thieves);
    }
}

criterion_group!(benches, ends);
criterion_main!(benches);
