//! Tasks through the public API.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "outside the checkers the system's own threads and locks are what is tested against"
)]

#[path = "../support/eventually.rs"]
mod eventually;

mod spawn_methods;
mod spawning;
