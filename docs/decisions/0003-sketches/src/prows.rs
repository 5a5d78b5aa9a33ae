//! ProWS: proactive work stealing with many deques (Singer, Xu, Lee 2019; ProWS-R: Weidinger 2022, chapter 3).
//!
//! ```text
//!   Active ──its task waits──▶ Suspended ──the task is woken──▶ Resumable ──stolen from once──▶ Muggable
//!     ▲                                                                                            │
//!     └───────────────────────────── a thief takes the whole deque ────────────────────────────────┘
//! ```
//!
//! Simplified: deques, sets and states lie under one lock, which makes each composite step atomic; a product would
//! give `warpweft-queue` a structure for that. Fairness (`overdue`) is ours: the papers have none.
//!
//! What the trait gives: `suspended` names the moment and lends the token, whose word takes the deque's number along;
//! `push(Woken)` arrives on any thread and finds the deque by that word.

mod deques;

use deques::{Deques, Id, State};
use warpweft_platform::sync::Mutex;
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why};
use warpweft_queue::Locked;

/// The policy; it has no options.
pub struct ProWs;

/// All deques and sets, and what comes from outside or yields.
pub struct Shared {
    deques: Mutex<Deques>,
    outside: Locked<TaskRef>,
    yielded: Locked<TaskRef>,
}

/// A worker's active deque, if it has one.
pub struct Local {
    me: usize,
    active: Option<Id>,
    turn: usize,
}

impl Policy for ProWs {
    type Shared = Shared;
    type Local = Local;
    const WATCHES_ENDS: bool = true;

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let deques = Deques::new(env.workers);
        let shared = Shared {
            deques: Mutex::new(deques),
            outside: Locked::new(),
            yielded: Locked::new(),
        };
        Ok((
            shared,
            (0..env.workers)
                .map(|me| Local {
                    me,
                    active: None,
                    turn: 0,
                })
                .collect(),
        ))
    }

    fn push(shared: &Shared, local: Option<&mut Local>, mut task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let suspended = task.policy_word();
        match local {
            _ if why == Why::Woken && suspended != 0 => {
                task.set_policy_word(0);
                shared
                    .deques
                    .lock()
                    .resume(suspended, Some(task), cx.random(cx.workers()));
            }
            _ if why == Why::Yielded => shared.yielded.push(task),
            None => shared.outside.push(task),
            Some(local) => {
                let mut deques = shared.deques.lock();
                let id = *local.active.get_or_insert_with(|| deques.create(local.me));
                deques
                    .all
                    .entry(id)
                    .and_modify(|deque| deque.tasks.push_back(task));
                deques.enter(id, local.me);
            }
        }
        Wake::Any
    }

    fn suspended(shared: &Shared, local: &mut Local, mut task: Waiting<'_>, cx: &Cx<'_>) {
        let Some(id) = local.active.take() else { return };
        shared.deques.lock().suspend(id, cx);
        task.set_policy_word(id);
    }

    fn next(shared: &Shared, local: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        // Nothing if the active deque was just suspended: that is what makes the scheduler proactive.
        shared.deques.lock().all.get_mut(&local.active?)?.tasks.pop_back()
    }

    fn overdue(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        local.turn += 1;
        (local.turn..local.turn + 4).find_map(|turn| match turn % 4 {
            0 => shared.outside.pop(),
            1 => shared.yielded.pop(),
            2 => shared
                .deques
                .lock()
                .all
                .get_mut(&local.active?)?
                .tasks
                .pop_front(),
            _ => {
                let mut deques = shared.deques.lock();
                let oldest = deques.find(|deque| deque.state != State::Active)?;
                deques.steal_top(oldest, cx)
            }
        })
    }

    fn search(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let mut deques = shared.deques.lock();
        let victim = cx.random(cx.workers());
        let id = *deques.sets[victim].get(cx.random(deques.sets[victim].len()))?;
        if deques.all[&id].state != State::Muggable {
            return deques.steal_top(id, cx);
        }
        if let Some(old) = local.active.replace(id) {
            deques.resume(old, None, local.me);
        }
        deques.mug(id, local.me, cx)
    }

    fn scan(shared: &Shared, _: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        shared.outside.pop().or_else(|| shared.yielded.pop()).or_else(|| {
            let mut deques = shared.deques.lock();
            let id = deques.find(|_| true)?;
            deques.steal_top(id, cx)
        })
    }

    fn retired(shared: &Shared, local: &mut Local, policy_word: u64) {
        // A task that still has a deque's number ended while it was suspended: nobody was left to wake it.
        shared.deques.lock().resume(policy_word, None, local.me);
    }
}
