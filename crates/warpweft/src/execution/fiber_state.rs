//! The state of a fiber, in a word that a report may read.

use warpweft_platform::clock::{stamp, stamped_ns};

/// Says whether a wait must reach its end, because another thread works on the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MustWait {
    Yes,
    No,
}

/// The state of a fiber: one of the constants, whether the wait must reach its end, and the stamp of its
/// begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FiberState(pub(super) u32);

impl FiberState {
    pub(super) const RUNS: Self = Self(0);
    /// It waits until its key of this turn is entered.
    pub(super) const WAITS: u32 = 1;
    /// It waits until its waker is notified.
    pub(super) const LISTENS: u32 = 2;
    /// It is in its thread's line of ready fibers.
    pub(super) const READY: u32 = 3;
    pub(super) const MUST_WAIT: u32 = 4;
    const KIND: u32 = 3;

    #[inline]
    pub(super) const fn of(state: u32, must_wait: MustWait) -> Self {
        match must_wait {
            MustWait::Yes => Self(state | Self::MUST_WAIT),
            MustWait::No => Self(state),
        }
    }

    #[inline]
    pub(super) const fn is(self, state: u32) -> bool {
        self.0 & Self::KIND == state
    }

    /// This state, from now on.
    #[inline]
    pub(super) fn stamped(self) -> Self {
        Self(self.0 | stamp())
    }

    /// Returns the end of the quarter of a second in which it began, if that was noted.
    pub(super) fn since_ns(self, now: u64) -> Option<u64> {
        stamped_ns(self.0, now)
    }
}
