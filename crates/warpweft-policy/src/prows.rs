//! Proactive work stealing (K. Singer, Y. Xu and I-T. A. Lee, *Proactive work stealing for futures*, 2019;
//! with tasks that may be woken any number of times: ProWS-R, N. Weidinger, 2022).
//!
//! A worker whose task begins to wait does not continue with its deque, as a *parsimonious* one would. It
//! leaves the deque behind as it is, and becomes a thief at once. So there are more deques than workers.
//!
//! # States
//!
//! ```text
//!   ∅ ──1──▶ ACTIVE ──2──▶ SUSPENDED ──3──▶ RESUMABLE ──4──▶ MUGGABLE
//!              ▲ │            │ 6 ↺             │5              │5
//!              │ 5            3                 ▼               ▼
//!              │ ▼            ▼                 ∅               ∅
//!              │ ∅            ∅                                 │
//!              └───────────────────────7────────────────────────┘
//! ```
//!
//! | state | tasks | in which set | waits for |
//! |---|---|---|---|
//! | *active* | 1 or more | its worker's | – |
//! | *suspended* | 1 or more | some worker's | the task that suspended it |
//! | *suspended*, empty | 0 | none | the same |
//! | *resumable* | 1 or more; the youngest was woken, unless that task was cancelled | some worker's | – |
//! | *muggable* | 1 or more | some worker's | – |
//!
//! | | step | when | what happens, all at once |
//! |---|---|---|---|
//! | 1 | make | a worker without an active deque pushes | it has one, in its own set |
//! | 2 | suspend | `suspended` | with tasks: it moves to a random set; without: it leaves its set. The task's word says which deque. The worker has none |
//! | 3 | resume | `push(Woken)` of the task with that word, by any thread | the task goes to the bottom, the word becomes 0; a deque that is in no set enters a random one |
//! | | | `completed` with that word: the task was cancelled just then | the same without the task; if there are no tasks: gone |
//! | 4 | steal | `search`, `poll_global`, `scan` draw a resumable deque | the oldest task is taken; if any is left: muggable |
//! | 5 | free | the last task is taken from a deque that is not suspended | the deque is gone, and its set has lost it, unless its own worker took it |
//! | 6 | steal | they draw a suspended deque | the oldest task is taken; if that was the last: it leaves its set, which has lost it |
//! | | | they draw an active one, or a muggable one in a turn of `poll_global` | the oldest task is taken |
//! | 7 | mug | they draw a muggable deque for a worker without own tasks; not `poll_global` in a turn | the worker's active deque, and in its set; the former set has lost it; the youngest task is taken |
//! | | rebalance | a set has lost a deque | of a random set, if it is another and has deques that are not active, a random one of them moves over |
//!
//! # Invariants
//!
//! - Every step is atomic: [`Deques`] does it under the locks of the sets concerned. So a deque with tasks is
//!   in exactly one set at any time, and one without is in none.
//! - Each takeover was paid for by a steal from the same deque: only step 4 leads to muggable. (The bound
//!   O(T₁/P + T∞ lg P) depends on that.)
//! - A suspended deque waits for one task that sleeps, and no two wait for the same. The framework passes a
//!   task to `push` once however often it is woken, and not before `suspended` has returned. So a wake that
//!   comes twice, early or late reaches no deque.
//! - A task that is woken without having been suspended has the word 0, and is pushed like a spawned one.
//! - After `suspended`, `next` has nothing until the worker has stolen.
//! - Each push returns [`Wake::Any`], since any worker may take the task.
//!
//! [`Shared::states`] returns the deques and their states at one moment.
//!
//! # Beyond the papers
//!
//! - *Fairness.* `poll_global` takes in turn from the injector, the yielded tasks, the top of the worker's
//!   deque, and the deques without an owner. Of these each has its turn, and it steals single tasks only.
//!   Without it a task could wait forever for thieves that choose others. When it is called out of turn for a
//!   worker without tasks while there are deques without an owner, it draws like `search`: so the steal that
//!   follows a wait does without the idle protocol.
//! - *Own tasks first.* `search` and `scan` look at the worker's deque, the injector and the yielded tasks
//!   before they steal.
//! - *The last look.* `scan` looks at every set, and again if a deque moved meanwhile: a random choice may
//!   miss the one set that has work.
//! - *Yielded tasks* go to a queue of the pool; from their deque they would come straight back.
//!
//! A policy is not told about a pool's fibers and blocked threads: they stay on their stacks and suspend no
//! deque.

use crate::{Count, Cx, Policy, PolicyError, PoolEnv, Wake};
use std::fmt;
use warpweft_queue::{Active, DequeView, Deques, Full, Locked, StealOutcome};
use warpweft_task::{QueueViewer, TaskRef, Waiting, Why};

/// Proactive work stealing: see the [module](self).
///
/// ```
/// use warpweft_policy::{PolicySpec, ProWs};
/// let spec: PolicySpec = "prows".parse()?;
/// assert_eq!(spec.to_string(), ProWs::new().to_string());
/// # Ok::<(), warpweft_policy::ParsePolicyError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ProWs {
    pub(crate) capacity: usize,
}

impl ProWs {
    /// Makes deques with room for 64 tasks, which grow in place.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { capacity: 64 }
    }

    /// Sets the capacity of a new deque in tasks: at least 1, rounded up to a power of two. There may be many
    /// deques; waiting deques with tasks keep their memory.
    #[must_use]
    #[inline]
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.capacity = tasks;
        self
    }
}

impl Default for ProWs {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for ProWs {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prows+capacity={}", self.capacity)
    }
}

/// The shared state of the workers of a [`ProWs`] pool.
#[derive(Debug)]
pub struct Shared {
    deques: Deques<TaskRef>,
    outside: Locked<TaskRef>,
    yielded: Locked<TaskRef>,
}

impl Shared {
    /// Returns every deque that there is at this moment, and its state: those with tasks, and the empty ones
    /// that are suspended. They are in no particular order. For tests and reports: it locks all sets.
    #[must_use]
    #[inline]
    pub fn states(&self) -> Vec<DequeView> {
        self.deques.stats()
    }
}

/// A worker's own half of a [`ProWs`] pool.
#[derive(Debug)]
pub struct Local {
    active: Active<TaskRef>,
    /// The place whose turn it is in `poll_global`.
    turn: usize,
}

/// The number of places that `poll_global` polls in turn.
const PLACES: usize = 4;

impl Policy for ProWs {
    type Shared = Shared;
    type Local = Local;

    const WATCHES_COMPLETIONS: bool = true;

    #[inline]
    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let (deques, workers) = Deques::new(env.workers, self.capacity)?;
        let shared = Shared {
            deques,
            outside: Locked::new(),
            yielded: Locked::new(),
        };
        let local = |active| Local { active, turn: 0 };
        Ok((shared, workers.into_iter().map(local).collect()))
    }

    #[inline]
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let task = match why {
            Why::Woken => match woken(shared, task, cx) {
                Ok(()) => return Wake::Any,
                Err(task) => task,
            },
            Why::Yielded => {
                shared.yielded.push(task);
                return Wake::Any;
            }
            Why::Spawned | Why::Forked | Why::Injected => task,
        };
        let pushed = match local {
            Some(local) => shared.deques.push(&mut local.active, task),
            None => Err(Full(task)),
        };
        if let Err(Full(task)) = pushed {
            shared.outside.push(task);
        }
        Wake::Any
    }

    #[inline]
    fn suspended(shared: &Shared, local: &mut Local, mut task: Waiting<'_>, cx: &Cx<'_>) {
        if !local.active.is_empty() {
            cx.count(Count::DequesLeft, 1);
        }
        let word = shared.deques.suspend(&mut local.active, cx.random(cx.workers()));
        task.set_policy_word(word);
    }

    #[inline]
    fn next(_shared: &Shared, local: &mut Local, _cx: &Cx<'_>) -> Option<TaskRef> {
        local.active.pop()
    }

    #[inline]
    fn poll_global(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        local.turn = local.turn.wrapping_add(1);
        let first = local.turn % PLACES;
        (first..first + PLACES).find_map(|place| match place % PLACES {
            0 => shared.outside.pop(),
            1 => shared.yielded.pop(),
            2 => local.active.pop_top(),
            _ if first == PLACES - 1 => {
                let set = local.turn / PLACES % cx.workers();
                taken(shared, set, shared.deques.sweep(set), cx)
            }
            // Out of turn: a worker that has just left a deque, or has nothing to do, steals at once, without
            // the idle protocol.
            _ if local.active.is_empty() && !shared.deques.all_are_active() => draw(shared, local, cx),
            _ => None,
        })
    }

    #[inline]
    fn search(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        own_or_pool(shared, local).or_else(|| draw(shared, local, cx))
    }

    #[inline]
    fn scan(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        own_or_pool(shared, local).or_else(|| {
            let (set, steal_from) = shared.deques.find(&mut local.active)?;
            taken(shared, set, steal_from, cx)
        })
    }

    fn queued_shared(shared: &Shared) -> Option<usize> {
        Some(shared.outside.len() + shared.yielded.len())
    }

    fn show_queued(shared: &Shared, viewer: &mut QueueViewer) {
        for queue in [&shared.outside, &shared.yielded] {
            queue.for_each(viewer.room(), |task| viewer.see(task));
        }
    }

    #[inline]
    fn is_only_ready(shared: &Shared, local: &Local) -> bool {
        local.active.is_empty()
            && shared.outside.is_empty()
            && shared.yielded.is_empty()
            && shared.deques.all_are_active()
    }

    #[inline]
    fn completed(shared: &Shared, _local: &mut Local, policy_word: u64) {
        // A task that is taken from a deque has the word 0. So this one ended when it was about to wait, and
        // no thread can wake it.
        if policy_word != 0 {
            shared.deques.abandon(policy_word);
        }
    }
}

/// Resumes the deque that waits for a woken task. Returns the task if there is none.
#[inline]
fn woken(shared: &Shared, mut task: TaskRef, cx: &Cx<'_>) -> Result<(), TaskRef> {
    let word = task.policy_word();
    if word == 0 {
        return Err(task);
    }
    task.set_policy_word(0);
    shared.deques.resume(word, task, cx.random(cx.workers()))
}

#[inline]
fn own_or_pool(shared: &Shared, local: &mut Local) -> Option<TaskRef> {
    local
        .active
        .pop()
        .or_else(|| shared.outside.pop())
        .or_else(|| shared.yielded.pop())
}

/// Makes some attempts, each at a random deque of a random set. A set without deques, such as that of an
/// unused compensating worker, costs a load.
#[inline]
fn draw(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
    (0..2 * cx.workers()).find_map(|_| {
        let set = cx.random(cx.workers());
        if shared.deques.is_vacant(set) {
            return None;
        }
        cx.count(Count::StealAttempts, 1);
        let steal_from = shared
            .deques
            .steal_from(&mut local.active, set, |deques| cx.random(deques));
        taken(shared, set, steal_from, cx)
    })
}

/// Returns the task that a thief has taken from a set. If the set lost a deque thereby, it gets another.
#[inline]
fn taken(shared: &Shared, set: usize, steal_from: StealOutcome<TaskRef>, cx: &Cx<'_>) -> Option<TaskRef> {
    let (task, lost) = match steal_from {
        StealOutcome::Nothing => return None,
        StealOutcome::Lost => {
            cx.count(Count::StealsLost, 1);
            return None;
        }
        StealOutcome::Stolen { task, emptied } => {
            cx.count(Count::Steals, 1);
            cx.count(Count::Stolen, 1);
            (task, emptied)
        }
        StealOutcome::TakenOver { task } => {
            cx.count(Count::Muggings, 1);
            (task, true)
        }
    };
    if lost {
        let giver = cx.random(cx.workers());
        shared.deques.rebalance(set, giver, |deques| cx.random(deques));
    }
    Some(task)
}
