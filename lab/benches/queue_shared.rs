//! The shared queues against those of crossbeam, under the same load.
//!
//! One thread pushes 64 elements and then tries 64 times to take one. 0, 1 or 3 other threads take what they
//! can get, all the time. The time is that of the one thread. The thread that takes an element counts it;
//! none may be lost.
//!
//! `cargo bench -p warpweft-lab --bench queue_shared`

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_deque::{Injector, Steal};
use crossbeam_queue::{ArrayQueue, SegQueue};
use warpweft_queue::{InboxOwner, Locked, Mpmc, Multi};

/// Elements per round: a batch that a worker might overflow.
const BATCH: usize = 64;
/// No bounded queue is ever full.
const CAPACITY: usize = 1024;

type Element = NonZeroUsize;

/// A queue with the two calls that are measured. Each thread brings a generator, for the queue that needs
/// one.
struct Contestant<Q> {
    name: &'static str,
    queue: Q,
    push: fn(&Q, Element, &mut fastrand::Rng),
    pop: fn(&Q, &mut fastrand::Rng) -> Option<Element>,
}

impl<Q: Sync> Contestant<Q> {
    fn measure(&self, criterion: &mut Criterion, others: usize) {
        let (stop, taken_by_others) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (mut pushed, mut taken) = (0, 0);
        thread::scope(|scope| {
            for seed in 1..=others {
                let (stop, taken_by_others) = (&stop, &taken_by_others);
                scope.spawn(move || {
                    let (mut rng, mut taken) = (fastrand::Rng::with_seed(seed as u64), 0);
                    while !stop.load(Ordering::Relaxed) {
                        taken += usize::from((self.pop)(&self.queue, &mut rng).is_some());
                    }
                    taken_by_others.fetch_add(taken, Ordering::Relaxed);
                });
            }
            let mut rng = fastrand::Rng::with_seed(0);
            let mut group = criterion.benchmark_group("shared");
            group.throughput(Throughput::Elements(BATCH as u64));
            group.bench_function(BenchmarkId::new(self.name, others), |bencher| {
                bencher.iter(|| {
                    for element in (1..=BATCH).filter_map(Element::new) {
                        (self.push)(&self.queue, element, &mut rng);
                    }
                    pushed += BATCH;
                    taken += (0..BATCH)
                        .filter_map(|_| (self.pop)(&self.queue, &mut rng))
                        .count();
                });
            });
            group.finish();
            stop.store(true, Ordering::Relaxed);
        });
        let mut rng = fastrand::Rng::with_seed(0);
        let left = std::iter::from_fn(|| (self.pop)(&self.queue, &mut rng)).count();
        assert_eq!(
            pushed,
            taken + taken_by_others.into_inner() + left,
            "{} lost elements",
            self.name
        );
    }
}

fn warpweft(criterion: &mut Criterion) {
    for others in [0, 1, 3] {
        let mpmc = Contestant {
            name: "Mpmc",
            queue: Mpmc::with_capacity(CAPACITY).unwrap(),
            push: |queue, element, _| queue.try_push(element).unwrap(),
            pop: |queue, _| queue.try_pop(),
        };
        mpmc.measure(criterion, others);
        let multi = Contestant {
            name: "Multi4",
            queue: Multi::with_capacity(4, CAPACITY).unwrap(),
            push: |queue, element, rng| queue.push(element, rng.usize(0..4)).unwrap(),
            pop: |queue: &Multi<Element>, rng| queue.pop(rng.usize(0..4)),
        };
        multi.measure(criterion, others);
        let locked = Contestant {
            name: "Locked",
            queue: Locked::new(),
            push: |queue, element, _| queue.push(element),
            pop: |queue, _| queue.pop(),
        };
        locked.measure(criterion, others);
    }
}

fn crossbeam(criterion: &mut Criterion) {
    for others in [0, 1, 3] {
        let array = Contestant {
            name: "crossbeam ArrayQueue",
            queue: ArrayQueue::new(CAPACITY),
            push: |queue, element, _| queue.push(element).unwrap(),
            pop: |queue, _| queue.pop(),
        };
        array.measure(criterion, others);
        let seg = Contestant {
            name: "crossbeam SegQueue",
            queue: SegQueue::new(),
            push: |queue, element, _| queue.push(element),
            pop: |queue, _| queue.pop(),
        };
        seg.measure(criterion, others);
        let injector = Contestant {
            name: "crossbeam Injector",
            queue: Injector::new(),
            push: |queue, element, _| queue.push(element),
            pop: |queue, _| {
                loop {
                    match queue.steal() {
                        Steal::Success(element) => return Some(element),
                        Steal::Empty => return None,
                        Steal::Retry => {}
                    }
                }
            },
        };
        injector.measure(criterion, others);
    }
}

/// The inbox has one owner, so no other thread can take.
fn inbox(criterion: &mut Criterion) {
    let mut owner = InboxOwner::new();
    let sender = owner.sender();
    let mut group = criterion.benchmark_group("shared");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function(BenchmarkId::new("Inbox", 0), |bencher| {
        bencher.iter(|| {
            for element in (1..=BATCH).filter_map(Element::new) {
                sender.push(element);
            }
            assert_eq!((0..BATCH).filter_map(|_| owner.pop()).count(), BATCH);
        });
    });
    group.finish();
}

criterion_group!(shared, warpweft, inbox, crossbeam);
criterion_main!(shared);
