//! The tasks that wait long for what no living task is known to bring.
//!
//! [`idle`](super::idle) speaks of a whole runtime, and one timer silences it. This looks at each task by
//! itself: a server whose heartbeat goes on may have forgotten a sender.

use super::alike::by_what;
use super::stuck::{Last, Lasts, last_of, open, sleeps};
use super::task_set::TaskSet;
use super::{Dump, Finding, TaskDump, WaitDump, WaitsFor};
use crate::observe::raw::BOUNDED_SCOPE;
use std::time::Duration;

/// How long a task must have waited.
pub(super) const LONG: Duration = Duration::from_secs(1);

/// Finds them. What other findings name is not named again.
pub(super) fn find(dump: &Dump, lasts: &Lasts) -> Vec<Finding> {
    let named = TaskSet::named_in(dump);
    let tasks = dump.tasks.iter().enumerate();
    let found = tasks
        .filter(|(number, task)| !named.contains(*number) && is_unattended(*number, task, lasts))
        .map(|(number, _)| number);
    let groups = by_what(&dump.tasks, found.collect()).into_iter();
    groups.map(|tasks| Finding::Unattended { tasks }).collect()
}

fn is_unattended(number: usize, task: &TaskDump, lasts: &Lasts) -> bool {
    // Another crate may wake it.
    let is_known = task
        .wakers
        .is_none_or(|wakers| wakers <= open(task).count() as u64);
    let is_old = |wait: &WaitDump| wait.since.is_some_and(|since| since >= LONG);
    let mut waits = task.waits.iter().enumerate();
    task.pool.is_some()
        && sleeps(task)
        && is_known
        && !task.cancelled
        && !task.waits.is_empty()
        && waits.all(|(at, wait)| {
            let last = last_of(lasts, number, at);
            !wait.told && is_old(wait) && is_from_a_task(&wait.on) && !is_known_to_come(number, wait, last)
        })
}

/// Another task brings it, or a thread outside.
fn is_from_a_task(on: &WaitsFor) -> bool {
    match on {
        // The jobs of the scope give it back when they end, and are tasks or parts of their own.
        WaitsFor::Permits { kind, .. } if *kind == BOUNDED_SCOPE => false,
        WaitsFor::Lock { .. }
        | WaitsFor::Permits { .. }
        | WaitsFor::Event { .. }
        | WaitsFor::Barrier { .. }
        | WaitsFor::Receive { .. }
        | WaitsFor::Send { .. } => true,
        WaitsFor::Join
        | WaitsFor::Fork
        | WaitsFor::Timer(_)
        | WaitsFor::Deadline(_)
        | WaitsFor::Socket { .. }
        | WaitsFor::BlockingPlace
        | WaitsFor::Cancellation => false,
    }
}

/// A living task has some of the permits, and others that are not known have the rest.
fn has_living_owner(wait: &WaitDump) -> bool {
    let is_owned = matches!(&wait.on, WaitsFor::Permits { owner: Some(_), .. });
    is_owned && wait.holders.is_empty() && wait.likely.is_empty() && !wait.is_holder_missing
}

/// A task that lives has it, or has used the other side last; or a thread outside has.
fn is_known_to_come(waiter: usize, wait: &WaitDump, last: Option<&Last>) -> bool {
    let lives = |&task: &usize| task != waiter;
    let has_used = |last: &Last| last.id & 1 == 1 || last.living.iter().any(lives);
    let mut known = wait.holders.iter().chain(&wait.likely);
    known.any(lives) || last.is_some_and(has_used) || has_living_owner(wait)
}
