//! Deadlines of tasks, for policies that order by them. Those that end work are in `cancel/deadline.rs`.

use super::handle::Runtime;
use super::pool::Pool;
use super::priority::Rank;
use std::fmt;
use std::time::Instant;
use warpweft_platform::clock::now_ns;
use warpweft_policy::deadline;

/// A deadline of one runtime's tasks, made by [`Runtime::deadline`] and given to spawns by
/// [`TaskBuilder::deadline`](crate::TaskBuilder::deadline).
///
/// It orders the task. It does not end it: [`timeout`](crate::time::timeout) does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deadline(Rank);

impl Deadline {
    pub(crate) fn rank(self) -> Rank {
        self.0
    }
}

/// The runtime's policy does not use deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoDeadlines;

impl fmt::Display for NoDeadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a deadline on a runtime without deadlines: its policy has none, `edf` has")
    }
}

impl std::error::Error for NoDeadlines {}

impl Runtime {
    /// Returns a deadline for this runtime's tasks. The policy `edf` runs the task with the earliest one
    /// first. Its children have none, unless each is given one. It is not lent to what the task waits for.
    ///
    /// A moment in the past stands for the present one. So tasks that are late go in the order in which they
    /// became ready.
    ///
    /// # Errors
    ///
    /// [`NoDeadlines`] if the policy does not use deadlines.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use warpweft::{Runtime, TaskBuilder, policy::Edf};
    /// let runtime = Runtime::builder().workers(1).policy(Edf::new()).build()?;
    /// let soon = runtime.deadline(Instant::now() + Duration::from_millis(5))?;
    /// let task = TaskBuilder::new().on(&runtime).deadline(soon).spawn_job(|| 6 * 7);
    /// assert_eq!(task.wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self, at: Instant) -> Result<Deadline, NoDeadlines> {
        self.first().deadline(at)
    }
}

impl Pool {
    /// Returns a deadline for this pool's tasks: see [`Runtime::deadline`]. Reads the clock twice.
    ///
    /// # Errors
    ///
    /// [`NoDeadlines`] if the policy does not use deadlines.
    pub fn deadline(&self, at: Instant) -> Result<Deadline, NoDeadlines> {
        if !self.any().core().info.deadlines {
            return Err(NoDeadlines);
        }
        let left = at.saturating_duration_since(Instant::now()).as_nanos();
        let at_ns = now_ns().saturating_add(u64::try_from(left).unwrap_or(u64::MAX));
        Ok(Deadline(Rank::new(self.header(), deadline::word(at_ns))))
    }
}
