//! Every interleaving and every weak-memory outcome of small programs on [`Fifo`], or many random ones.
//!
//! Run with `RUSTFLAGS="--cfg warpweft_loom" cargo test -p warpweft-queue --release --test loom_fifo`, and
//! the same with `warpweft_shuttle`. The models are in `support/ends_models.rs`.
#![cfg(any(warpweft_loom, warpweft_shuttle))]

#[path = "support/ends_models.rs"]
mod models;

use std::num::NonZeroUsize;

use warpweft_queue::Fifo;

/// Two before the wrap of the index.
const BEFORE_WRAP: u64 = u64::MAX - 1;

struct Kind;

impl models::Kind for Kind {
    type Queue = Fifo<NonZeroUsize>;

    const YOUNGEST_FIRST: bool = false;

    fn make(capacity: usize, start: u64) -> Self::Queue {
        Fifo::with_start(capacity, start).expect("a small capacity")
    }
}

#[test]
fn steal_against_pop() {
    models::steal_against_pop::<Kind>(0, 4);
}

#[test]
fn steal_against_pop_at_the_wrap() {
    models::steal_against_pop::<Kind>(BEFORE_WRAP, 1);
}

#[test]
fn steal_against_push() {
    models::steal_against_push::<Kind>();
}

#[test]
fn overshoot_and_rollback() {
    models::overshoot_and_rollback::<Kind>();
}

#[test]
fn two_thieves_and_owner() {
    models::two_thieves_and_owner::<Kind>();
}

#[test]
fn push_behind_a_slow_thief() {
    models::push_behind_a_slow_thief::<Kind>(0);
}

#[test]
fn push_behind_a_slow_thief_at_the_wrap() {
    models::push_behind_a_slow_thief::<Kind>(BEFORE_WRAP);
}

#[test]
fn steal_during_growth() {
    models::steal_during_growth::<Kind>(0);
}

#[test]
fn steal_during_growth_at_the_wrap() {
    models::steal_during_growth::<Kind>(BEFORE_WRAP);
}

#[test]
fn growth_publishes_the_ring() {
    models::growth_publishes_the_ring::<Kind>();
}

#[test]
fn retired_ring_waits_for_thief() {
    models::retired_ring_waits_for_thief::<Kind>();
}

#[test]
fn two_thieves_and_growth() {
    models::two_thieves_and_growth::<Kind>();
}

#[test]
fn mutual_steal() {
    models::mutual_steal::<Kind>();
}

#[test]
fn growth_after_overshoot() {
    models::growth_after_overshoot::<Kind>();
}

#[test]
fn owner_leaves_first() {
    models::owner_leaves_first::<Kind>();
}

#[test]
fn peek_during_growth() {
    models::peek_during_growth::<Kind>(0);
}

#[test]
fn peek_against_steal() {
    models::peek_against_steal::<Kind>(0);
}

#[test]
fn peek_against_pop() {
    models::peek_against_pop::<Kind>(0);
}

#[test]
fn peek_against_pop_at_the_wrap() {
    models::peek_against_pop::<Kind>(BEFORE_WRAP);
}
