//! The only crate of Warpweft that uses `std`, `loom` and `shuttle` for threads and memory.
//!
//! Every atomic, cell, lock, thread and park of the other crates comes from this one, so that the model
//! checkers see all of them. There are four builds of the same source:
//!
//! | build | chosen by | atomics, cells, threads |
//! |---|---|---|
//! | product | nothing | `std`, at no cost |
//! | loom | `--cfg warpweft_loom` | loom: every interleaving and every weak-memory outcome of a small program |
//! | shuttle | `--cfg warpweft_shuttle` | shuttle: seeded random schedules of a whole pool, sequentially consistent |
//! | simulator | `--cfg warpweft_sim` | `warpweft-sim`: a machine of a file, with virtual time and a seed |
//!
//! A further build, `--cfg warpweft_chaos`, is the product with random delays at the [named delay
//! points](delay).
//!
//! # Invariants
//!
//! - No other crate of the library names `std::sync::atomic`, `std::thread`, `std::sync::Mutex`, `loom` or
//!   `shuttle`; `clippy.toml` forbids it.
//! - In the product build everything here is a re-export or an `#[inline]` wrapper.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("Warpweft packs indices and generations into 64-bit words: it runs on 64-bit targets only");

#[cfg(any(
    all(warpweft_loom, warpweft_shuttle),
    all(warpweft_loom, warpweft_sim),
    all(warpweft_shuttle, warpweft_sim)
))]
compile_error!("warpweft_loom, warpweft_shuttle and warpweft_sim exclude each other: choose one");

pub mod affinity;
pub mod atomic;
pub mod barrier;
mod cache_padded;
pub mod cell;
pub mod cgroup;
pub mod clock;
pub mod counter;
pub mod delay;
pub mod hint;
pub mod hook;
pub mod panics;
pub mod park;
pub mod prefetch;
pub mod process;
pub mod random;
pub mod rate;
#[cfg(unix)]
pub mod socket;
pub mod stack_copy;
pub mod sync;
pub mod thread;
pub mod thread_state;
pub mod ticks;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod timer;
mod tls;
pub mod topology;

pub use cache_padded::CachePadded;
pub use tls::LocalCell;

#[cfg(warpweft_loom)]
#[doc(hidden)]
pub use loom;
#[cfg(warpweft_shuttle)]
#[doc(hidden)]
pub use shuttle;
#[cfg(warpweft_sim)]
#[doc(hidden)]
pub use warpweft_sim as sim;
