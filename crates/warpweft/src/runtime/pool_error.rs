//! The errors of entering a pool, and of finding one.

use super::spawn_error::{SpawnError, write_at_limit, write_full};
use crate::admission::controller::Overload;
use std::fmt;

/// The reason why a task or a closure did not enter a pool. It continues where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnterError {
    /// The pool is shutting down, or has shut down.
    Closed,
    /// This is a child made by `fork()`, and the pool's workers stayed in its parent.
    Forked,
    /// There is no stack for the fiber: see [`SpawnError::NoStack`](crate::SpawnError::NoStack).
    NoStack,
    /// The pool has [admission](crate::Builder::admission) by delay, and the task would start too late.
    Overloaded(Box<Overload>),
    /// The limit had no free permit within the time.
    AtLimit {
        /// The name of the limit's pool.
        pool: String,
        /// How many tasks it admits at a time.
        limit: usize,
    },
    /// The pool is [bounded](crate::Builder::capacity), and had no free permit, now or within the time.
    Full {
        /// The name of the pool.
        pool: String,
        /// How many tasks from elsewhere it admits.
        capacity: usize,
    },
    /// The caller has a permit of this pool already, or is a part of a task that has one. If all tasks with
    /// permits waited for another one, they would wait for ever. A task without a permit may wait.
    OwnPool {
        /// The pool.
        pool: String,
    },
    /// Both pools are bounded, and the other one is not behind the one whose permit the caller has. If all
    /// tasks did so, they could wait for each other for ever.
    OutOfOrder {
        /// The pool where the caller is.
        from: String,
        /// The pool that it wanted to enter.
        to: String,
    },
    /// The future is not awaited by a task of a pool, or it is polled with another waker: by `block_on`, or
    /// by a set of futures. Then there is no task that could move.
    NotATask,
}

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => SpawnError::Closed.fmt(f),
            Self::Forked => SpawnError::Forked.fmt(f),
            Self::NoStack => SpawnError::NoStack.fmt(f),
            Self::Overloaded(overload) => overload.fmt(f),
            Self::AtLimit { pool, limit } => {
                write_at_limit(f, pool, *limit)?;
                f.write_str(": come back later, or wait for it without a limit of time")
            }
            Self::Full { pool, capacity } => {
                write_full(f, pool, *capacity)?;
                f.write_str(
                    ": come back later, or wait for one without a limit, by `enter` or `spawn_with_permit`",
                )
            }
            Self::OwnPool { pool } => write!(
                f,
                "a task that has a place in the bounded pool `{pool}`, or a part of it, cannot wait for another place there: it could wait \
                 for itself for ever; `spawn` needs no place, and `try_spawn` does not wait for one"
            ),
            Self::OutOfOrder { from, to } => write!(
                f,
                "a task that has a place in the bounded pool `{from}` cannot wait for a place in the bounded pool `{to}`, which is not behind it in one \
                 runtime: they could wait for each other for ever; ask for the pools in the order in which they are entered, or `try_enter`"
            ),
            Self::NotATask => f.write_str(
                "only a task of a pool can enter another one, and has to await that itself, not by way of `block_on` or a set of futures: \
                 use `Pool::run` there",
            ),
        }
    }
}

impl std::error::Error for EnterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Overloaded(overload) => Some(&**overload),
            _ => None,
        }
    }
}

impl EnterError {
    /// Converts the error of a task that should run in the pool.
    pub(crate) fn of(error: SpawnError) -> Self {
        match error {
            SpawnError::Forked => Self::Forked,
            SpawnError::Full { pool, capacity } => Self::Full { pool, capacity },
            SpawnError::AtLimit { pool, limit } => Self::AtLimit { pool, limit },
            SpawnError::Overloaded(overload) => Self::Overloaded(overload),
            SpawnError::NoStack => Self::NoStack,
            SpawnError::Closed => Self::Closed,
        }
    }
}

/// A runtime has no pool, or no silos, of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPool {
    asked: String,
    known: Vec<String>,
}

impl UnknownPool {
    pub(crate) fn new<'a>(asked: &str, known: impl Iterator<Item = &'a str>) -> Self {
        Self {
            asked: asked.to_owned(),
            known: known.map(str::to_owned).collect(),
        }
    }

    /// Returns the names that the runtime has.
    #[must_use]
    pub fn known(&self) -> &[String] {
        &self.known
    }
}

impl fmt::Display for UnknownPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the runtime has nothing called `{}`; it has ", self.asked)?;
        if self.known.is_empty() {
            return f.write_str("none");
        }
        for (index, name) in self.known.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}`{name}`")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPool {}

/// The error of a concurrency limit of 0 tasks or jobs at a time, in which none would ever run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConcurrencyLimitError;

impl fmt::Display for ConcurrencyLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a limit of 0 tasks or jobs at a time: none would ever run; it has to be at least 1")
    }
}

impl std::error::Error for ConcurrencyLimitError {}
