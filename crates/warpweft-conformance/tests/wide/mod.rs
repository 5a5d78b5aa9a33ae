//! Policies with more places. Under loom most of them are tried with one preemption in a schedule, because
//! two take minutes; their parts have separate models.

use std::num::NonZeroUsize;
use warpweft_conformance::conformance;
use warpweft_policy::order::{
    AnyOrder, ChainOrder, FifoOrder, LifoOrder, Mix, MixedOrder, Order, PriorityOrder, SlotOrder,
};
use warpweft_policy::{
    Fifo, Help, Helping, Lifo, Mixed, NegeleLocal, Overflow, StealAmount, Stealing, Victims, Woken, YieldTo,
};

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
const THREE: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Newest first mostly.
fn mixed(mix: Mix) -> Mixed {
    Stealing::with_order(MixedOrder::new(mix).expect("a possible order"))
}

/// This number of levels of this order.
fn levels<O: Order>(order: O, levels: usize) -> Stealing<PriorityOrder<O>> {
    let levels = NonZeroUsize::new(levels).expect("some levels");
    Stealing::with_order(PriorityOrder::new(order, levels))
}

/// Levels with these shares of this order.
fn shares(order: impl Into<AnyOrder>, shares: &[u8]) -> Stealing<PriorityOrder<AnyOrder>> {
    Stealing::with_order(PriorityOrder::with_shares(order.into(), shares).expect("possible shares"))
}

conformance!(brief mod fifo_retry = Fifo::new().capacity(2).overflow(Overflow::Retry(TWO)));
conformance!(brief mod fifo_lockfree = Fifo::new().capacity(2).overflow(Overflow::LockFree));
conformance!(brief mod fifo_multi = Fifo::new().capacity(2).overflow(Overflow::Multi(THREE)));
conformance!(brief mod fifo_nearest = Fifo::new().victims(Victims::Nearest(TWO)));
conformance!(brief mod fifo_topology = Fifo::new().victims(Victims::Topology));
conformance!(brief mod fifo_shed_sticky = Fifo::new().help(Help::ShedSticky));
conformance!(brief mod fifo_tickets = Fifo::new().help(Help::Tickets));
conformance!(brief mod fifo_last = Fifo::new().woken(Woken::Last));
conformance!(brief mod lifo_everything = Lifo::new()
    .capacity(2)
    .overflow(Overflow::Multi(TWO))
    .victims(Victims::Nearest(TWO))
    .help(Help::Tickets)
    .woken(Woken::Last));
conformance!(mod alternate = mixed(Mix::Alternate(TWO)).capacity(2));
conformance!(brief mod stochastic = mixed(Mix::Stochastic(80)).capacity(2));
conformance!(brief mod reverse = mixed(Mix::Reverse(THREE)).capacity(2));
conformance!(brief mod adaptive = mixed(Mix::Adaptive(TWO)).steal(StealAmount::Adaptive).victims(Victims::Adaptive).capacity(2));
conformance!(brief mod adaptive_local = mixed(Mix::Adaptive(TWO)).yield_to(YieldTo::Local).woken(Woken::Last));
conformance!(mod slot = Stealing::with_order(SlotOrder::new(FifoOrder, THREE)).capacity(2));
conformance!(brief mod slot_locked = Stealing::with_order(SlotOrder::new(FifoOrder, TWO)).capacity(2).overflow(Overflow::Locked));
conformance!(mod priority = Stealing::with_order(PriorityOrder::new(FifoOrder, TWO)).capacity(2));
conformance!(brief mod nested = Stealing::with_order(PriorityOrder::new(SlotOrder::new(FifoOrder, TWO), TWO)).capacity(2));
conformance!(brief mod priority_four = levels(FifoOrder, 4).capacity(2).overflow(Overflow::Locked));
conformance!(brief mod priority_everything = levels(FifoOrder, 3)
    .capacity(2)
    .overflow(Overflow::Multi(TWO))
    .yield_to(YieldTo::Global)
    .help(Help::Tickets)
    .woken(Woken::Last));
conformance!(brief mod priority_lockfree = levels(LifoOrder, 2).capacity(2).overflow(Overflow::LockFree));
conformance!(brief mod priority_chain = levels(ChainOrder, 3).capacity(1));
conformance!(brief mod any_fifo = levels(AnyOrder::from(FifoOrder), 3).capacity(2).overflow(Overflow::Locked));
conformance!(brief mod any_lifo = levels(AnyOrder::from(LifoOrder), 2).capacity(2).yield_to(YieldTo::Local));
conformance!(brief mod any_mixed = levels(AnyOrder::from(MixedOrder::new(Mix::Alternate(TWO)).expect("possible")), 2).capacity(2));
conformance!(brief mod any_slot = levels(AnyOrder::from(SlotOrder::new(FifoOrder, TWO)), 2).capacity(2).woken(Woken::Last));
conformance!(brief mod shares_of_the_last = shares(ChainOrder, &[0, 0, 10]).capacity(2));
conformance!(brief mod shares_of_all = shares(LifoOrder, &[50, 30, 20]).capacity(2).overflow(Overflow::Locked));
conformance!(brief mod shares_upside_down = shares(SlotOrder::new(FifoOrder, TWO), &[10, 80]).capacity(2).woken(Woken::Last));
conformance!(brief mod shares_of_fifo = Stealing::with_order(PriorityOrder::with_shares(FifoOrder, &[0, 25]).expect("possible")).capacity(2));
conformance!(brief mod slot_before_levels = Stealing::with_order(SlotOrder::new(PriorityOrder::new(FifoOrder, TWO), TWO)).capacity(2));
conformance!(brief mod helped_levels = Helping::around(PriorityOrder::new(FifoOrder, TWO)).capacity(2));
conformance!(brief mod negele_local_four = NegeleLocal::new());
conformance!(brief mod negele_local = NegeleLocal::new().levels(2).balance(2));
