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
    Full {
        /// The name of the pool.
        pool: String,
        /// How many tasks from elsewhere it admits.
        capacity: usize,
    },
    /// The [limit](crate::ConcurrencyLimit) has no free permit.
    AtLimit {
        /// The name of the limit's pool.
        pool: String,
        /// How many tasks it admits at a time.
        limit: usize,
    },
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
            Self::Full { pool, capacity } => {
                write_full(f, pool, *capacity)?;
                f.write_str(": wait for one by `spawn_with_permit`, or spawn fewer")
            }
            Self::AtLimit { pool, limit } => {
                write_at_limit(f, pool, *limit)?;
                f.write_str(": spawn without `try_`, which begins when the limit admits it, or spawn fewer")
            }
        }
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Overloaded(overload) => Some(&**overload),
            Self::Closed | Self::Forked | Self::NoStack | Self::Full { .. } | Self::AtLimit { .. } => None,
        }
    }
}

/// Writes that a bounded pool is full.
pub(super) fn write_full(f: &mut fmt::Formatter<'_>, pool: &str, capacity: usize) -> fmt::Result {
    match capacity {
        1 => write!(f, "the one place of the bounded pool `{pool}` is taken"),
        _ => write!(f, "all {capacity} places of the bounded pool `{pool}` are taken"),
    }
}

/// Writes that a limit has admitted as many as it may.
pub(super) fn write_at_limit(f: &mut fmt::Formatter<'_>, pool: &str, limit: usize) -> fmt::Result {
    write!(
        f,
        "as many tasks run as a limit of {limit} at a time in pool `{pool}` admits"
    )
}
