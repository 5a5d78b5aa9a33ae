//! The policies of `warpweft-policy` that differ in structure, with small queues, and the tests of this build
//! for each. Under loom a policy is tried with two preemptions in a schedule, and an option that adds a place
//! to it with one; `cargo xtask deep` tries all with five.

use std::num::NonZeroUsize;
use warpweft_conformance::conformance;
use warpweft_policy::{
    Cforall, Chained, Edf, Fifo, FifoBehind, Go, Help, Helping, Libfibre, Lifo, LifoBehind, LifoOrder,
    Negele, Overflow, Parsimonious, ProWs, Rebalance, Shortest, Tokio, YieldTo,
};
use warpweft_queue::Amount;

const THREE: NonZeroUsize = NonZeroUsize::new(3).unwrap();

conformance!(mod fifo = Fifo::new());
conformance!(mod fifo_one = Fifo::new().steal(Amount::One).capacity(4));
conformance!(mod fifo_at_least = Fifo::new().steal(Amount::AtLeast(THREE)).capacity(2));
conformance!(mod fifo_locked = Fifo::new().capacity(2).overflow(Overflow::Locked));
conformance!(brief mod fifo_global_yield = Fifo::new().yield_to(YieldTo::Global));
conformance!(brief mod fifo_shed = Fifo::new().help(Help::Shed));
conformance!(brief mod fifo_level = Fifo::new().rebalance(Rebalance::Every(NonZeroUsize::MIN)).capacity(2));
conformance!(mod chain = Chained::new().capacity(1));
conformance!(mod chain_one = Chained::new().capacity(1).steal(Amount::One));
conformance!(mod fifo_behind = FifoBehind::new().capacity(2));
conformance!(brief mod fifo_behind_locked = FifoBehind::new().capacity(2).overflow(Overflow::Locked));
conformance!(mod shortest = Shortest::new().capacity(2));
conformance!(mod lifo = Lifo::new());
conformance!(brief mod lifo_behind = LifoBehind::new().capacity(2));
conformance!(mod lifo_one = Lifo::new().steal(Amount::One).capacity(4));
conformance!(brief mod lifo_at_least = Lifo::new().steal(Amount::AtLeast(THREE)).capacity(2));
conformance!(mod lifo_locked = Lifo::new().capacity(2).overflow(Overflow::Locked));
conformance!(brief mod lifo_local_yield = Lifo::new().yield_to(YieldTo::Local));
conformance!(mod prows = ProWs::new());
conformance!(brief mod prows_small = ProWs::new().capacity(2));
conformance!(mod parsimonious = Parsimonious::new());
conformance!(mod parsimonious_small = Parsimonious::new().capacity(2));
conformance!(mod negele = Negele::new().levels(2));
conformance!(brief mod negele_four = Negele::new());
conformance!(mod cforall = Cforall::new().capacity(2));
conformance!(mod helped_lifo = Helping::<LifoOrder>::new().lanes(1).capacity(2));
conformance!(mod edf = Edf::new());
conformance!(mod go = Go);
conformance!(mod tokio = Tokio);
conformance!(mod libfibre = Libfibre);
