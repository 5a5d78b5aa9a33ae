//! Code that blocks or waits without awaiting: in a worker, and on the pool for blocking code.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/eventually.rs"]
mod eventually;
#[path = "../support/everywhere.rs"]
mod everywhere;
#[path = "../support/matrix.rs"]
mod matrix;
#[path = "../support/waits.rs"]
mod waits;

mod direct_waits;
mod in_place;
mod nested_waits;
mod spawn_blocking;
mod wait_anywhere;
