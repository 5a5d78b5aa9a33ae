//! The policies of `warpweft-policy` that differ in structure, with small queues, and the tests of this build for each.
//!
//! Under loom those are left out whose interleavings are too many for the time that a model has; their structures have models of their own in
//! `warpweft-queue`.

use std::num::NonZeroUsize;
use warpweft_conformance::conformance;
#[cfg(not(warpweft_loom))]
use warpweft_policy::order::{FifoOrder, Mix, MixedOrder, PriorityOrder, SlotOrder};
use warpweft_policy::{Fifo, Help, Lifo, Overflow, YieldTo};
#[cfg(not(warpweft_loom))]
use warpweft_policy::{Mixed, Stealing, Victims, Woken};
use warpweft_queue::Amount;

#[cfg(not(warpweft_loom))]
const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
const THREE: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Newest first mostly.
#[cfg(not(warpweft_loom))]
fn mixed(mix: Mix) -> Mixed {
    Stealing::with_order(MixedOrder::new(mix).expect("a possible order"))
}

conformance!(mod fifo = Fifo::new());
conformance!(mod fifo_one = Fifo::new().steal(Amount::One).capacity(4));
conformance!(mod fifo_at_least = Fifo::new().steal(Amount::AtLeast(THREE)).capacity(2));
conformance!(mod fifo_locked = Fifo::new().capacity(2).overflow(Overflow::Locked));
#[cfg(not(warpweft_loom))]
conformance!(mod fifo_retry = Fifo::new().capacity(2).overflow(Overflow::Retry(TWO)));
#[cfg(not(warpweft_loom))]
conformance!(mod fifo_lockfree = Fifo::new().capacity(2).overflow(Overflow::LockFree));
#[cfg(not(warpweft_loom))]
conformance!(mod fifo_multi = Fifo::new().capacity(2).overflow(Overflow::Multi(THREE)));
conformance!(mod fifo_global_yield = Fifo::new().yield_to(YieldTo::Global));
#[cfg(not(warpweft_loom))]
conformance!(mod fifo_nearest = Fifo::new().victims(Victims::Nearest(TWO)));
#[cfg(not(warpweft_loom))]
conformance!(mod fifo_topology = Fifo::new().victims(Victims::Topology));
conformance!(mod fifo_shed = Fifo::new().help(Help::Shed));
#[cfg(not(warpweft_loom))]
conformance!(mod fifo_shed_sticky = Fifo::new().help(Help::ShedSticky));
#[cfg(not(warpweft_loom))]
conformance!(mod fifo_tickets = Fifo::new().help(Help::Tickets));
#[cfg(not(warpweft_loom))]
conformance!(mod fifo_last = Fifo::new().woken(Woken::Last));
conformance!(mod lifo = Lifo::new());
conformance!(mod lifo_one = Lifo::new().steal(Amount::One).capacity(4));
conformance!(mod lifo_at_least = Lifo::new().steal(Amount::AtLeast(THREE)).capacity(2));
conformance!(mod lifo_locked = Lifo::new().capacity(2).overflow(Overflow::Locked));
conformance!(mod lifo_local_yield = Lifo::new().yield_to(YieldTo::Local));
#[cfg(not(warpweft_loom))]
conformance!(mod lifo_everything = Lifo::new()
    .capacity(2)
    .overflow(Overflow::Multi(TWO))
    .victims(Victims::Nearest(TWO))
    .help(Help::Tickets)
    .woken(Woken::Last));
#[cfg(not(warpweft_loom))]
conformance!(mod alternate = mixed(Mix::Alternate(TWO)).capacity(2));
#[cfg(not(warpweft_loom))]
conformance!(mod stochastic = mixed(Mix::Stochastic(80)).capacity(2));
#[cfg(not(warpweft_loom))]
conformance!(mod reverse = mixed(Mix::Reverse(THREE)).capacity(2));
#[cfg(not(warpweft_loom))]
conformance!(mod slot = Stealing::with_order(SlotOrder::new(FifoOrder, THREE)).capacity(2));
#[cfg(not(warpweft_loom))]
conformance!(mod slot_locked = Stealing::with_order(SlotOrder::new(FifoOrder, TWO)).capacity(2).overflow(Overflow::Locked));
#[cfg(not(warpweft_loom))]
conformance!(mod priority = Stealing::with_order(PriorityOrder::new(FifoOrder, TWO)).capacity(2));
#[cfg(not(warpweft_loom))]
conformance!(mod nested = Stealing::with_order(PriorityOrder::new(SlotOrder::new(FifoOrder, TWO), TWO)).capacity(2));
