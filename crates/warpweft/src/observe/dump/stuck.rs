//! The tasks of a dump that can never go on.
//!
//! A task goes on when *one* of its waits ends. A wait ends when *all* tasks on which it depends go on; one
//! for a thread of `spawn_blocking`, when *one* of them does; one for permits, when those that go on have
//! enough of them. So a task is stuck if too few of the tasks go on on which each of its waits depends. The
//! stuck tasks are the largest set with that property: all that wait for tasks are candidates, and those with
//! a way out leave, until none does.
//!
//! # Invariants
//!
//! - A wait that depends on no known task has a way out: a timer, a socket, an event.
//! - What a task is only likely to depend on gives findings that are uncertain, and none that is certain.
//! - A wait that was told is none: the wake-up was used, and none comes any more. But then the task was
//!   woken, so it counts only if it is asleep again.

use super::idle::has_way_out;
use super::task_set::TaskSet;
use super::unattended::LONG;
use super::weights::{Weights, ones, sums, weight_of};
use super::{Dump, Finding, TaskDump, TaskState, WaitDump, WaitsFor};
use crate::observe::raw::LIMIT;

/// On which tasks a wait depends: it ends when those of them that go on have a certain weight together.
struct Need {
    /// The weight of each task: how many permits it has; otherwise 1. Empty if it depends on none.
    on: Weights,
    enough: usize,
}

impl Need {
    fn of(wait: &WaitDump, is_likely: bool) -> Self {
        if let WaitsFor::Permits {
            held,
            missing,
            absent,
            ..
        } = &wait.on
        {
            let (certain, probable) = held.split_at(wait.holders.len().min(held.len()));
            let mut enough = missing.saturating_sub(*absent);
            let mut on = Weights::new();
            let mut add = |tasks: &[usize], held: &[usize]| {
                on.extend(tasks.iter().copied().zip(held.iter().copied()));
            };
            add(&wait.holders, certain);
            if is_likely {
                add(&wait.likely, probable);
            } else {
                enough = enough.saturating_sub(probable.iter().sum());
            }
            if enough == 0 {
                on.clear();
            }
            return Self { on: sums(on), enough };
        }
        let likely: &[usize] = if is_likely { &wait.likely } else { &[] };
        let on = ones(wait.holders.iter().chain(likely));
        let enough = if is_for_a_thread(wait) { 1 } else { on.len() };
        Self { on, enough }
    }

    /// The wait does not end before this task goes on.
    fn is_needed(&self, task: usize) -> bool {
        let all: usize = self.on.iter().map(|(_, weight)| weight).sum();
        weight_of(&self.on, task).is_some_and(|own| all - own < self.enough)
    }
}

type Needs = fn(&WaitDump) -> Need;

fn certain(wait: &WaitDump) -> Need {
    Need::of(wait, false)
}

fn likely(wait: &WaitDump) -> Need {
    Need::of(wait, true)
}

/// The last task that was seen with the other side of what is waited for.
#[derive(Debug)]
pub(super) struct Last {
    /// The place of the wait among those of the task that waits.
    pub(super) wait: usize,
    /// What identifies the last task.
    pub(super) id: usize,
    /// Its number if it lives. Several may have that identity.
    pub(super) living: Vec<usize>,
}

/// By the task that waits, and in the order of its waits.
pub(super) type Lasts = Vec<Vec<Last>>;

/// Returns the last task with the other side of this wait, if one is known.
pub(super) fn last_of(lasts: &Lasts, task: usize, wait: usize) -> Option<&Last> {
    let place = lasts[task].binary_search_by_key(&wait, |last| last.wait);
    place.ok().map(|place| &lasts[task][place])
}

/// It waits, perhaps in a closure that may block.
pub(super) fn sleeps(task: &TaskDump) -> bool {
    match task.state {
        TaskState::Waiting => true,
        TaskState::Blocking | TaskState::SpawnedBlocking => !task.waits.is_empty(),
        // A closure for which there is no thread.
        TaskState::Queued => !task.waits.is_empty() && task.waits.iter().all(is_for_a_thread),
        TaskState::Running(_) => false,
    }
}

fn is_for_a_thread(wait: &WaitDump) -> bool {
    matches!(wait.on, WaitsFor::BlockingPlace)
}

/// Returns the waits that may end the task's sleep.
pub(super) fn open(task: &TaskDump) -> impl Iterator<Item = &WaitDump> {
    task.waits.iter().filter(|wait| !wait.told)
}

/// Finds what is wrong.
pub(super) fn find(dump: &Dump, lasts: &Lasts) -> Vec<Finding> {
    let tasks = &dump.tasks;
    let mut findings = Vec::new();
    let mut seen = TaskSet::new(tasks.len());
    let known = stuck(tasks, certain);
    find_cycles(tasks, &known, (certain, false), &mut seen, &mut findings);
    if tasks
        .iter()
        .any(|task| open(task).any(|wait| !wait.likely.is_empty()))
    {
        let suspected = stuck(tasks, likely);
        find_cycles(tasks, &suspected, (likely, true), &mut seen, &mut findings);
    }
    for (number, task) in tasks.iter().enumerate().filter(|(_, task)| sleeps(task)) {
        if task.wakers == Some(0) && task.waits.is_empty() && !task.cancelled {
            findings.push(Finding::NobodyCanWake { tasks: vec![number] });
        } else if !seen.contains(number) && is_abandoned(tasks, &known, number, lasts) {
            findings.push(Finding::Abandoned { tasks: vec![number] });
        }
    }
    findings
}

/// Finds the circles among the stuck tasks. None shares a task with one that was `seen` before.
fn find_cycles(
    tasks: &[TaskDump],
    stuck: &TaskSet,
    (needs, is_likely): (Needs, bool),
    seen: &mut TaskSet,
    findings: &mut Vec<Finding>,
) {
    // By the walk that came there first. A walk that meets an earlier one leads to the same circle.
    let mut walks = vec![None; tasks.len()];
    for start in stuck.tasks() {
        let cycle = cycle(tasks, stuck, needs, start, &mut walks);
        if cycle.is_empty() || cycle.iter().any(|&task| seen.contains(task)) {
            continue;
        }
        if cycle.len() == 1 && has_passed_permits_on(tasks, cycle[0]) {
            continue;
        }
        seen.insert_all(&cycle);
        match cycle[..] {
            [task] if is_not_polled(&tasks[task]) => findings.push(Finding::NotPolled { task }),
            _ => findings.push(Finding::Cycle {
                uncertain: is_likely
                    || cycle.iter().any(|&task| may_be_woken(&tasks[task]))
                    || cycle.len() == 1 && may_have_passed_on(tasks, cycle[0]),
                tasks: cycle,
            }),
        }
    }
}

/// Returns the largest set of tasks each of whose waits depends on a task of the set.
fn stuck(tasks: &[TaskDump], needs: Needs) -> TaskSet {
    // Each wait, with the weight of the tasks that must leave the set before it ends, and the waits that
    // depend on a task, with its weight.
    let mut waits: Vec<(usize, usize)> = Vec::new();
    let mut dependent: Vec<Vec<(usize, usize)>> = vec![Vec::new(); tasks.len()];
    let mut stuck = TaskSet::new(tasks.len());
    let mut leave = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        let is_candidate = sleeps(task) && open(task).next().is_some();
        // Most tasks wait for what is no task's, and then nothing is allocated for them.
        let needs = || open(task).map(needs);
        if !is_candidate || needs().any(|need| need.on.is_empty()) {
            leave.push(number);
            continue;
        }
        stuck.insert_all(&[number]);
        for need in needs() {
            for &(holder, weight) in &need.on {
                dependent[holder].push((waits.len(), weight));
            }
            waits.push((number, need.enough));
        }
    }
    while let Some(task) = leave.pop() {
        for (wait, weight) in std::mem::take(&mut dependent[task]) {
            let (waiter, enough) = &mut waits[wait];
            *enough = enough.saturating_sub(weight);
            if *enough == 0 && stuck.remove(*waiter) {
                leave.push(*waiter);
            }
        }
    }
    stuck
}

/// Follows the waits from `start` on, until a task comes a second time. Returns the circle, if no earlier
/// walk has come there.
fn cycle(
    tasks: &[TaskDump],
    stuck: &TaskSet,
    needs: Needs,
    start: usize,
    walks: &mut [Option<usize>],
) -> Vec<usize> {
    let mut path = Vec::new();
    let mut at = start;
    loop {
        match walks[at].replace(start) {
            None => {}
            Some(walk) if walk == start => {
                let place = path.iter().position(|&task| task == at);
                return place.map_or_else(Vec::new, |place| path.split_off(place));
            }
            Some(_) => return Vec::new(),
        }
        path.push(at);
        let next = open(&tasks[at]).find_map(|wait| {
            let need = needs(wait);
            let on = need.on.iter().map(|&(holder, _)| holder);
            let of_stuck: Vec<usize> = on.filter(|&holder| stuck.contains(holder)).collect();
            let find = |is_it: &dyn Fn(usize) -> bool| of_stuck.iter().copied().find(|&holder| is_it(holder));
            // Two readers that both want to write are a circle of two.
            find(&|holder| holder != at && need.is_needed(holder))
                .or_else(|| find(&|holder| need.is_needed(holder)))
                // Where none is needed by itself, all of them belong to the circle.
                .or_else(|| find(&|holder| walks[holder].is_none()))
                .or_else(|| path.iter().copied().find(|&task| weight_of(&need.on, task).is_some()))
                .or_else(|| find(&|_| true))
        });
        match next {
            Some(next) => at = next,
            None => return Vec::new(),
        }
    }
}

/// A part of the task was told of a lock for which another part waits.
fn is_not_polled(task: &TaskDump) -> bool {
    let told = |object| task.waits.iter().any(|wait| wait.told && wait.object == object);
    open(task).any(|wait| told(wait.object))
}

/// A waker of the task is in a place that is not known.
fn may_be_woken(task: &TaskDump) -> bool {
    let has_more = task
        .wakers
        .is_some_and(|wakers| wakers > open(task).count() as u64);
    has_more || open(task).any(|wait| wait.is_indirect)
}

/// The task waits for permits of a kind that is often moved to other tasks, as one that accepts connections
/// does, and has some itself, for all that is known. Another task goes on.
fn has_passed_permits_on(tasks: &[TaskDump], number: usize) -> bool {
    let is_moved = |wait: &WaitDump| match wait.on {
        WaitsFor::Permits { kind, .. } => kind == "semaphore" || kind == LIMIT,
        _ => false,
    };
    let mut waits = open(&tasks[number]);
    waits.all(is_moved) && !is_not_polled(&tasks[number]) && may_have_passed_on(tasks, number)
}

/// The task waits for a lock of its own, and another task goes on, to which it may have moved the guard.
fn may_have_passed_on(tasks: &[TaskDump], number: usize) -> bool {
    let is_guarded = |wait: &WaitDump| matches!(wait.on, WaitsFor::Lock { .. } | WaitsFor::Permits { .. });
    let mut others = tasks.iter().enumerate().filter(|(other, _)| *other != number);
    open(&tasks[number]).any(is_guarded) && others.any(|(_, task)| task.pool.is_some() && has_way_out(task))
}

/// All waits of the task are for channels whose other end was last seen with the task itself, with one that
/// is stuck or waits for this one, or with one that has ended [long](LONG) ago.
fn is_abandoned(tasks: &[TaskDump], stuck: &TaskSet, number: usize, lasts: &Lasts) -> bool {
    let mut some = false;
    for (at, wait) in tasks[number]
        .waits
        .iter()
        .enumerate()
        .filter(|(_, wait)| !wait.told)
    {
        let has_one_other_end = match wait.on {
            WaitsFor::Receive { senders: ends, .. } | WaitsFor::Send { receivers: ends, .. } => ends <= 1,
            _ => false,
        };
        let last = last_of(lasts, number, at).filter(|_| has_one_other_end);
        let Some(Last { id, living, .. }) = last else {
            return false;
        };
        // The addresses of threads are odd: such a thread may run, without being in the dump. A task that has
        // ended may have passed its end on.
        let is_long_ago = wait.since.is_some_and(|since| since >= LONG);
        let may_live = living.is_empty() && (*id & 1 == 1 || !is_long_ago);
        let waits_for_it = |holder: &usize| *holder == number || depends(tasks, *holder, number);
        if may_live
            || !living
                .iter()
                .all(|holder| stuck.contains(*holder) || waits_for_it(holder))
        {
            return false;
        }
        some = true;
    }
    some
}

/// All waits of the task depend on `on`, directly.
fn depends(tasks: &[TaskDump], task: usize, on: usize) -> bool {
    let task = &tasks[task];
    sleeps(task) && open(task).next().is_some() && open(task).all(|wait| certain(wait).is_needed(on))
}
