//! Sockets, files and timers.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[path = "../support/everywhere.rs"]
mod everywhere;
#[cfg(feature = "net")]
#[path = "../support/in_time.rs"]
mod in_time;
#[cfg(feature = "net")]
#[path = "../support/inout.rs"]
mod inout;

mod binding;
#[cfg(feature = "net")]
mod budget;
mod files;
mod folders;
mod retries;
mod socket_errors;
mod socket_names;
mod sockets;
mod timers;
