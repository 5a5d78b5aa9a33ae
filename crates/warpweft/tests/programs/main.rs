//! Programs that are started and waited for.
#![cfg(all(unix, feature = "process", not(any(warpweft_loom, warpweft_shuttle))))]

#[path = "../support/eventually.rs"]
mod eventually;
#[path = "../support/everywhere.rs"]
mod everywhere;
#[path = "../support/in_time.rs"]
mod in_time;

mod ends;
mod pipes;
#[cfg(target_os = "linux")]
mod quiet;
mod stdio;
