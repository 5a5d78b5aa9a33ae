//! Policies: fairness, priorities, and the nodes of queues.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod busy_wakers;
mod fairness;
mod priorities;
mod queue_nodes;
