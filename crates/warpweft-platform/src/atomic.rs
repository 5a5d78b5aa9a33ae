//! Atomic integers, pointers and fences with the memory model of the present build.

#[cfg(warpweft_loom)]
mod watched;

#[cfg(warpweft_loom)]
pub use loom::sync::atomic::{Ordering, fence};
#[cfg(warpweft_shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(warpweft_sim)]
pub use warpweft_sim::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(warpweft_loom)]
pub use watched::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

/// Reports to the processor, and to a model checker, that the caller spins until another thread proceeds.
///
/// Every retry loop calls it: a checker cannot bound a loop without it.
#[inline]
pub fn spin_loop() {
    #[cfg(warpweft_loom)]
    loom::thread::yield_now();
    #[cfg(warpweft_shuttle)]
    shuttle::hint::spin_loop();
    #[cfg(warpweft_sim)]
    warpweft_sim::spin_loop();
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    std::hint::spin_loop();
}
