//! Every interleaving and every weak-memory outcome of small programs on [`Chain`], or many random ones.
//!
//! Run with `RUSTFLAGS="--cfg warpweft_loom" cargo test -p warpweft-queue --release --test loom_chain`, and
//! the same with `warpweft_shuttle`. The models that it shares with the other stealable queues are in
//! `support/ends_models.rs`.
#![cfg(any(warpweft_loom, warpweft_shuttle))]

#[path = "support/ends_models.rs"]
#[allow(
    dead_code,
    reason = "a chain moves nothing when it grows: two models have nothing to explore here"
)]
mod models;

use models::{account, explore, picker, pop_into, push_all, push_or_grow};
use warpweft_queue::{Chain, Owner, Steal, Thief};

struct Kind;

impl models::Kind for Kind {
    type Queue = Chain<models::Element>;

    const YOUNGEST_FIRST: bool = false;

    fn make(capacity: usize, start: u64) -> Self::Queue {
        Chain::with_start(capacity, start).expect("a small capacity")
    }
}

/// A queue of two rings, of which the first is empty and the second holds one element, number 1.
fn in_the_second_ring() -> Chain<models::Element> {
    let mut queue = <Kind as models::Kind>::make(1, 0);
    queue.grow().expect("there is memory");
    push_all(&mut queue, [1]);
    queue
}

models::tests! {
    steal_against_pop = steal_against_pop(0, 4);
    steal_against_push = steal_against_push();
    overshoot_and_rollback = overshoot_and_rollback();
    two_thieves_and_owner = two_thieves_and_owner();
    steal_during_growth = steal_during_growth(0);
    two_thieves_and_growth = two_thieves_and_growth();
    mutual_steal = mutual_steal();
    growth_after_overshoot = growth_after_overshoot();
    owner_leaves_first = owner_leaves_first();
    push_behind_a_slow_thief = push_behind_a_slow_thief(0);
}

/// A thief finds the last ring empty. Before it acts on that, the ring is filled, and another one is added
/// behind it.
#[test]
fn a_ring_that_was_last_is_not_dropped() {
    explore(|| {
        let mut queue = in_the_second_ring();
        let mut got = Vec::new();
        got.extend(queue.thief().steal_one().taken().map(models::Element::get));
        let thief = picker::<Kind>(&queue, 2);
        push_all(&mut queue, 2..=3);
        push_or_grow(&mut queue, 4);
        account::<Kind>(queue, got, [thief], 4);
    });
}

/// Two thieves find the same ring empty, which has another one behind it: one ring is dropped, not two.
#[test]
fn a_ring_is_dropped_once() {
    explore(|| {
        let mut queue = in_the_second_ring();
        queue.grow().expect("there is memory");
        push_all(&mut queue, 2..=4);
        let mut got = Vec::new();
        got.extend(queue.thief().steal_one().taken().map(models::Element::get));
        let thieves = [picker::<Kind>(&queue, 1), picker::<Kind>(&queue, 1)];
        account::<Kind>(queue, got, thieves, 4);
    });
}

/// The owner finds nothing and goes back to its first ring, while a thief is at the last one.
#[test]
fn back_to_the_first_ring() {
    explore(|| {
        let mut queue = in_the_second_ring();
        let thief = picker::<Kind>(&queue, 2);
        let mut got = Vec::new();
        pop_into(&mut queue, &mut got);
        pop_into(&mut queue, &mut got);
        push_all(&mut queue, [2]);
        account::<Kind>(queue, got, [thief], 2);
    });
}

/// A thread that was told of an element finds it, wherever it is: no look takes a queue for empty because it
/// has just got another ring.
#[test]
fn a_look_overlooks_nothing() {
    explore(|| {
        let mut queue = <Kind as models::Kind>::make(1, 0);
        push_all(&mut queue, [1]);
        let victim = queue.thief();
        let thief = warpweft_platform::thread::spawn(move || {
            assert!(victim.glance().len > 0);
            let look = victim.steal_one();
            assert!(
                !matches!(look, Steal::Empty),
                "there were two, and nobody else takes any"
            );
            look.taken()
                .map(models::Element::get)
                .into_iter()
                .collect::<Vec<_>>()
        });
        push_or_grow(&mut queue, 2);
        account::<Kind>(queue, Vec::new(), [thief], 2);
    });
}

/// The first ring is filled, and another one comes behind it, between two looks of a thief: it takes the
/// older one first.
#[test]
fn oldest_first_across_rings() {
    explore(|| {
        let mut queue = <Kind as models::Kind>::make(1, 0);
        let thief = picker::<Kind>(&queue, 2);
        push_all(&mut queue, [1]);
        push_or_grow(&mut queue, 2);
        account::<Kind>(queue, Vec::new(), [thief], 2);
    });
}
