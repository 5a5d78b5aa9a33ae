//! Negele's scheduler with separate queues for each worker, and lock-free balancing now and then.

use super::EXTERNAL_SLOTS;
use super::levels::{self, Levels, check};
use crate::{Count, Cx, Policy, PolicyError, PoolEnv, Wake};
use std::fmt;
use warpweft_queue::{Nodes, Processor};
use warpweft_task::{TaskRef, Why};

/// After this number of tasks a worker looks for something more urgent at another worker, by default.
const BALANCE: u32 = 32;

/// The largest number of further tasks that a worker without tasks takes from another one.
const SHARE: usize = 8;

/// As [`Negele`](super::Negele), with a set of queues for each worker and one for pushes from outside.
///
/// A worker pushes to its own queues and takes from them. Every 32 tasks it looks at a random other worker,
/// and takes a task that is more urgent than all its own tasks. When it has nothing it takes a task from
/// another worker, and up to eight more.
///
/// # What is promised
///
/// A ready task with `M` tasks before it in its queue is taken within [`NegeleLocal::steps`] steps, `2 ×
/// levels × 61 × (M + 1)`, of the worker whose queue it is in (of any worker, if it came from outside). With
/// polls of `T` at most that takes `T` times as long. Priorities are strict within a worker, and tasks from
/// outside go before less urgent ones. Between workers priorities hold as often as they balance.
///
/// ```
/// use warpweft_policy::NegeleLocal;
/// let policy = NegeleLocal::new().levels(3).balance(16);
/// assert_eq!(policy.to_string(), "negele-local:3+balance=16");
/// ```
#[derive(Debug, Clone)]
pub struct NegeleLocal {
    levels: usize,
    balance: u32,
}

impl NegeleLocal {
    /// Makes four levels: urgent, normal, low and idle. Balances every 32 tasks.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self {
            levels: 4,
            balance: BALANCE,
        }
    }

    /// Sets the number of levels, idle included: 2 to 32. Another number is an error when the pool is built.
    #[must_use]
    #[inline]
    pub fn levels(mut self, levels: usize) -> Self {
        self.levels = levels;
        self
    }

    /// Sets after how many tasks a worker looks at another one; 0 is an error when the pool is built.
    #[must_use]
    #[inline]
    pub fn balance(mut self, tasks: u32) -> Self {
        self.balance = tasks;
        self
    }

    /// Checks that the settings are possible.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        check(self.levels)?;
        if self.balance == 0 {
            let text = "a balance every 0 tasks: it is a number from 1 on; a large one balances seldom";
            return Err(PolicyError::Other(text.into()));
        }
        Ok(())
    }

    /// Returns within how many steps of its worker a task runs that has `ahead` tasks before it in its queue.
    #[must_use]
    #[inline]
    pub fn steps(&self, ahead: usize) -> u64 {
        levels::steps(2 * self.levels, Self::INTERVAL, ahead)
    }
}

impl Default for NegeleLocal {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for NegeleLocal {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::new();
        f.write_str("negele-local")?;
        if self.levels != usual.levels {
            write!(f, ":{}", self.levels)?;
        }
        if self.balance != usual.balance {
            write!(f, "+balance={}", self.balance)?;
        }
        Ok(())
    }
}

/// The shared state of the workers of a [`NegeleLocal`] pool.
#[derive(Debug)]
pub struct Shared {
    nodes: Nodes,
    /// The queues of each worker; the last ones are for pushes from outside.
    affine: Box<[Levels]>,
    balance: u32,
}

impl Shared {
    #[inline]
    fn outside(&self) -> &Levels {
        &self.affine[self.affine.len() - 1]
    }
}

/// A worker's own half of a [`NegeleLocal`] pool.
#[derive(Debug)]
pub struct Local {
    processor: Processor,
    home: usize,
    /// Tasks taken since it last looked at another worker.
    taken: u32,
    /// The place whose turn it is in `poll_global`.
    turn: usize,
    /// True if `next` had nothing.
    ran_dry: bool,
    /// How often `next` took the most urgent task from outside since the last poll.
    in_a_row: u32,
}

impl Policy for NegeleLocal {
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
        let affine = (0..=env.workers)
            .map(|_| Levels::new(&nodes, self.levels))
            .collect();
        let own = |(home, processor)| Local {
            processor,
            home,
            taken: 0,
            turn: 0,
            ran_dry: false,
            in_a_row: 0,
        };
        let shared = Shared {
            nodes,
            affine,
            balance: self.balance,
        };
        Ok((shared, processors.into_iter().enumerate().map(own).collect()))
    }

    #[inline]
    fn push(shared: &Shared, own: Option<&mut Local>, task: TaskRef, _: Why, cx: &Cx<'_>) -> Wake {
        match own {
            Some(own) => shared.affine[own.home].push(Some(&own.processor), task, cx),
            None => shared.outside().push(None, task, cx),
        }
    }

    #[inline]
    fn watches_waits(_: &Self::Shared) -> bool {
        false
    }

    #[inline]
    fn next(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        own.taken += 1;
        if own.taken >= shared.balance {
            own.taken = 0;
            let more_urgent = balance(shared, own, cx);
            if more_urgent.is_some() {
                return more_urgent;
            }
        }
        let home = &shared.affine[own.home];
        let first = home.first();
        own.ran_dry = home.is_beyond(first);
        if own.ran_dry {
            return None;
        }
        let outside = shared.outside().pop_above(&own.processor, first);
        outside.or_else(|| home.pop(&own.processor))
    }

    #[inline]
    fn poll_global(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        if std::mem::take(&mut own.ran_dry) && own.in_a_row < Self::INTERVAL {
            own.in_a_row += 1;
            let most_urgent = shared.outside().pop(&own.processor);
            if most_urgent.is_some() {
                cx.count(Count::GlobalPolls, 1);
                return most_urgent;
            }
        }
        own.in_a_row = 0;
        own.turn = own.turn.wrapping_add(1);
        let (home, outside) = (&shared.affine[own.home], shared.outside());
        let (first, second) = if own.turn.is_multiple_of(2) {
            (home, outside)
        } else {
            (outside, home)
        };
        let turn = own.turn / 2;
        let task = first
            .pop_by_turns(&own.processor, turn)
            .or_else(|| second.pop_by_turns(&own.processor, turn));
        cx.count(Count::GlobalPolls, u64::from(task.is_some()));
        task
    }

    #[inline]
    fn search(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let affine = shared.affine.len();
        let first = cx.random(affine);
        (first..affine)
            .chain(0..first)
            .filter(|&other| other != own.home)
            .find_map(|other| share(shared, own, other, cx))
    }

    #[inline]
    fn scan(shared: &Shared, own: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.affine.iter().find_map(|home| home.scan(&own.processor))
    }

    /// Does not look for more urgent tasks at other workers.
    #[inline]
    fn drain(shared: &Shared, own: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.affine[own.home].pop(&own.processor)
    }

    #[inline]
    fn completed(shared: &Shared, _: &mut Local, policy_word: u64) {
        shared.nodes.release(levels::carried(policy_word));
    }
}

/// Takes a task of a random other worker that is more urgent than all of this one's.
#[cold]
#[inline]
fn balance(shared: &Shared, own: &Local, cx: &Cx<'_>) -> Option<TaskRef> {
    let other = cx.random(shared.affine.len());
    if other == own.home {
        return None;
    }
    let limit = shared.affine[own.home].first();
    let task = shared.affine[other].pop_above(&own.processor, limit)?;
    cx.count(Count::Steals, 1);
    cx.count(Count::Stolen, 1);
    Some(task)
}

/// Takes the most urgent task of another worker, and a few more.
#[inline]
fn share(shared: &Shared, own: &Local, other: usize, cx: &Cx<'_>) -> Option<TaskRef> {
    cx.count(Count::StealAttempts, 1);
    let (home, other) = (&shared.affine[own.home], &shared.affine[other]);
    let task = other.pop(&own.processor)?;
    let mut stolen = 1;
    // While the other one has more than the task that it is about to take.
    while stolen <= SHARE && other.has_several() {
        let Some(another) = other.pop(&own.processor) else {
            break;
        };
        let _ = home.push(Some(&own.processor), another, cx);
        stolen += 1;
    }
    cx.count(Count::Steals, 1);
    cx.count(Count::Stolen, stolen as u64);
    Some(task)
}
