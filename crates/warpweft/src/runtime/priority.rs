//! Priorities of tasks, for policies that have them.

use super::handle::Runtime;
use super::pool::Pool;
use std::fmt;
use std::ptr::NonNull;
use warpweft_policy::priority;
use warpweft_task::Runnable;
use warpweft_task::pool::PoolHeader;

/// A priority of one pool's tasks, made by [`Runtime::priority`] and given to spawns by
/// [`TaskBuilder::priority`](crate::TaskBuilder::priority).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Priority {
    rank: Rank,
    level: u8,
}

/// What the policy of one pool is to know of a task from its spawner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rank {
    /// The address of the pool; never dereferenced.
    pool: usize,
    /// The task's first policy word.
    word: u64,
}

impl Rank {
    pub(crate) fn new(pool: NonNull<PoolHeader>, word: u64) -> Self {
        let pool = pool.addr().get();
        Self { pool, word }
    }

    /// Returns the priority of a task of that pool that is given this, if it is one.
    pub(super) fn priority_in(self, pool: NonNull<PoolHeader>) -> Option<u8> {
        (pool.addr().get() == self.pool)
            .then(|| priority::of(self.word))
            .flatten()
    }

    /// Reports it to the policy, if the task is of the pool for which it was made.
    pub(crate) fn set(self, task: &mut Runnable, pool: NonNull<PoolHeader>) {
        if pool.addr().get() == self.pool {
            task.set_policy_word(self.word);
        }
    }
}

impl Priority {
    /// Returns the level; 0 is the most urgent.
    #[must_use]
    pub fn level(self) -> u8 {
        self.level
    }

    pub(crate) fn rank(self) -> Rank {
        self.rank
    }
}

/// A priority that the runtime's policy does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PriorityError {
    /// The level that was requested.
    pub asked: u8,
    /// The number of priorities; 0 if the policy has none.
    pub priorities: u8,
}

impl fmt::Display for PriorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, priorities } = *self;
        match priorities {
            0 => write!(
                f,
                "priority {asked} on a runtime without priorities: its policy has none, `priority:N` and `negele` have"
            ),
            _ => write!(
                f,
                "priority {asked} of {priorities}: there are 0, the most urgent, to {}",
                priorities - 1
            ),
        }
    }
}

impl std::error::Error for PriorityError {}

impl Runtime {
    /// Returns a priority for this runtime's tasks; 0 is the most urgent. The policy defines how many there
    /// are: `priority:N`, `negele`, or your own policy ([`Policy::priorities`](crate::Policy::priorities)).
    /// Tasks without a priority are in the middle. A task that is spawned by a task of the same pool has that
    /// task's priority, unless it is given another one.
    ///
    /// # Errors
    ///
    /// [`PriorityError`] if the policy does not have that many, or none at all.
    ///
    /// ```
    /// use warpweft::{PolicySpec, Runtime, TaskBuilder, policy::Negele};
    /// let runtime = Runtime::builder().workers(1).policy(Negele::new()).build()?;
    /// let urgent = runtime.priority(0)?;
    /// let task = TaskBuilder::new().on(&runtime).priority(urgent).spawn_job(|| 6 * 7);
    /// assert_eq!(task.wait().ok(), Some(42));
    /// assert!(runtime.priority(4).is_err());
    ///
    /// let runtime = Runtime::builder().workers(1).policy_spec("priority:3".parse::<PolicySpec>()?).build()?;
    /// let later = runtime.priority(2)?;
    /// let task = TaskBuilder::new().on(&runtime).priority(later).spawn(async { "not urgent" });
    /// assert_eq!(task.wait().ok(), Some("not urgent"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn priority(&self, level: u8) -> Result<Priority, PriorityError> {
        self.first().priority(level)
    }
}

impl Pool {
    /// Returns a priority for this pool's tasks; 0 is the most urgent. The policy defines what the others
    /// mean.
    ///
    /// # Errors
    ///
    /// [`PriorityError`] if the policy does not have that many, or none at all.
    pub fn priority(&self, level: u8) -> Result<Priority, PriorityError> {
        let priorities = self.any().core().info.priorities;
        if level < priorities {
            let rank = Rank::new(self.header(), priority::word(level));
            Ok(Priority { rank, level })
        } else {
            Err(PriorityError {
                asked: level,
                priorities,
            })
        }
    }
}
