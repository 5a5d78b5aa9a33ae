//! Tasks that fork the process.
#![cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]

#[path = "../support/children.rs"]
mod children;

mod busy_parent;
mod drops;
mod in_callbacks;
mod in_child;
mod in_tasks;
mod input;
#[cfg(feature = "process")]
mod programs;

use warpweft::Runtime;

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("workers")
}
