//! The flight recorder, its trace files, and the metrics.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod beside_tasks;
mod events;
#[path = "../support/eventually.rs"]
mod eventually;
mod metrics;
mod on_stall;
mod perfetto;
