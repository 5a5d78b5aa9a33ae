//! The checks that need no model checker.

mod bench;
mod cancellation;
mod events;
mod extract;
mod panics;
mod resting;
mod scan;
mod shares;
mod spread;
mod starvation;
mod threads;
mod transfers;
mod urgency;

pub use cancellation::evictions_are_honest;
pub use events::nothing_lost;
pub use extract::extracts_are_honest;
pub use panics::panics_end_cleanly;
pub use resting::rest_leaves_nothing;
pub use scan::{scan_is_exhaustive, wakes_are_honest};
pub use shares::shares_are_kept;
pub use starvation::{MOST_STEPS, TURNS, nothing_starves, steps};
pub use threads::nothing_lost_with_threads;
pub use transfers::nothing_lost_in_transfers;
pub use urgency::{urgent_comes_first, urgent_steps};
