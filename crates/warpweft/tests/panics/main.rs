//! What is told of panics, and what ends: for each kind of task, with and without a handle, under each
//! policy.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/eventually.rs"]
mod eventually;
mod kinds;
mod policies;
mod reports;
mod without_hook;
