//! A dump for a terminal.

mod findings;
mod waits;

use super::graph::named;
use super::groups::{GroupKey, Groups};
use super::names::kind_name;
use super::{Dump, TaskDump, TaskState, WaitsFor};
use crate::observe::order::{by_key, longest_first};
use crate::observe::stack::WithoutWait;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// How many tasks of a group, and how many findings that are alike, are shown.
const SHOWN: usize = 10;
/// How many tasks of a circle, and on which a wait depends, are shown.
const LINKS: usize = 20;
/// What a job of the runtime itself does.
const INTERNAL: &str = " of the runtime, which runs parts of a task that waits";

impl Display for Dump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.all_findings(f)?;
        for pool in &self.pools {
            write!(f, "pool `{}`: {} workers", pool.name.escape_debug(), pool.workers)?;
            write!(f, ", policy {}, {} tasks in queues", pool.policy, pool.ready)?;
            if pool.unlisted > 0 {
                write!(f, " ({} of them not listed)", pool.unlisted)?;
            }
            if pool.left_out > 0 {
                write!(f, ", {} tasks that wait are left out", pool.left_out)?;
            }
            if pool.closed {
                f.write_str(", closed")?;
            }
            if pool.forked {
                f.write_str(", in the parent of this forked process")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{} tasks and threads:", self.tasks.len())?;
        if f.alternate() {
            return (0..self.tasks.len()).try_for_each(|number| self.task(f, number));
        }
        for group in self.groups() {
            let shown = group.len().min(SHOWN);
            group[..shown]
                .iter()
                .try_for_each(|&number| self.task(f, number))?;
            if let more @ 1.. = group.len() - shown {
                let task = &self.tasks[group[0]];
                let at = task
                    .spawned_at
                    .map_or_else(|| String::from("without a site"), |site| format!("at {site}"));
                writeln!(
                    f,
                    "    … and {more} more {at}, which do the same; `{{:#}}` and JSON have them all"
                )?;
            }
        }
        Ok(())
    }
}

impl Dump {
    fn task(&self, f: &mut Formatter<'_>, number: usize) -> fmt::Result {
        let task = &self.tasks[number];
        writeln!(f, "#{number} {task}")?;
        if let Some(state) = &task.thread_state {
            writeln!(f, "    {state}")?;
        }
        task.waits.iter().try_for_each(|wait| writeln!(f, "    {wait}"))?;
        match &task.stack {
            None => Ok(()),
            Some(Ok(stack)) => {
                let text = match task.state {
                    TaskState::Running(_) => stack.to_string(),
                    _ => WithoutWait(stack).to_string(),
                };
                text.lines().try_for_each(|frame| writeln!(f, "    {frame}"))
            }
            Some(Err(why)) => writeln!(f, "    no stack: {why}"),
        }
    }

    /// Returns the tasks in groups, those in which a task has waited longest first.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut all = Groups::default();
        for (number, task) in self.tasks.iter().enumerate() {
            all.add(group(task), number);
        }
        let mut groups = all.groups;
        let age = |task: usize| longest_first(self.tasks[task].since);
        let mut order = Vec::new();
        for (place, group) in groups.iter_mut().enumerate() {
            *group = by_key(group.iter().map(|&task| (age(task), task)).collect());
            order.push((age(group[0]), place));
        }
        let order = by_key(order).into_iter();
        order.map(|place| std::mem::take(&mut groups[place])).collect()
    }
}

/// Returns what tasks that come together have in common: kind, spawn site, state, and what they wait for.
fn group(task: &TaskDump) -> GroupKey {
    let mut words = vec![(0, kind_name(task.kind)), (0, task.state.name())];
    for wait in &task.waits {
        let of = match wait.on {
            WaitsFor::Lock { kind, .. } | WaitsFor::Permits { kind, .. } | WaitsFor::Event { kind, .. } => {
                kind
            }
            _ => "",
        };
        words.extend([(0, wait.on.name()), (0, of)]);
    }
    let site = task.spawned_at.map_or(0, |site| std::ptr::from_ref(site).addr());
    (site, words)
}

fn count(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

impl Display for TaskDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{kind}")?,
            None => f.write_str("thread")?,
        }
        match (&self.name, self.spawned_at) {
            _ if self.internal => f.write_str(INTERNAL)?,
            (name, Some(site)) => write!(f, " {}", named(name.as_deref(), site))?,
            (Some(name), None) => write!(f, " `{}`", name.escape_debug())?,
            (None, None) => {}
        }
        if let Some(pool) = &self.pool {
            write!(f, " in `{}`", pool.escape_debug())?;
        }
        write!(f, ": {}", self.state)?;
        if let Some(since) = self.since {
            write!(f, " for {}", short(since))?;
        }
        if self.state == TaskState::Waiting {
            if !self.described.is_empty() {
                let what = self.described.join(" or ");
                write!(f, " for {}, as its code says", what.escape_debug())?;
            } else if self.waits.is_empty() {
                f.write_str(" for something that is not known")?;
            }
        }
        if self.cancelled {
            f.write_str(", to be cancelled")?;
        }
        Ok(())
    }
}

/// A duration without digits that say nothing.
fn short(duration: Duration) -> String {
    /// From two hours and from two days on they are counted, in milliseconds.
    const HOURS: u128 = 2 * 3_600_000;
    const DAYS: u128 = 2 * 86_400_000;
    let ms = duration.as_millis();
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms / 100 % 10),
        60_000..HOURS => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        HOURS..DAYS => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{} days {} h", ms / 86_400_000, ms / 3_600_000 % 24),
    }
}

impl Display for TaskState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued => f.write_str("queued"),
            Self::Running(Some(worker)) => write!(f, "running on worker {worker}"),
            Self::Running(None) => f.write_str("running"),
            Self::Waiting => f.write_str("waiting"),
            Self::Blocking => f.write_str("in `blocking`"),
            Self::SpawnedBlocking => f.write_str("running in `spawn_blocking`"),
        }
    }
}
