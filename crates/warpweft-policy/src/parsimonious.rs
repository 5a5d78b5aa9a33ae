//! Parsimonious latency hiding (after S. K. Muller and U. A. Acar, *Latency-hiding work stealing*, 2016). It
//! is the alternative to [`prows`](crate::prows).
//!
//! A worker whose task begins to wait sets that task aside and continues with its deque. A woken task returns
//! to the worker on which it was suspended, not to the worker that has woken it.
//!
//! ```text
//!   the waking thread ────▶ resumed (worker 0) ─┐ all at once, when worker 0 takes its next task
//!                                               ▼
//!   worker 0:        thieves: oldest ◀── [ · · · deque · · · ] ◀── push, next: newest
//! ```
//!
//! # Invariants
//!
//! - The word of a task that sleeps is its worker's number plus 1; that of any other is 0.
//! - A woken task is in its worker's `resumed`, or in a deque. Its worker looks there before each task. If
//!   the worker is stuck in a task, thieves find the woken task in `scan`, and also in `search` if there are
//!   several.
//! - All else is as in [`Lifo`], with one task per steal.
//!
//! *Why one deque for each worker.* In the paper a worker has several: a deque remains where its suspended
//! tasks were, until the last of them is back. Here a suspended task is in no deque, and comes back when it
//! is ready, so nothing has to be kept for it.

use crate::{Cx, Lifo, Policy, PolicyError, PoolEnv, Wake, WorkerId};
use std::fmt;
use warpweft_queue::{Amount, Locked};
use warpweft_task::{QueueViewer, TaskRef, Waiting, Why};

/// Parsimonious latency hiding: see the [module](self).
///
/// ```
/// use warpweft_policy::{Parsimonious, PolicySpec};
/// let spec: PolicySpec = "parsimonious".parse()?;
/// assert_eq!(spec.to_string(), Parsimonious::new().to_string());
/// # Ok::<(), warpweft_policy::ParsePolicyError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Parsimonious {
    pub(crate) capacity: usize,
}

impl Parsimonious {
    /// Makes deques with room for 256 tasks, which grow in place.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { capacity: 256 }
    }

    /// Sets the initial capacity of a worker's deque in tasks: 1 to 16 777 216, rounded up to a power of two.
    #[must_use]
    #[inline]
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.capacity = tasks;
        self
    }
}

impl Default for Parsimonious {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Parsimonious {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parsimonious+capacity={}", self.capacity)
    }
}

/// The shared state of the workers of a [`Parsimonious`] pool.
pub struct Shared {
    deques: <Lifo as Policy>::Shared,
    /// Tasks that were woken, by the worker on which they were suspended.
    resumed: Box<[Locked<TaskRef>]>,
}

/// A worker's own half of a [`Parsimonious`] pool.
pub struct Local {
    deque: <Lifo as Policy>::Local,
    me: usize,
    /// Scratch space for tasks that come back at once.
    batch: Vec<TaskRef>,
    /// The place whose turn it is in `poll_global`.
    turn: usize,
}

/// The most tasks that come back at once.
const BATCH: usize = 256;

impl Policy for Parsimonious {
    type Shared = Shared;
    type Local = Local;

    #[inline]
    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let (deques, locals) = Lifo::new()
            .steal(Amount::One)
            .capacity(self.capacity)
            .build(env)?;
        let shared = Shared {
            deques,
            resumed: (0..env.workers).map(|_| Locked::new()).collect(),
        };
        let local = |(me, deque)| Local {
            deque,
            me,
            batch: Vec::new(),
            turn: 0,
        };
        Ok((shared, locals.into_iter().enumerate().map(local).collect()))
    }

    #[inline]
    fn push(shared: &Shared, local: Option<&mut Local>, mut task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        if why == Why::Woken && task.policy_word() != 0 {
            let home = (task.policy_word() - 1) as usize;
            task.set_policy_word(0);
            if local.as_ref().is_none_or(|local| local.me != home) && !cx.rests(WorkerId(home)) {
                shared.resumed[home].push(task);
                return Wake::Worker(WorkerId(home));
            }
        }
        Lifo::push(&shared.deques, local.map(|local| &mut local.deque), task, why, cx)
    }

    #[inline]
    fn suspended(_shared: &Shared, local: &mut Local, mut task: Waiting<'_>, _cx: &Cx<'_>) {
        task.set_policy_word(local.me as u64 + 1);
    }

    #[inline]
    fn next(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        if !shared.resumed[local.me].is_empty() {
            come_back(shared, local, cx);
        }
        Lifo::next(&shared.deques, &mut local.deque, cx)
    }

    #[inline]
    fn poll_global(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        local.turn = local.turn.wrapping_add(1);
        let woken = match local.turn % 2 {
            0 => None,
            _ => shared.resumed[local.turn / 2 % shared.resumed.len()].pop(),
        };
        woken.or_else(|| Lifo::poll_global(&shared.deques, &mut local.deque, cx))
    }

    #[inline]
    fn search(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Lifo::search(&shared.deques, &mut local.deque, cx).or_else(|| {
            // A single one is left to its worker, which was woken for it.
            let resumed = &shared.resumed[cx.random(shared.resumed.len())];
            if resumed.len() > 1 { resumed.pop() } else { None }
        })
    }

    #[inline]
    fn scan(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Lifo::scan(&shared.deques, &mut local.deque, cx)
            .or_else(|| shared.resumed.iter().find_map(Locked::pop))
    }

    fn queued(shared: &Shared, worker: WorkerId) -> Option<usize> {
        Lifo::queued(&shared.deques, worker)
    }

    fn queued_shared(shared: &Shared) -> Option<usize> {
        let resumed = shared.resumed.iter().map(Locked::len).sum::<usize>();
        Some(Lifo::queued_shared(&shared.deques)? + resumed)
    }

    fn show_queued(shared: &Shared, viewer: &mut QueueViewer) {
        Lifo::show_queued(&shared.deques, viewer);
        for queue in &shared.resumed {
            queue.for_each(viewer.room(), |task| viewer.see(task));
        }
    }

    #[inline]
    fn is_only_ready(shared: &Shared, local: &Local) -> bool {
        Lifo::is_only_ready(&shared.deques, &local.deque) && shared.resumed.iter().all(Locked::is_empty)
    }
}

/// Puts the woken tasks of this worker at the bottom of its deque, the last one lowest.
#[cold]
#[inline]
fn come_back(shared: &Shared, local: &mut Local, cx: &Cx<'_>) {
    shared.resumed[local.me].pop_batch(&mut local.batch, BATCH);
    for task in local.batch.drain(..) {
        // The wake-ups were chosen when they were woken; thieves are searching already.
        let _ = Lifo::push(&shared.deques, Some(&mut local.deque), task, Why::Woken, cx);
    }
}
