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

models::tests! {
    steal_against_pop = steal_against_pop(0, 4);
    steal_against_pop_at_the_wrap = steal_against_pop(BEFORE_WRAP, 1);
    steal_against_push = steal_against_push();
    overshoot_and_rollback = overshoot_and_rollback();
    two_thieves_and_owner = two_thieves_and_owner();
    push_behind_a_slow_thief = push_behind_a_slow_thief(0);
    push_behind_a_slow_thief_at_the_wrap = push_behind_a_slow_thief(BEFORE_WRAP);
    steal_during_growth = steal_during_growth(0);
    steal_during_growth_at_the_wrap = steal_during_growth(BEFORE_WRAP);
    growth_publishes_the_ring = growth_publishes_the_ring();
    retired_ring_waits_for_thief = retired_ring_waits_for_thief();
    growth_after_refills = growth_after_refills();
    two_thieves_and_growth = two_thieves_and_growth();
    mutual_steal = mutual_steal();
    growth_after_overshoot = growth_after_overshoot();
    owner_leaves_first = owner_leaves_first();
    peek_during_growth = peek_during_growth(0);
    peek_against_steal = peek_against_steal(0);
    peek_against_pop = peek_against_pop(0);
    peek_against_pop_at_the_wrap = peek_against_pop(BEFORE_WRAP);
}
