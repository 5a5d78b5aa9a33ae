//! The policies of `warpweft-policy` that differ in structure, with small queues, and the tests of this build for each.

use std::num::NonZeroUsize;
use warpweft_conformance::conformance;
use warpweft_policy::order::{FifoOrder, Mix, MixedOrder, PriorityOrder, SlotOrder};
use warpweft_policy::{
    Cforall, Fifo, Go, Help, Helping, Libfibre, Lifo, LifoOrder, Mixed, Negele, Overflow, Parsimonious,
    ProWs, Stealing, Tokio, Victims, Woken, YieldTo,
};
use warpweft_queue::Amount;

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
const THREE: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Newest first mostly.
fn mixed(mix: Mix) -> Mixed {
    Stealing::with_order(MixedOrder::new(mix).expect("a possible order"))
}

conformance!(mod fifo = Fifo::new());
conformance!(mod fifo_one = Fifo::new().steal(Amount::One).capacity(4));
conformance!(mod fifo_at_least = Fifo::new().steal(Amount::AtLeast(THREE)).capacity(2));
conformance!(mod fifo_locked = Fifo::new().capacity(2).overflow(Overflow::Locked));
conformance!(mod fifo_retry = Fifo::new().capacity(2).overflow(Overflow::Retry(TWO)));
conformance!(mod fifo_lockfree = Fifo::new().capacity(2).overflow(Overflow::LockFree));
conformance!(mod fifo_multi = Fifo::new().capacity(2).overflow(Overflow::Multi(THREE)));
conformance!(mod fifo_global_yield = Fifo::new().yield_to(YieldTo::Global));
conformance!(mod fifo_nearest = Fifo::new().victims(Victims::Nearest(TWO)));
conformance!(mod fifo_topology = Fifo::new().victims(Victims::Topology));
conformance!(mod fifo_shed = Fifo::new().help(Help::Shed));
conformance!(mod fifo_shed_sticky = Fifo::new().help(Help::ShedSticky));
conformance!(mod fifo_tickets = Fifo::new().help(Help::Tickets));
conformance!(mod fifo_last = Fifo::new().woken(Woken::Last));
conformance!(mod lifo = Lifo::new());
conformance!(mod lifo_one = Lifo::new().steal(Amount::One).capacity(4));
conformance!(mod lifo_at_least = Lifo::new().steal(Amount::AtLeast(THREE)).capacity(2));
conformance!(mod lifo_locked = Lifo::new().capacity(2).overflow(Overflow::Locked));
conformance!(mod lifo_local_yield = Lifo::new().yield_to(YieldTo::Local));
conformance!(mod lifo_everything = Lifo::new()
    .capacity(2)
    .overflow(Overflow::Multi(TWO))
    .victims(Victims::Nearest(TWO))
    .help(Help::Tickets)
    .woken(Woken::Last));
conformance!(mod alternate = mixed(Mix::Alternate(TWO)).capacity(2));
conformance!(mod stochastic = mixed(Mix::Stochastic(80)).capacity(2));
conformance!(mod reverse = mixed(Mix::Reverse(THREE)).capacity(2));
conformance!(mod slot = Stealing::with_order(SlotOrder::new(FifoOrder, THREE)).capacity(2));
conformance!(mod slot_locked = Stealing::with_order(SlotOrder::new(FifoOrder, TWO)).capacity(2).overflow(Overflow::Locked));
conformance!(mod priority = Stealing::with_order(PriorityOrder::new(FifoOrder, TWO)).capacity(2));
conformance!(mod nested = Stealing::with_order(PriorityOrder::new(SlotOrder::new(FifoOrder, TWO), TWO)).capacity(2));
conformance!(mod prows = ProWs::new());
conformance!(mod prows_small = ProWs::new().capacity(2));
conformance!(mod parsimonious = Parsimonious::new());
conformance!(mod parsimonious_small = Parsimonious::new().capacity(2));
conformance!(mod negele = Negele::new().levels(2));
// Its many queues take loom minutes; the queue itself has models of its own.
#[cfg(not(warpweft_loom))]
conformance!(mod negele_local = warpweft_policy::NegeleLocal::new().levels(2).balance(2));
conformance!(mod cforall = Cforall::new().capacity(2));
conformance!(mod helped_lifo = Helping::<LifoOrder>::new().lanes(1).capacity(2));
conformance!(mod go = Go);
conformance!(mod tokio = Tokio);
conformance!(mod libfibre = Libfibre);
