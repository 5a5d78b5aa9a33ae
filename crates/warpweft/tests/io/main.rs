//! Sockets, files and timers.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/everywhere.rs"]
mod everywhere;
#[path = "../support/inout.rs"]
mod inout;

mod files;
mod socket_names;
mod sockets;
mod timers;
