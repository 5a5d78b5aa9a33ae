//! An owner and thieves around one offer, under loom: every interleaving and every weak-memory outcome.
#![cfg(warpweft_loom)]

#[path = "../src/fork/offer.rs"]
mod offer;

use offer::{Offer, taken};
use std::ptr::NonNull;
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::sync::Arc;
use warpweft_platform::{loom, thread};

/// A fork to which each thread that has it writes: loom reports two that do.
struct Fork(UnsafeCell<u32>);

impl Fork {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn run(&self) {
        self.0.with_mut(|runs| {
            // SAFETY: the thread that runs a fork has it alone; loom checks that.
            unsafe { *runs += 1 };
        });
    }

    fn runs(&self) -> u32 {
        self.0.with(|runs| {
            // SAFETY: as above.
            unsafe { *runs }
        })
    }
}

struct World {
    offer: Offer<Fork>,
    forks: [Fork; 2],
    /// Says which forks their thieves are done with, so that the owner may look at them.
    done: [AtomicU64; 2],
}

// SAFETY: `Fork`s are shared as the offer allows; loom checks that.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(body);
}

fn world() -> Arc<World> {
    Arc::new(World {
        offer: Offer::new(),
        forks: [Fork::new(), Fork::new()],
        done: [AtomicU64::new(0), AtomicU64::new(0)],
    })
}

/// Takes what is on offer, if anything, and runs it.
fn thief(world: &World) {
    let Some(turn) = world.offer.look() else { return };
    let Some(fork) = world.offer.take(turn) else {
        return;
    };
    let which = usize::from(!std::ptr::eq(fork.as_ptr(), &world.forks[0]));
    assert_eq!(turn, which as u64 + 1, "the fork is the turn's");
    // SAFETY: the world is alive.
    unsafe { fork.as_ref() }.run();
    world.done[which].store(1, Ordering::Release);
}

/// Offers the fork and takes it back, or waits for its thief. Returns true if it came back.
fn owner(world: &World, which: usize) -> bool {
    let fork = &world.forks[which];
    let turn = world.offer.publish(NonNull::from(fork), std::ptr::null());
    let back = world.offer.withdraw();
    if back {
        fork.run();
    } else {
        assert_eq!(world.offer.decision().load(Ordering::Relaxed), taken(turn));
        while world.done[which].load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
    }
    assert_eq!(fork.runs(), 1);
    assert!(world.offer.turns() >= turn);
    back
}

#[test]
fn owner_and_thief_over_one_fork() {
    model(|| {
        let world = world();
        let other = Arc::clone(&world);
        let other = thread::spawn(move || thief(&other));
        owner(&world, 0);
        other.join().expect("no panic");
    });
}

#[test]
fn a_slow_thief_meets_the_next_turn() {
    model(|| {
        let world = world();
        let other = Arc::clone(&world);
        let other = thread::spawn(move || thief(&other));
        owner(&world, 0);
        owner(&world, 1);
        other.join().expect("no panic");
    });
}

#[test]
fn two_thieves_and_the_owner() {
    model(|| {
        let world = world();
        let others = [(); 2].map(|()| {
            let other = Arc::clone(&world);
            thread::spawn(move || thief(&other))
        });
        owner(&world, 0);
        for other in others {
            other.join().expect("no panic");
        }
    });
}

/// The owner offers the next fork as soon as it sees that the first one was taken.
#[test]
fn the_next_offer_follows_a_decision() {
    model(|| {
        let world = world();
        let other = Arc::clone(&world);
        let other = thread::spawn(move || {
            thief(&other);
            thief(&other);
        });
        let turn = world
            .offer
            .publish(NonNull::from(&world.forks[0]), std::ptr::null());
        if world.offer.decision().load(Ordering::Relaxed) == taken(turn) {
            world.offer.clear();
            owner(&world, 1);
            while world.done[0].load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
        } else if world.offer.withdraw() {
            world.forks[0].run();
        }
        other.join().expect("no panic");
        assert_eq!(world.forks[0].runs(), 1);
    });
}

/// A thief that looks while the next fork is being offered does not hide it from the others.
#[test]
fn an_offer_that_was_not_taken_stays_visible() {
    model(|| {
        let world = world();
        let other = Arc::clone(&world);
        let other = thread::spawn(move || {
            thief(&other);
            thief(&other);
        });
        let turn = world
            .offer
            .publish(NonNull::from(&world.forks[0]), std::ptr::null());
        if world.offer.decision().load(Ordering::Relaxed) == taken(turn) {
            world.offer.clear();
            let turn = world
                .offer
                .publish(NonNull::from(&world.forks[1]), std::ptr::null());
            other.join().expect("no panic");
            let is_taken = world.offer.decision().load(Ordering::Relaxed) == taken(turn);
            assert_ne!(is_taken, world.offer.look() == Some(turn));
        } else {
            world.offer.withdraw();
            other.join().expect("no panic");
        }
    });
}

/// A frame that waits for a stolen fork runs parts of that one only.
#[test]
fn a_thief_of_parts_takes_no_other() {
    model(|| {
        let world = world();
        let other = Arc::clone(&world);
        let (mine, another) = (
            &raw const world.forks[0] as usize,
            &raw const world.forks[1] as usize,
        );
        let other = thread::spawn(move || {
            let Some(turn) = other.offer.look_below(mine as *const Fork) else {
                return;
            };
            if let Some(part) = other.offer.take(turn) {
                assert!(
                    std::ptr::eq(part.as_ptr(), &other.forks[0]),
                    "it is a part of another fork"
                );
                // SAFETY: the world is alive.
                unsafe { part.as_ref() }.run();
                other.done[0].store(1, Ordering::Release);
            }
        });
        for (which, ancestor) in [mine, another].into_iter().enumerate() {
            let fork = &world.forks[which];
            world.offer.publish(NonNull::from(fork), ancestor as *const Fork);
            if world.offer.withdraw() {
                fork.run();
                continue;
            }
            while world.done[which].load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            world.offer.clear();
        }
        other.join().expect("no panic");
        assert_eq!(world.forks.each_ref().map(Fork::runs), [1, 1]);
    });
}
