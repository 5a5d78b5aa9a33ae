//! From tasks and waits, as they were collected, to a dump.

use super::addresses::{Addresses, addresses};
use super::waits::FoundWaits;
use super::{Dump, PoolDump, TaskDump, TaskState, WaitsFor, blocking, idle, kernel, stuck, unattended};
use crate::observe::raw::{BoundedPool, FullThreads, RawState, RawTask, RawWait, told};
use std::panic::Location;
use std::time::Duration;
use warpweft_task::TaskKind;
use warpweft_task::frame::Who;

/// What was collected.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) pools: Vec<PoolDump>,
    /// With the index of its pool.
    pub(crate) tasks: Vec<(Option<usize>, RawTask)>,
    pub(crate) waits: Vec<RawWait>,
    pub(crate) full: Vec<FullThreads>,
    /// What identifies the task that called for the dump.
    pub(crate) caller: usize,
    pub(crate) bounded: Vec<BoundedPool>,
    pub(crate) now_ns: u64,
    /// No pool of the runtime is left out.
    pub(crate) is_whole: bool,
}

/// Where the tasks of a dump are.
pub(super) struct Index {
    /// By what identifies them: the first of them.
    ids: Addresses<usize>,
    /// All tasks of an address that several have, as the parts of a scope.
    several: Addresses<Vec<usize>>,
    /// By what their wakers know, where that is something else than what identifies them.
    keys: Addresses<usize>,
    /// By the number of the task: true if its wakers know what identifies it, as those of most tasks do.
    is_own_key: Vec<bool>,
    /// By the number of the task: the word that leads to its name and spawn site; 0 if it is not known.
    origins: Vec<usize>,
    /// The tasks with a place in a bounded pool, each with that pool.
    pub(super) places: Vec<(usize, usize)>,
}

impl Index {
    pub(super) fn ids(&self, id: usize) -> &[usize] {
        match self.several.get(&id) {
            Some(all) => all,
            None => self.ids.get(&id).map_or(&[], std::slice::from_ref),
        }
    }

    /// Returns the task that wakers know by that word.
    pub(super) fn by_key(&self, key: usize) -> Option<usize> {
        let own = || self.ids.get(&key).filter(|&&at| self.is_own_key[at]);
        self.keys.get(&key).or_else(own).copied()
    }

    fn add_key(&mut self, key: usize, id: usize, at: usize) {
        if key == id && self.ids.get(&id) == Some(&at) {
            self.is_own_key[at] = true;
        } else {
            self.keys.insert(key, at);
        }
    }

    /// Returns the task that waits, and whether it is known by its waker.
    pub(super) fn waiter(&self, wait: &RawWait) -> Option<(usize, bool)> {
        let direct = self.by_key(wait.waiter).map(|waiter| (waiter, true));
        direct.or_else(|| self.ids(wait.task).first().map(|&waiter| (waiter, false)))
    }

    /// Returns the task that used an end last, or has a lock, if it lives. Another one may have its address
    /// by now, and a task with a name that has ended is not known any more.
    pub(super) fn living(&self, who: Who, dumped: &[TaskDump]) -> Vec<usize> {
        let site = told(who).map(|told| told.location);
        let is_part = who.origin.is_null();
        let is_same = |task: usize| match self.origins[task] {
            0 => dumped[task].spawned_at == site,
            origin => origin == who.origin.addr(),
        };
        let is_it = |&&task: &&usize| is_part || is_same(task);
        self.ids(who.id).iter().filter(is_it).copied().collect()
    }

    fn add(&mut self, id: usize, at: usize) {
        let first = *self.ids.entry(id).or_insert(at);
        if first != at {
            self.several.entry(id).or_insert_with(|| vec![first]).push(at);
        }
    }
}

/// Returns `name (site)`, or the site alone.
pub(super) fn named(name: Option<&str>, site: &Location<'_>) -> String {
    match name {
        Some(name) => format!("`{}` ({site})", name.escape_debug()),
        None => site.to_string(),
    }
}

pub(super) fn tell(who: Who) -> Option<String> {
    told(who)
        .filter(|_| who.id != 0)
        .map(|told| named(told.name.as_deref(), told.location))
}

impl Collected {
    /// Makes a dump.
    pub(crate) fn into_dump(mut self) -> Dump {
        let (dumped, index, joins, forks) = self.merge();
        let threads = self.threads(&index);
        let waits = std::mem::take(&mut self.waits);
        let mut found = FoundWaits::new(&self, &index, dumped, &waits);
        for wait in waits {
            found.add(wait);
        }
        for (waiter, holders) in joins {
            found.add_tasks(WaitsFor::Join, waiter, holders);
        }
        for (waiter, holders) in forks {
            found.add_tasks(WaitsFor::Fork, waiter, holders);
        }
        let FoundWaits {
            mut dumped,
            lasts,
            is_used_outside,
            ..
        } = found;
        for task in &mut dumped {
            let longest = task.waits.iter().filter_map(|wait| wait.since).max();
            // A wait is known to about 10 ms, and may have begun before the task was polled last.
            task.since = task.since.max(longest);
        }
        for full in &self.full {
            blocking::find_holders(&mut dumped, full.object as u64, &self.pools[full.pool].name);
        }
        let mut dump = Dump {
            pools: self.pools,
            tasks: dumped,
            findings: Vec::new(),
        };
        let callers = index.ids(self.caller);
        kernel::look(&mut dump.tasks, &threads);
        dump.findings = stuck::find(&dump, &lasts);
        dump.findings.extend(kernel::find(&dump));
        if self.is_whole && !is_used_outside {
            dump.findings.extend(idle::find(&dump, callers));
        }
        if self.is_whole {
            dump.findings.extend(unattended::find(&dump, &lasts));
        }
        dump
    }

    /// Returns the tasks that have a thread now, with its number.
    fn threads(&self, index: &Index) -> Vec<(usize, u32)> {
        let its = |(_, raw): &(_, RawTask)| Some((*index.ids(raw.id).first()?, raw.thread?));
        self.tasks.iter().filter_map(its).collect()
    }

    /// Puts what was seen of each task in several places together. Returns the tasks, where they are, and the
    /// waits for tasks and for parts of them.
    #[allow(clippy::type_complexity, reason = "it has one caller")]
    fn merge(
        &self,
    ) -> (
        Vec<TaskDump>,
        Index,
        Vec<(usize, Vec<usize>)>,
        Vec<(usize, Vec<usize>)>,
    ) {
        let mut tasks: Vec<TaskDump> = Vec::with_capacity(self.tasks.len());
        let mut index = Index {
            ids: addresses(self.tasks.len()),
            several: addresses(0),
            keys: addresses(0),
            is_own_key: Vec::with_capacity(self.tasks.len()),
            origins: Vec::with_capacity(self.tasks.len()),
            places: Vec::new(),
        };
        // Some are seen more than once, as one that runs is: by its pool, and by its worker or thread.
        // For each of these: the tasks that join it.
        let mut seen_again: Addresses<Vec<usize>> = addresses(0);
        for (pool, raw) in &self.tasks {
            let known = index
                .ids(raw.id)
                .first()
                .copied()
                .filter(|_| raw.kind != Some(TaskKind::Fork));
            let at = known.unwrap_or(tasks.len());
            if let Some(known) = known {
                seen_again.entry(raw.id).or_default();
                // The frame that waits, or the worker, says more than the list of tasks.
                let task = &mut tasks[known];
                if matches!(task.state, TaskState::Queued | TaskState::Running(None)) {
                    task.state = state(raw);
                }
                task.since = task.since.or(self.ago(raw.since_ns));
                task.wakers = raw.wakers.or(task.wakers);
            } else {
                index.add(raw.id, at);
                index.origins.push(raw.origin);
                index.is_own_key.push(false);
                tasks.push(TaskDump {
                    id: raw.id as u64,
                    kind: raw.kind,
                    name: raw.name.clone(),
                    spawned_at: raw.site,
                    pool: pool.map(|pool| self.pools[pool].name.clone()),
                    state: state(raw),
                    since: self.ago(raw.since_ns),
                    waits: Vec::new(),
                    described: Vec::new(),
                    cancelled: raw.cancelled,
                    internal: raw.is_internal,
                    wakers: raw.wakers,
                    thread_state: None,
                    stack: None,
                });
            }
            index
                .places
                .extend(pool.filter(|_| raw.has_place).map(|pool| (pool, at)));
            for key in raw.keys {
                if key != 0 {
                    index.add_key(key, raw.id, at);
                }
            }
        }
        let mut joins = Vec::new();
        let mut forks = Vec::new();
        for (_, raw) in &self.tasks {
            let joiner = raw
                .joiner
                .and_then(|[one, other]| index.by_key(one).or_else(|| index.by_key(other)));
            if let Some(joiner) = joiner {
                let known = seen_again.get_mut(&raw.id);
                if known.as_ref().is_none_or(|joiners| !joiners.contains(&joiner)) {
                    joins.push((joiner, index.ids(raw.id).to_vec()));
                }
                known.into_iter().for_each(|joiners| joiners.push(joiner));
            }
            if raw.state == RawState::Joining || raw.keys[1] != 0 {
                let latch = if raw.keys[1] == 0 {
                    raw.keys[0]
                } else {
                    raw.keys[1]
                };
                if let Some(waiter) = index.by_key(latch) {
                    forks.push((waiter, index.ids(latch).to_vec()));
                }
            }
        }
        (tasks, index, joins, forks)
    }

    pub(super) fn ago(&self, since_ns: Option<u64>) -> Option<Duration> {
        since_ns.map(|ns| Duration::from_nanos(self.now_ns.saturating_sub(ns)))
    }
}

fn state(raw: &RawTask) -> TaskState {
    match raw.state {
        RawState::Waiting | RawState::Joining => TaskState::Waiting,
        RawState::Queued => TaskState::Queued,
        RawState::Running => TaskState::Running(raw.worker),
        RawState::Blocking => TaskState::Blocking,
        RawState::SpawnedBlocking => TaskState::SpawnedBlocking,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_address_are_all_found() {
        let mut index = Index {
            ids: addresses(4),
            several: addresses(0),
            keys: addresses(0),
            is_own_key: Vec::new(),
            origins: Vec::new(),
            places: Vec::new(),
        };
        for (at, id) in [64, 128, 64, 192, 64].into_iter().enumerate() {
            index.add(id, at);
        }
        assert_eq!(index.ids(64), [0, 2, 4]);
        assert_eq!((index.ids(128), index.ids(192)), (&[1][..], &[3][..]));
        assert_eq!(index.ids(0), [0_usize; 0]);
    }
}
