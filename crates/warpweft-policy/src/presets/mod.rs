//! The schedulers of other runtimes, with their sizes and limits, on Warpweft's queues, idle protocol and
//! tasks.
//!
//! They separate two questions: what a *policy* is worth, and what an *implementation* is worth. So each has
//! the rings, ticks, slots, overflow and placement of its original; none has options. Two things remain the
//! framework's. It decides how many workers search and sleep (at most half of them search, and the last
//! searcher wakes one successor, as in Go and tokio). And it bounds how long a task waits, which not all
//! originals do.
//!
//! | | [`Go`] | [`Tokio`] | [`Libfibre`] |
//! |---|---|---|---|
//! | spawned, woken | run next; what was there to the ring | LIFO slot; what was there to the ring | spawned: own queue; woken: where it last ran |
//! | yielded | global queue | ring's back | own queue |
//! | ring | 256; half overflows to the global queue | 256; half overflows to the injector | unbounded |
//! | slot | stealable in the last of four rounds | private, three times in a row | none |
//! | global queue | every 61st step | every 2 to 127 steps, tuned to 200 µs | none; pushes from outside go to a random worker |
//! | steals | half, four times round | half, once round | one, from a random worker |

mod go;
mod libfibre;
mod ring;
mod tokio;

pub use go::Go;
pub use libfibre::Libfibre;
pub use tokio::Tokio;

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests;
