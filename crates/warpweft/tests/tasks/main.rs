//! Tasks through the public API.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/eventually.rs"]
mod eventually;

mod spawn_methods;
mod spawning;
