//! The tasks of a report that can never go on.
//!
//! A task goes on when *one* of its waits ends. A wait ends when *all* tasks on which it depends go on. So a
//! task is stuck if each of its waits depends on a task that is stuck. The stuck tasks are the largest set
//! with that property: all that wait for tasks are candidates, and those with a way out leave, until none
//! does.
//!
//! # Invariants
//!
//! - A wait that depends on no known task has a way out: a timer, a socket, an event.
//! - A wait that was told is none: the wake-up was used, and none comes any more. But then the task was
//!   woken, so it counts only if it is asleep again.

use super::{Dump, Finding, TaskDump, TaskState, WaitDump, WaitsFor};
use std::collections::{BTreeMap, BTreeSet};

/// The last tasks that were seen with the other ends of channels, by the task that waits and its wait:
/// whether one is known, and their numbers if they live.
pub(super) type Lasts = BTreeMap<(usize, usize), (usize, Vec<usize>)>;

/// It waits, perhaps in a closure that may block.
fn sleeps(task: &TaskDump) -> bool {
    match task.state {
        TaskState::Waiting => true,
        TaskState::Blocking | TaskState::SpawnedBlocking => !task.waits.is_empty(),
        _ => false,
    }
}

/// Returns the waits that may end the task's sleep.
fn open(task: &TaskDump) -> impl Iterator<Item = &WaitDump> {
    task.waits.iter().filter(|wait| !wait.told)
}

/// Finds what is wrong.
pub(super) fn find(dump: &Dump, lasts: &Lasts) -> Vec<Finding> {
    let tasks = &dump.tasks;
    let stuck = stuck(tasks);
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for &start in &stuck {
        let cycle = cycle(tasks, &stuck, start);
        if cycle.is_empty() || !seen.insert(cycle.iter().copied().min()) {
            continue;
        }
        match cycle[..] {
            [task] if is_not_polled(&tasks[task]) => findings.push(Finding::NotPolled { task }),
            _ => findings.push(Finding::Cycle {
                uncertain: cycle.iter().any(|&task| has_other_wakers(&tasks[task])),
                tasks: cycle,
            }),
        }
    }
    for (number, task) in tasks.iter().enumerate().filter(|(_, task)| sleeps(task)) {
        if task.wakers == Some(0) && task.waits.is_empty() && !task.cancelled {
            findings.push(Finding::NobodyCanWake { task: number });
        } else if is_abandoned(tasks, &stuck, number, lasts) {
            findings.push(Finding::Abandoned { task: number });
        }
    }
    findings
}

/// Returns the largest set of tasks each of whose waits depends on a task of the set.
fn stuck(tasks: &[TaskDump]) -> BTreeSet<usize> {
    let waits = |task: &TaskDump| sleeps(task) && open(task).next().is_some();
    let mut stuck: BTreeSet<usize> = (0..tasks.len()).filter(|&task| waits(&tasks[task])).collect();
    loop {
        let has_way_out = |task: &&usize| {
            open(&tasks[**task]).any(|wait| wait.holders.iter().all(|holder| !stuck.contains(holder)))
        };
        let out: Vec<usize> = stuck.iter().filter(has_way_out).copied().collect();
        if out.is_empty() {
            return stuck;
        }
        for task in out {
            stuck.remove(&task);
        }
    }
}

/// Follows the waits from `start` on, until a task comes a second time. Returns the circle.
fn cycle(tasks: &[TaskDump], stuck: &BTreeSet<usize>, start: usize) -> Vec<usize> {
    let mut path = vec![start];
    loop {
        let Some(&last) = path.last() else {
            return Vec::new();
        };
        let next = open(&tasks[last])
            .flat_map(|wait| &wait.holders)
            .find(|holder| stuck.contains(holder));
        let Some(&next) = next else {
            return Vec::new();
        };
        if let Some(place) = path.iter().position(|&task| task == next) {
            return path.split_off(place);
        }
        path.push(next);
    }
}

/// A part of the task was told of a lock for which another part waits.
fn is_not_polled(task: &TaskDump) -> bool {
    let told = |object| task.waits.iter().any(|wait| wait.told && wait.object == object);
    open(task).any(|wait| told(wait.object))
}

fn has_other_wakers(task: &TaskDump) -> bool {
    task.wakers
        .is_some_and(|wakers| wakers > open(task).count() as u64)
}

/// All waits of the task are for channels whose other end was last seen with the task itself, with one that
/// has ended, or with one that is stuck or waits for this one.
fn is_abandoned(tasks: &[TaskDump], stuck: &BTreeSet<usize>, number: usize, lasts: &Lasts) -> bool {
    let mut some = false;
    for (at, wait) in tasks[number]
        .waits
        .iter()
        .enumerate()
        .filter(|(_, wait)| !wait.told)
    {
        let is_channel = matches!(wait.on, WaitsFor::Receive { .. } | WaitsFor::Send { .. });
        let Some((id, holders)) = lasts.get(&(number, at)).filter(|_| is_channel) else {
            return false;
        };
        // The addresses of threads are odd: such a thread may run, without being in the dump.
        let may_live = *id == 0 || *id & 1 == 1 && holders.is_empty();
        let waits_for_it = |holder: &usize| *holder == number || depends(tasks, *holder, number);
        if may_live
            || !holders
                .iter()
                .all(|holder| stuck.contains(holder) || waits_for_it(holder))
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
    sleeps(task) && open(task).next().is_some() && open(task).all(|wait| wait.holders.contains(&on))
}
