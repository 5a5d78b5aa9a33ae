//! The state word as a report sees it.

use super::{CANCELLED, COMPLETE, HANDLE, QUEUED, RUNNING, State, WAKER, references};
use warpweft_platform::atomic::Ordering;

/// The state at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    pub(crate) queued: bool,
    pub(crate) running: bool,
    pub(crate) complete: bool,
    pub(crate) cancelled: bool,
    /// The waker field is set.
    pub(crate) has_joiner: bool,
    /// The word with the stamp of its last suspension: see `clock::stamped_ns`.
    pub(crate) stamped: u32,
    /// The number of wakers: references that are neither the handle's nor the runnable's.
    pub(crate) wakers: u64,
}

impl State {
    /// Returns the word, for a report.
    pub(crate) fn look_on(&self) -> Snapshot {
        // Ordering: Acquire pairs with `set_waker`, so that the joiner's waker can be read.
        Snapshot::of(self.0.load(Ordering::Acquire))
    }
}

impl Snapshot {
    /// Says what a word means.
    pub(crate) fn of(state: u64) -> Self {
        Self {
            queued: state & QUEUED != 0,
            running: state & RUNNING != 0,
            complete: state & COMPLETE != 0,
            cancelled: state & CANCELLED != 0,
            has_joiner: state & WAKER != 0,
            #[allow(clippy::cast_possible_truncation, reason = "the stamp is in the lower half")]
            stamped: state as u32,
            wakers: references(state)
                .saturating_sub(u64::from(state & HANDLE != 0))
                .saturating_sub(u64::from(state & (QUEUED | RUNNING) != 0)),
        }
    }
}
