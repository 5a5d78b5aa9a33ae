//! Policies: fairness, priorities, and the nodes of queues.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/eventually.rs"]
mod eventually;
#[path = "../support/in_time.rs"]
mod in_time;

mod busy_wakers;
mod deadlines;
mod fairness;
mod fibers_by_class;
mod inheritance;
mod inversion;
mod lending;
mod priorities;
mod queue_nodes;
