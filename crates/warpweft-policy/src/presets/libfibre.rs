//! Placement as in libfibre (M. Karsten and S. Barghi, 2020): a new task stays with its spawner, a woken one
//! returns to the worker where it last ran.

use super::ring::take_one;
use crate::{Count, Cx, Policy, PolicyError, PoolEnv, Wake, WorkerId};
use std::fmt;
use warpweft_queue::{Fifo, FifoThief, Full, Locked, Owner, Thief};
use warpweft_task::{QueueViewer, TaskRef, Waiting, Why};

/// The initial capacity of a worker's queue, in tasks.
const CAPACITY: usize = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    256
};

/// As libfibre schedules fibres: one queue per worker, oldest first. A spawned or yielding task goes to its
/// worker's queue. A woken task goes to the worker where it last ran, which is woken for it. A task from
/// outside goes to a random worker. A worker without tasks takes one from a random other one. If nothing else
/// is ready, a task that yields continues at once.
///
/// A worker's queue has two halves here, one that only the worker pushes to and one for all other threads. It
/// takes from both in turn.
///
/// # What is promised
///
/// A ready task with `M` other ready tasks in the pool is taken within [`Libfibre::own_steps`]`(M)` steps, 2
/// × (M + 1) + M / 30, of its worker. If that worker makes none, it is taken within [`Libfibre::steps`]`(M,
/// workers)` of any other one, which is 61 × 2 × workers × (M + 1). With polls of `T` at most that takes `T`
/// times as long.
///
/// ```
/// use warpweft_policy::Libfibre;
/// assert_eq!(Libfibre.to_string(), "libfibre");
/// assert_eq!(Libfibre::steps(9, 2), 61 * 2 * 2 * 10);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Libfibre;

impl Libfibre {
    /// Returns within how many steps of any worker a task runs when `others` are ready in a pool of
    /// `workers`.
    #[must_use]
    #[inline]
    pub fn steps(others: usize, workers: usize) -> u64 {
        u64::from(Self::INTERVAL * 2).saturating_mul(workers as u64 * (others as u64 + 1))
    }

    /// Returns within how many steps of its worker a task runs.
    #[must_use]
    #[inline]
    pub fn own_steps(others: usize) -> u64 {
        // Every 61st step may be for another worker's queue.
        2 * (others as u64 + 1) + others as u64 / 30 + 1
    }
}

impl fmt::Display for Libfibre {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("libfibre")
    }
}

/// A worker's queue, as others use it.
struct WorkerQueue {
    own: FifoThief<TaskRef>,
    /// The tasks that others pushed.
    brought: Locked<TaskRef>,
}

/// All workers' queues.
pub struct Shared(Box<[WorkerQueue]>);

/// A worker's half of its queue.
pub struct Local {
    me: usize,
    queue: Fifo<TaskRef>,
    /// True if the tasks of others have their turn.
    brought_first: bool,
    /// The worker whose turn it is in `poll_global`.
    turn: usize,
}

impl Policy for Libfibre {
    type Shared = Shared;
    type Local = Local;

    #[inline]
    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let own = |me| {
            Ok(Local {
                me,
                queue: Fifo::with_capacity(CAPACITY)?,
                brought_first: false,
                turn: 0,
            })
        };
        let owns = (0..env.workers)
            .map(own)
            .collect::<Result<Vec<Local>, PolicyError>>()?;
        let queue = |own: &Local| WorkerQueue {
            own: own.queue.thief(),
            brought: Locked::new(),
        };
        Ok((Shared(owns.iter().map(queue).collect()), owns))
    }

    #[inline]
    fn push(shared: &Shared, own: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        // The word is the worker's number plus one; 0 is a task that never waited.
        let last_ran = (task.policy_word() as usize)
            .checked_sub(1)
            .filter(|&worker| why == Why::Woken && worker < shared.0.len() && !cx.rests(WorkerId(worker)));
        match (own, last_ran) {
            (Some(own), last_ran) if last_ran.is_none_or(|worker| worker == own.me) => {
                if let Err(Full(task)) = own.queue.push(task) {
                    grow(shared, own, task, cx);
                }
                Wake::Any
            }
            (_, last_ran) => {
                let home = last_ran.unwrap_or_else(|| somewhere(shared, cx));
                shared.0[home].brought.push(task);
                Wake::Worker(WorkerId(home))
            }
        }
    }

    #[inline]
    fn suspended(_: &Shared, own: &mut Local, mut task: Waiting<'_>, _: &Cx<'_>) {
        task.set_policy_word(own.me as u64 + 1);
    }

    #[inline]
    fn next(shared: &Shared, own: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        own.brought_first = !own.brought_first;
        let brought = &shared.0[own.me].brought;
        if own.brought_first {
            brought.pop().or_else(|| own.queue.pop())
        } else {
            own.queue.pop().or_else(|| brought.pop())
        }
    }

    /// Takes a task of another worker, which may be stuck: the others in turn, both halves of each.
    #[inline]
    fn poll_global(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        own.turn = own.turn.wrapping_add(1);
        let (home, half) = (own.turn / 2 % shared.0.len(), own.turn % 2);
        let home = Some(&shared.0[home]).filter(|_| home != own.me)?;
        let task = if half == 0 {
            home.brought.pop()
        } else {
            home.own.steal_one().taken()
        };
        cx.count(Count::GlobalPolls, u64::from(task.is_some()));
        task
    }

    #[inline]
    fn search(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let victim = cx.random(shared.0.len());
        let home = Some(&shared.0[victim]).filter(|_| victim != own.me)?;
        cx.count(Count::StealAttempts, 1);
        let task = home.own.steal_one().taken().or_else(|| home.brought.pop());
        cx.count(Count::Steals, u64::from(task.is_some()));
        cx.count(Count::Stolen, u64::from(task.is_some()));
        task
    }

    #[inline]
    fn scan(shared: &Shared, own: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        own.queue.pop().or_else(|| {
            let affine = shared.0.iter();
            affine
                .map(|home| home.brought.pop().or_else(|| take_one(&home.own, cx)))
                .find_map(|task| task)
        })
    }

    fn queued(shared: &Shared, worker: WorkerId) -> Option<usize> {
        let home = shared.0.get(worker.0)?;
        Some(home.own.glance().len + home.brought.len())
    }

    fn queued_shared(shared: &Shared) -> Option<usize> {
        // Each queue belongs to a worker.
        let _ = shared;
        Some(0)
    }

    fn show_queued(shared: &Shared, viewer: &mut QueueViewer) {
        for home in &shared.0 {
            home.own.peek(viewer.room(), &mut |task| viewer.peek(&task));
            home.brought.for_each(viewer.room(), |task| viewer.see(task));
        }
    }

    #[inline]
    fn is_only_ready(shared: &Shared, own: &Local) -> bool {
        // The queues of others count, too: `poll_global` may take from them.
        own.queue.is_empty()
            && shared
                .0
                .iter()
                .all(|home| home.brought.is_empty() && home.own.glance().len == 0)
    }
}

/// Returns a random worker that does not rest.
fn somewhere(shared: &Shared, cx: &Cx<'_>) -> usize {
    let home = cx.random(shared.0.len());
    // Below a worker that rests is one that does not.
    (0..=home)
        .rev()
        .find(|&worker| !cx.rests(WorkerId(worker)))
        .unwrap_or(home)
}

#[cold]
#[inline]
fn grow(shared: &Shared, own: &mut Local, task: TaskRef, cx: &Cx<'_>) {
    let task = if own.queue.grow().is_ok() {
        cx.count(Count::Grown, 1);
        match own.queue.push(task) {
            Ok(()) => return,
            Err(Full(task)) => task,
        }
    } else {
        task
    };
    cx.count(Count::Overflowed, 1);
    shared.0[own.me].brought.push(task);
}
