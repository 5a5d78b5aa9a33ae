//! Threads of a pool: their numbers, their CPUs, and workers that are stuck.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

#[cfg(unix)]
#[path = "../support/again.rs"]
mod again;
#[path = "../support/eventually.rs"]
mod eventually;
#[path = "../support/everywhere.rs"]
#[allow(dead_code, reason = "the other binaries need all of it")]
mod everywhere;
#[path = "../support/in_time.rs"]
mod in_time;
#[cfg(unix)]
#[path = "../support/stalls.rs"]
mod stalls;

mod computing;
mod contexts;
mod pinning;
mod pool_threads;
mod resizing;
#[cfg(unix)]
mod stall_reports;
mod stuck;
mod worker_numbers;
