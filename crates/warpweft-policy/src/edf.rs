//! Earliest deadline first (Liu and Layland 1973).
//!
//! ```text
//!   push ──▶ [ heap of all workers, ordered by deadline, then by age ] ──▶ next, scan
//! ```
//!
//! If any order meets all deadlines on one worker, so does this one. If none can, it may miss many: what is
//! late goes first.
//!
//! # Invariant
//!
//! The key of a task is not before the moment in which it was pushed. So what is pushed after the key of a
//! waiting task comes behind it, and no task waits for ever.

use crate::{Cx, Policy, PolicyError, PoolEnv, Wake, deadline};
use std::fmt;
use std::time::Duration;
use warpweft_queue::Sorted;
use warpweft_task::{QueueViewer, TaskRef, Why};

/// The slack of tasks without a deadline.
const SLACK: Duration = Duration::from_millis(100);
/// The most slack, in milliseconds: an hour.
const MOST_SLACK: u64 = 3_600_000;

/// Each cancellation pays for a look at this number of tasks.
const WORTH: u64 = 8;

/// The task with the earliest deadline is next. All workers take from one heap under a lock, so it is for
/// tasks of some microseconds at least.
///
/// A task without a deadline counts as one with a deadline some *slack* after it became ready: 100 ms. A task
/// that waits keeps its deadline.
///
/// A deadline that is over counts as the moment in which the task became ready. So tasks that are late go in
/// that order, before those that are not, and none waits for ever.
///
/// A deadline is that of one task. The tasks that it spawns have none, and it is not lent: what owns a lock,
/// or is awaited by a handle, does not go earlier because a task with an early deadline waits for it.
///
/// ```
/// use std::time::Duration;
/// use warpweft_policy::{Edf, PolicySpec};
/// let policy = Edf::new().slack(Duration::from_millis(20));
/// assert_eq!(policy.to_string(), "edf+slack=20");
/// # #[cfg(feature = "all-policies")]
/// assert_eq!("edf".parse::<PolicySpec>()?.to_string(), Edf::new().to_string());
/// # Ok::<(), warpweft_policy::ParsePolicyError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Edf {
    slack: Duration,
}

impl Edf {
    /// Makes the policy with the usual slack.
    #[must_use]
    pub fn new() -> Self {
        Self { slack: SLACK }
    }

    /// Sets the slack of tasks without a deadline: 1 ms to an hour, in whole milliseconds.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// Checks that the slack is possible.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let slack = self.slack.as_millis();
        if (1..=u128::from(MOST_SLACK)).contains(&slack) {
            return Ok(());
        }
        Err(PolicyError::Other(format!(
            "a slack of {slack} ms: it is 1 to {MOST_SLACK} ms"
        )))
    }
}

impl Default for Edf {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Edf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("edf")?;
        if self.slack == SLACK {
            Ok(())
        } else {
            write!(f, "+slack={}", self.slack.as_millis())
        }
    }
}

/// The tasks of a pool.
pub struct Shared {
    slack_ns: u64,
    ready: Sorted<TaskRef>,
}

impl Policy for Edf {
    type Shared = Shared;
    /// How many tasks had been cancelled when the worker looked for them last.
    type Local = u64;

    fn uses_deadlines(&self) -> bool {
        true
    }

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<u64>), PolicyError> {
        self.check()?;
        let shared = Shared {
            slack_ns: self.slack.as_nanos() as u64,
            ready: Sorted::new(),
        };
        Ok((shared, vec![0; env.workers]))
    }

    fn push(shared: &Shared, _: Option<&mut u64>, task: TaskRef, _: Why, cx: &Cx<'_>) -> Wake {
        let now = cx.now_ns();
        let key = match deadline::of(task.policy_word()) {
            Some(at_ns) => at_ns.max(now),
            None => now.saturating_add(shared.slack_ns),
        };
        shared.ready.push(key, task);
        Wake::Any
    }

    fn next(shared: &Shared, _: &mut u64, _: &Cx<'_>) -> Option<TaskRef> {
        shared.ready.pop()
    }

    fn scan(shared: &Shared, _: &mut u64, _: &Cx<'_>) -> Option<TaskRef> {
        shared.ready.pop()
    }

    /// A worker has no own tasks.
    fn drain(_: &Shared, _: &mut u64, _: &Cx<'_>) -> Option<TaskRef> {
        None
    }

    fn watches_waits(_: &Shared) -> bool {
        false
    }

    fn is_only_ready(shared: &Shared, _: &u64) -> bool {
        shared.ready.is_empty()
    }

    fn queued_shared(shared: &Shared) -> Option<usize> {
        Some(shared.ready.len())
    }

    fn show_queued(shared: &Shared, viewer: &mut QueueViewer) {
        shared.ready.for_each(viewer.room(), |task| viewer.see(task));
    }

    fn evict(shared: &Shared, evicted_at: &mut u64, cancellations: u64, _: &Cx<'_>) -> Vec<TaskRef> {
        let new = cancellations.wrapping_sub(*evicted_at);
        let mut cancelled = Vec::new();
        if new.saturating_mul(WORTH) >= shared.ready.len() as u64 {
            *evicted_at = cancellations;
            shared.ready.extract(&mut cancelled, TaskRef::is_cancelled);
        }
        cancelled
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;
    use crate::{Clock, Counters};
    use std::cell::Cell;
    use warpweft_task::test_tasks::{self, TestTasks, number};

    /// Pushes tasks with these deadlines, and returns the order in which they come out.
    fn order(deadlines: &[Option<u64>], now: u64) -> Vec<usize> {
        let (shared, _) = Edf::new().build(&PoolEnv::new(1)).expect("it is possible");
        let (tasks, counters, now) = (
            TestTasks::new(deadlines.len()),
            Counters::default(),
            Cell::new(now),
        );
        let cx = Cx::from_outside(1, &counters, Clock::Virtual(&now));
        for (index, deadline) in deadlines.iter().enumerate() {
            let mut task = tasks.task(index);
            task.set_policy_word(deadline.map_or(0, deadline::word));
            let _ = Edf::push(&shared, None, task, Why::Injected, &cx);
            now.set(now.get() + 1);
        }
        let taken = std::iter::from_fn(|| Edf::next(&shared, &mut 0, &cx));
        taken
            .map(|task| {
                let number = number(&task).expect("a task of the test");
                test_tasks::run(task);
                number
            })
            .collect()
    }

    #[test]
    fn the_earliest_deadline_goes_first_and_then_the_oldest() {
        let ms = |ms: u64| Some(1_000_000 * ms);
        assert_eq!(order(&[ms(30), ms(10), ms(20), ms(10)], 0), [1, 3, 2, 0]);
        // Without a deadline it is 100 ms.
        assert_eq!(order(&[None, ms(101), ms(99), None], 0), [2, 0, 3, 1]);
    }

    #[test]
    fn what_is_late_does_not_go_before_what_was_late_already() {
        assert_eq!(order(&[Some(400), Some(100), Some(300)], 1_000), [0, 1, 2]);
    }

    #[test]
    fn an_impossible_slack_is_an_error() {
        let error = Edf::new().slack(Duration::ZERO).build(&PoolEnv::new(1)).map(drop);
        assert_eq!(
            error.expect_err("no slack").to_string(),
            "a slack of 0 ms: it is 1 to 3600000 ms"
        );
    }
}
