//! A part of its fork that a frame runs while it waits for the rest.

use crate::fork::stealable::Stealable;
use std::cell::Cell;
use warpweft_task::Runnable;

/// In the frame, for as long as the part runs.
pub(super) struct PartOfFork {
    pub(super) part: *const Stealable,
    /// The runnable of the part's owner, if that has waited for the end of the part.
    pub(super) owner: Cell<Option<Runnable>>,
}
