//! A frame that is seen by a dump only while what runs on top of it waits.

use warpweft_task::frame::Who;

/// A task, or a part of one, whose frame runs a part of its own join or scope, or of one that it has taken
/// from. It waits for that part.
pub(super) struct Covered {
    pub(super) who: Who,
    /// The address of the latch that the part sets.
    pub(super) latch: usize,
    /// The next older one on the stack, or null.
    pub(super) before: *const Self,
}
