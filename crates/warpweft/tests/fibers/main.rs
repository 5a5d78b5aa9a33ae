//! Fibers: their waits, their turns, fibers on the same worker, and the fast paths.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/eventually.rs"]
mod eventually;
#[path = "../support/everywhere.rs"]
mod everywhere;

mod fast_paths;
mod in_turn;
mod local_futures;
mod spawn_here;
mod waiting;
