//! The kit rejects policies that leave tasks behind when a worker rests, or that evict the wrong ones, and
//! accepts the good policy from which each of them differs in one point.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod rejects;

use rejects::rejects;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpweft_conformance::{Duty, evictions_are_honest, nothing_lost, rest_leaves_nothing};
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why, WorkerId};

/// What the policy does wrong. The default of each is right.
trait Fault: Send + Sync + 'static {
    /// A worker that rests gives its own queue back.
    const DRAINS_OWN: bool = true;
    /// It gives back what others left for it, too.
    const DRAINS_INBOX: bool = true;
    /// Nothing more is left for it after that.
    const KNOWS_REST: bool = true;
    /// The others look at what was left for it.
    const POLLS_INBOXES: bool = true;
    /// What is done with the tasks among which cancelled ones are looked for: those that are handed out.
    fn evict(tasks: &mut VecDeque<TaskRef>) -> Vec<TaskRef> {
        let (out, stay): (Vec<_>, Vec<_>) = tasks.drain(..).partition(TaskRef::is_cancelled);
        tasks.extend(stay);
        out
    }
    /// Evicted tasks are counted.
    const COUNTS: bool = true;
}

/// A private queue for each worker, an inbox for each worker with tasks that ran there last, and a common
/// queue.
struct Homes<F>(PhantomData<F>);

struct Shared {
    inboxes: Vec<Mutex<VecDeque<TaskRef>>>,
    common: Mutex<VecDeque<TaskRef>>,
    /// How many tasks the queues have, the private ones included.
    count: AtomicUsize,
}

#[derive(Default)]
struct Local {
    me: usize,
    own: VecDeque<TaskRef>,
    turn: usize,
}

fn pop(queue: &Mutex<VecDeque<TaskRef>>) -> Option<TaskRef> {
    queue.lock().expect("no panic").pop_front()
}

impl Shared {
    fn took(&self, task: Option<TaskRef>) -> Option<TaskRef> {
        self.count
            .fetch_sub(usize::from(task.is_some()), Ordering::Relaxed);
        task
    }
}

impl<F: Fault> Policy for Homes<F> {
    type Shared = Shared;
    type Local = Local;

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let shared = Shared {
            inboxes: (0..env.workers).map(|_| Mutex::default()).collect(),
            common: Mutex::default(),
            count: AtomicUsize::new(0),
        };
        let local = |me| Local {
            me,
            ..Local::default()
        };
        Ok((shared, (0..env.workers).map(local).collect()))
    }
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        shared.count.fetch_add(1, Ordering::Relaxed);
        let me = local.as_ref().map(|local| local.me);
        let home = (task.policy_word() as usize).checked_sub(1);
        let home = home.filter(|&home| why == Why::Woken && Some(home) != me);
        if let Some(home) = home.filter(|&home| !(F::KNOWS_REST && cx.rests(WorkerId(home)))) {
            shared.inboxes[home].lock().expect("no panic").push_back(task);
            return Wake::Worker(WorkerId(home));
        }
        match local {
            Some(local) => {
                local.own.push_back(task);
                Wake::None
            }
            None => {
                shared.common.lock().expect("no panic").push_back(task);
                Wake::Any
            }
        }
    }
    fn suspended(_: &Shared, local: &mut Local, mut task: Waiting<'_>, _: &Cx<'_>) {
        task.set_policy_word(local.me as u64 + 1);
    }
    fn next(shared: &Shared, local: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        shared.took(local.own.pop_front())
    }
    fn poll_global(shared: &Shared, local: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        local.turn += 1;
        let inbox = match F::POLLS_INBOXES {
            true => local.turn % shared.inboxes.len(),
            false => local.me,
        };
        let (first, second) = (&shared.inboxes[inbox], &shared.common);
        let task = match local.turn % 2 {
            0 => pop(first).or_else(|| pop(second)),
            _ => pop(second).or_else(|| pop(first)),
        };
        shared.took(task)
    }
    fn scan(shared: &Shared, local: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        let own = local.own.pop_front().or_else(|| pop(&shared.common));
        shared.took(own.or_else(|| shared.inboxes.iter().find_map(pop)))
    }
    fn drain(shared: &Shared, local: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        let own = F::DRAINS_OWN.then(|| local.own.pop_front()).flatten();
        let inbox = || F::DRAINS_INBOX.then(|| pop(&shared.inboxes[local.me])).flatten();
        shared.took(own.or_else(inbox))
    }
    fn evict(shared: &Shared, local: &mut Local, _: u64, _: &Cx<'_>) -> Vec<TaskRef> {
        let mut out = F::evict(&mut local.own);
        out.extend(F::evict(&mut shared.common.lock().expect("no panic")));
        if F::COUNTS {
            shared.count.fetch_sub(out.len(), Ordering::Relaxed);
        }
        out
    }
    fn queued_shared(shared: &Shared) -> Option<usize> {
        Some(shared.count.load(Ordering::Relaxed))
    }
}

fn homes<F: Fault>() -> Homes<F> {
    Homes(PhantomData)
}

struct Faultless;
impl Fault for Faultless {}

#[test]
fn the_policy_without_a_fault_is_accepted() {
    nothing_lost("Faultless", &homes::<Faultless>()).expect("no fault");
    rest_leaves_nothing("Faultless", &homes::<Faultless>()).expect("no fault");
    evictions_are_honest("Faultless", &homes::<Faultless>()).expect("no fault");
}

/// A worker that rests keeps its own queue.
struct Clinging;
impl Fault for Clinging {
    const DRAINS_OWN: bool = false;
}

#[test]
fn a_policy_that_keeps_the_queue_of_a_worker_that_rests_is_rejected() {
    let verdict = rest_leaves_nothing("Clinging", &homes::<Clinging>());
    rejects(verdict, "Clinging", Duty::RestLeavesNothing, "had not run");
}

/// Tasks go home, also where no worker is, and no other worker looks there.
struct Homesick;
impl Fault for Homesick {
    const KNOWS_REST: bool = false;
    const POLLS_INBOXES: bool = false;
}

#[test]
fn a_policy_that_sends_tasks_to_a_worker_that_rests_is_rejected() {
    let verdict = rest_leaves_nothing("Homesick", &homes::<Homesick>());
    rejects(verdict, "Homesick", Duty::RestLeavesNothing, "had not run");
}

/// What came before the worker knew that it had to rest stays there.
struct Unread;
impl Fault for Unread {
    const DRAINS_INBOX: bool = false;
    const POLLS_INBOXES: bool = false;
}

#[test]
fn a_policy_that_forgets_the_inbox_of_a_worker_that_rests_is_rejected() {
    let verdict = rest_leaves_nothing("Unread", &homes::<Unread>());
    rejects(verdict, "Unread", Duty::RestLeavesNothing, "had not run");
}

/// Hands out tasks that were not cancelled.
struct Zealous;
impl Fault for Zealous {
    fn evict(tasks: &mut VecDeque<TaskRef>) -> Vec<TaskRef> {
        tasks.drain(..).collect()
    }
}

#[test]
fn a_policy_that_evicts_what_was_not_cancelled_is_rejected() {
    let verdict = evictions_are_honest("Zealous", &homes::<Zealous>());
    rejects(verdict, "Zealous", Duty::HonestEvict, "which was not cancelled");
}

/// Drops cancelled tasks instead of handing them out.
struct Wasteful;
impl Fault for Wasteful {
    fn evict(tasks: &mut VecDeque<TaskRef>) -> Vec<TaskRef> {
        tasks.retain(|task| !task.is_cancelled());
        Vec::new()
    }
}

#[test]
fn a_policy_that_drops_cancelled_tasks_is_rejected() {
    let verdict = evictions_are_honest("Wasteful", &homes::<Wasteful>());
    rejects(
        verdict,
        "Wasteful",
        Duty::NothingLost,
        "`evict` dropped the reference",
    );
}

/// Loses the tasks behind the first cancelled one.
struct Absentminded;
impl Fault for Absentminded {
    fn evict(tasks: &mut VecDeque<TaskRef>) -> Vec<TaskRef> {
        let place = tasks.iter().position(TaskRef::is_cancelled);
        let Some(place) = place else { return Vec::new() };
        let mut behind = tasks.split_off(place);
        let out = behind.pop_front().into_iter().collect();
        std::mem::forget(behind);
        out
    }
}

#[test]
fn a_policy_that_loses_the_neighbours_of_cancelled_tasks_is_rejected() {
    let verdict = evictions_are_honest("Absentminded", &homes::<Absentminded>());
    rejects(
        verdict,
        "Absentminded",
        Duty::ExhaustiveScan,
        "while the policy held the tasks",
    );
}

/// Counts what it evicts as if it had it.
struct Miscounting;
impl Fault for Miscounting {
    const COUNTS: bool = false;
}

#[test]
fn a_policy_that_counts_what_it_evicted_is_rejected() {
    let verdict = evictions_are_honest("Miscounting", &homes::<Miscounting>());
    rejects(verdict, "Miscounting", Duty::HonestEvict, "reports that it has");
}
