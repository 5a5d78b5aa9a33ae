//! Channels, locks, permits and events.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/everywhere.rs"]
mod everywhere;
#[path = "../support/in_time.rs"]
mod in_time;
#[path = "../support/polls.rs"]
mod polls;

mod channels;
mod locks;
