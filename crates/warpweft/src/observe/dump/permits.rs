//! Finds the tasks that have the permits for which others wait.
//!
//! The first waiter is served when enough permits are free. Of those that are not, some are with tasks that
//! are known, and the rest with tasks that are not: that rest may come back at any time. So the first waiter
//! depends on the known tasks if it is short of permits even with all the rest. The others wait behind it.
//!
//! # Invariants
//!
//! - What is counted as known was noted at one moment, under the lock of the semaphore. If it is more than
//!   what is not free, nothing is known.
//! - A task that took permits several times and waits for more has probably taken them for others, as one
//!   that accepts connections does. So it is not known which tasks have them.
//! - A task without a name may have the address of an earlier one of its spawn site, which has ended with
//!   permits. So it has them only probably.

use super::TaskDump;
use super::addresses::Addresses;
use super::graph::{Index, tell};
use super::weights::{Weights, ones, sums};
use crate::observe::raw::{BOUNDED_SCOPE, BoundedPool, RawWait, RawWhat};
use warpweft_task::frame::Who;

/// The most pairs of a wait and a task with a place in a bounded pool. More are left out.
const MOST: usize = 1 << 20;

/// The permits of one object, for which tasks wait.
#[derive(Debug, Clone, Default)]
pub(super) struct Permits {
    /// The tasks that have some.
    pub(super) holders: Vec<usize>,
    /// Those that probably have some.
    pub(super) likely: Vec<usize>,
    /// How many each of `holders` has, and then each of `likely`.
    pub(super) held: Vec<usize>,
    /// Of how many of these, and of those of tasks that are not in the dump, the first waiter is short.
    pub(super) missing: usize,
    /// How many permits are with tasks that are not in the dump.
    pub(super) absent: usize,
    /// The first waiter cannot be served without these.
    pub(super) is_holder_missing: bool,
    pub(super) owner: Option<String>,
    /// How many there are; 0 if that is not known.
    pub(super) all: usize,
}

/// What is known of all objects with permits.
#[derive(Debug, Default)]
pub(super) struct AllPermits(Addresses<PermitObject>);

/// What is known of one object with permits.
#[derive(Debug, Default)]
struct PermitObject {
    /// The tasks that were given permits and have not looked.
    given: Weights,
    /// The tasks in its list.
    in_line: Vec<usize>,
    /// The tasks with a place in a bounded pool, and how many places there are.
    pool: Option<(Vec<usize>, usize)>,
    permits: Option<Permits>,
}

impl AllPermits {
    pub(super) fn new(waits: &[RawWait], bounded: &[BoundedPool], index: &Index) -> Self {
        let mut all = Self::default();
        for wait in waits {
            let RawWhat::Permits { wanted, .. } = &wait.what else {
                continue;
            };
            let Some(task) = index.by_key(wait.waiter) else {
                continue;
            };
            let object = all.0.entry(wait.object).or_default();
            if wait.told {
                object.given.push((task, *wanted));
            } else {
                object.in_line.push(task);
            }
        }
        for pool in bounded {
            let object = all.0.entry(pool.object).or_default();
            let places = index.places.iter().filter(|(number, _)| *number == pool.pool);
            let tasks: Vec<usize> = places.map(|&(_, task)| task).collect();
            if tasks.len().saturating_mul(object.in_line.len()) <= MOST {
                object.pool = Some((tasks, pool.capacity));
            }
        }
        all
    }

    /// Returns the first task in the list of an object.
    pub(super) fn first(&self, object: usize) -> Option<usize> {
        self.0.get(&object)?.in_line.first().copied()
    }

    /// Returns what is known of the object of a wait for permits.
    pub(super) fn of(
        &mut self,
        wait: &RawWait,
        living: impl Fn(Who) -> Vec<usize>,
        dumped: &[TaskDump],
    ) -> Permits {
        let object = self.0.entry(wait.object).or_default();
        if object.permits.is_none() {
            object.permits = Some(object.find(wait, living, dumped).unwrap_or_default());
        }
        object.permits.clone().unwrap_or_default()
    }
}

impl PermitObject {
    fn find(
        &self,
        wait: &RawWait,
        living: impl Fn(Who) -> Vec<usize>,
        dumped: &[TaskDump],
    ) -> Option<Permits> {
        let RawWhat::Permits {
            kind,
            free,
            all,
            first,
            ref holders,
            ..
        } = wait.what
        else {
            return None;
        };
        let (mut certain, mut likely) = (Weights::new(), Weights::new());
        let mut found = Permits::default();
        let all = if let Some((tasks, capacity)) = &self.pool {
            certain = ones(tasks);
            *capacity
        } else if kind == BOUNDED_SCOPE {
            // Each part of the scope that has begun has a place, and the others are not known.
            let parts: Vec<usize> = holders.iter().flat_map(|&(parts, _)| living(parts)).collect();
            certain = ones(&parts);
            holders.iter().map(|(_, places)| places).sum()
        } else {
            all
        };
        found.all = all;
        let holders = match kind {
            BOUNDED_SCOPE => &[][..],
            _ => holders,
        };
        certain.extend_from_slice(&self.given);
        let in_line = &self.in_line;
        let all_living: Vec<Vec<usize>> = holders.iter().map(|&(who, _)| living(who)).collect();
        let takes_for_others = |task: &usize| {
            in_line.contains(task) && all_living.iter().filter(|tasks| tasks[..] == [*task]).count() > 1
        };
        let mut unknown = 0;
        for (&(who, held), tasks) in holders.iter().zip(&all_living) {
            // A thread, and a part of a join, is in the dump only while it waits.
            let is_task = who.id & 1 == 0 && !who.origin.is_null();
            match tasks[..] {
                [] if is_task => {
                    found.absent += held;
                    found.owner = tell(who).or(found.owner);
                }
                [task] if !takes_for_others(&task) => {
                    let is_named = is_task && dumped[task].name.is_some();
                    let list = if is_named { &mut certain } else { &mut likely };
                    list.push((task, held));
                }
                // One of the parts of a join, or an unknown task.
                _ => unknown += held,
            }
        }
        (certain, likely) = (sums(certain), sums(likely));
        found.held = certain.iter().chain(&likely).map(|&(_, held)| held).collect();
        let numbers = |of: Weights| of.into_iter().map(|(task, _)| task).collect();
        (found.holders, found.likely) = (numbers(certain), numbers(likely));
        let known = found.absent + found.held.iter().sum::<usize>();
        let out = all.checked_sub(free).filter(|out| known + unknown <= *out)?;
        found.missing = first.saturating_sub(free + out - known);
        let can_come = |(task, held): (&usize, &usize)| if in_line.contains(task) { 0 } else { *held };
        let numbers = found.holders.iter().chain(&found.likely);
        let can_come: usize = numbers.zip(&found.held).map(can_come).sum();
        found.is_holder_missing = found.absent > 0 && found.missing > can_come;
        if !found.is_holder_missing {
            let mut here = holders
                .iter()
                .zip(&all_living)
                .filter(|(_, tasks)| !tasks.is_empty());
            found.owner = here.find_map(|(&(who, _), _)| tell(who));
        }
        if found.missing == 0 {
            // The others suffice.
            (found.holders, found.likely, found.held) = Default::default();
        }
        Some(found)
    }
}
