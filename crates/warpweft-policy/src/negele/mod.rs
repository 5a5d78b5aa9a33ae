//! The scheduler of Negele, Friedrich, Oh and Egger (2014): lock-free queues by priority, round robin within
//! one.
//!
//! ```text
//!   level 0, most urgent  ──▶ [ a b c ]     next: the first level that has a task
//!   level 1, normal       ──▶ [ d e ]
//!   level 2               ──▶ [ ]           poll_global: one level after the other
//!   level 3, idle         ──▶ [ f ]         a worker that pushes here wakes no other
//!
//!   a task's word:  priority : 8 | 0 … | node that travels with it : 32
//! ```
//!
//! [`Negele`] has one set of queues for all workers, as published. [`NegeleLocal`] has one per worker, which
//! its authors name as future work. [`Linked`](warpweft_queue::Linked) has the queues, their nodes and hazard
//! pointers.

mod levels;
mod local;

pub use local::NegeleLocal;

use crate::{Count, Cx, Policy, PolicyError, PoolEnv, Wake};
use levels::{Levels, check};
use std::fmt;
use warpweft_queue::{Nodes, Processor};
use warpweft_task::{TaskRef, Why};

/// How many threads can push from outside at the same time without waiting for each other.
const EXTERNAL_SLOTS: usize = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    4
};

/// One lock-free FIFO queue per priority for all workers. A task always goes to the back of its queue.
///
/// A spawner chooses the priority. Level 0 is the most urgent. The last level is *idle*, for tasks for which
/// no worker needs to be woken. Without a choice a task is [normal](crate::priority::level): level `(levels -
/// 1) / 2`.
///
/// # What is promised
///
/// A ready task with `M` tasks before it in its level is taken within [`Negele::steps`] steps: `levels × 61 ×
/// (M + 1)` of the pool's slowest worker, whatever is more urgent. With polls of `T` at most that takes `T`
/// times as long. In the most urgent level, or with no more urgent tasks, it is `M + 1` steps, and one more
/// for every 61.
///
/// ```
/// use warpweft_policy::{Negele, Policy};
/// let policy = Negele::new().levels(8);
/// assert_eq!(policy.to_string(), "negele:8");
/// assert_eq!(policy.priorities(), 8);
/// ```
#[derive(Debug, Clone)]
pub struct Negele {
    levels: usize,
}

impl Negele {
    /// Makes four levels: urgent, normal, low and idle.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { levels: 4 }
    }

    /// Sets the number of levels, idle included: 2 to 32. Another number is an error when the pool is built.
    #[must_use]
    #[inline]
    pub fn levels(mut self, levels: usize) -> Self {
        self.levels = levels;
        self
    }

    /// Checks that the number of levels is allowed.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        check(self.levels).map(drop)
    }

    /// Returns within how many steps of the slowest worker a task runs that has `ahead` tasks before it in
    /// its level.
    #[must_use]
    #[inline]
    pub fn steps(&self, ahead: usize) -> u64 {
        levels::steps(self.levels, Self::INTERVAL, ahead)
    }
}

impl Default for Negele {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Negele {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("negele")?;
        if self.levels != Self::new().levels {
            write!(f, ":{}", self.levels)?;
        }
        Ok(())
    }
}

/// The shared state of the workers of a [`Negele`] pool.
#[derive(Debug)]
pub struct Shared {
    nodes: Nodes,
    levels: Levels,
}

/// A worker's own half of a [`Negele`] pool.
#[derive(Debug)]
pub struct Local {
    processor: Processor,
    /// The level whose turn it is in `poll_global`.
    turn: usize,
}

impl Policy for Negele {
    type Shared = Shared;
    type Local = Local;

    const WATCHES_COMPLETIONS: bool = true;
    const INHERITS_PRIORITY: bool = true;

    #[inline]
    fn priorities(&self) -> u8 {
        check(self.levels).unwrap_or(0)
    }

    #[inline]
    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        self.check()?;
        let (nodes, processors) = Nodes::new(env.workers, EXTERNAL_SLOTS);
        let levels = Levels::new(&nodes, self.levels);
        let own = |processor| Local { processor, turn: 0 };
        Ok((
            Shared { nodes, levels },
            processors.into_iter().map(own).collect(),
        ))
    }

    #[inline]
    fn push(shared: &Shared, own: Option<&mut Local>, task: TaskRef, _: Why, cx: &Cx<'_>) -> Wake {
        shared.levels.push(own.map(|own| &own.processor), task, cx)
    }

    #[inline]
    fn watches_waits(_: &Self::Shared) -> bool {
        false
    }

    #[inline]
    fn next(shared: &Shared, own: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.levels.pop(&own.processor)
    }

    #[inline]
    fn poll_global(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        own.turn = own.turn.wrapping_add(1);
        let task = shared.levels.pop_by_turns(&own.processor, own.turn);
        cx.count(Count::GlobalPolls, u64::from(task.is_some()));
        task
    }

    #[inline]
    fn search(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Self::next(shared, own, cx)
    }

    #[inline]
    fn scan(shared: &Shared, own: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.levels.scan(&own.processor)
    }

    /// Returns nothing: all ready tasks are in shared queues.
    #[inline]
    fn drain(_: &Shared, _: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        None
    }

    #[inline]
    fn is_only_ready(shared: &Shared, own: &Local) -> bool {
        shared.levels.is_empty(&own.processor)
    }

    #[inline]
    fn completed(shared: &Shared, _: &mut Local, policy_word: u64) {
        shared.nodes.release(levels::carried(policy_word));
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests;
