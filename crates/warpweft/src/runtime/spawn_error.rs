//! The error of spawning a task.

use crate::admission::controller::Overload;
use std::fmt;
use warpweft_task::JoinError;

/// The reason why a task was not spawned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// The pool is shutting down, or has shut down.
    Closed,
    /// This is a child made by `fork()`, and the pool's workers stayed in its parent.
    Forked,
    /// There is no stack for the fiber: the limit is reached, or the system provides no more memory or
    /// mappings.
    NoStack,
    /// The pool is [bounded](crate::Builder::capacity), and has no free permit.
    Full,
    /// The pool has [admission](crate::Builder::admission) by delay, and the task would start too late.
    Overloaded(Box<Overload>),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStack => fmt::Display::fmt(&JoinError::NoStack, f),
            Self::Closed => f.write_str("the pool is shutting down: it takes no more tasks"),
            Self::Forked => f.write_str(
                "the pool's workers stayed in the parent of this forked process: build a runtime here",
            ),
            Self::Overloaded(overload) => fmt::Display::fmt(overload, f),
            Self::Full => f.write_str(
                "all places of the bounded pool, or of the limit, are taken: wait for one, or spawn fewer",
            ),
        }
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Overloaded(overload) => Some(&**overload),
            Self::Closed | Self::Forked | Self::NoStack | Self::Full => None,
        }
    }
}
