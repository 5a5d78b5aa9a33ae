//! What is wrong, as text.

use super::{INTERNAL, LINKS, SHOWN, count, short};
use crate::observe::dump::graph::named;
use crate::observe::dump::{Dump, Finding, TaskDump, TaskState, WaitDump, WaitsFor};
use std::fmt::{self, Formatter};
use std::mem::discriminant;
use warpweft_task::TaskKind;

impl Dump {
    /// Writes all findings. Of many that are alike, some stand for all.
    pub(super) fn all_findings(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // Of each kind and spawn site, of which there are few: how many there are.
        let mut alike: Vec<(_, _, usize)> = Vec::new();
        for finding in &self.findings {
            let site = finding
                .tasks()
                .first()
                .and_then(|&task| self.tasks[task].spawned_at);
            let kind = discriminant(finding);
            let place = alike.iter().position(|known| (known.0, known.1) == (kind, site));
            let place = place.unwrap_or(alike.len());
            if place == alike.len() {
                alike.push((kind, site, 0));
            }
            alike[place].2 += 1;
            if f.alternate() || alike[place].2 <= SHOWN {
                self.finding(f, finding)?;
            }
        }
        for (_, site, all) in alike {
            let more = all.saturating_sub(SHOWN);
            if f.alternate() || more == 0 {
                continue;
            }
            let at = site.map_or_else(String::new, |site| format!(", of tasks of {site}"));
            writeln!(f, "… and {more} more findings that are alike{at}")?;
        }
        Ok(())
    }

    fn finding(&self, f: &mut Formatter<'_>, finding: &Finding) -> fmt::Result {
        match finding {
            Finding::Cycle { tasks, uncertain } => {
                let (likely, may) = match uncertain {
                    true => ("LIKELY ", "probably cannot"),
                    false => ("", "cannot"),
                };
                let cancelled = match tasks.len() {
                    1 => "it is",
                    _ => "one is",
                };
                let tasks_that = count(tasks.len(), "task");
                writeln!(
                    f,
                    "{likely}DEADLOCK: {tasks_that} {may} go on, unless {cancelled} cancelled"
                )?;
                listed(f, tasks, LINKS, |f, at| {
                    let (task, next) = (tasks[at], tasks[(at + 1) % tasks.len()]);
                    let waits = || self.tasks[task].waits.iter();
                    let depends = waits().find(|wait| wait.holders.contains(&next));
                    let wait = depends.or_else(|| waits().find(|wait| wait.likely.contains(&next)));
                    write!(f, "    {} waits for ", self.label(task))?;
                    match wait {
                        Some(wait) => write!(f, "{}", wait.on)?,
                        None => f.write_str("something")?,
                    }
                    let depends = match (depends, wait.map(|wait| &wait.on)) {
                        (Some(_), _) => "which depends on",
                        (None, Some(WaitsFor::Permits { .. })) => "some of which are probably with",
                        (None, _) => "whose other end was used last by",
                    };
                    writeln!(f, ", {depends} {}", self.label(next))
                })
            }
            Finding::NobodyCanWake { tasks } => {
                let many =
                    |count| format!("NOBODY CAN WAKE {count} tasks: they wait, and no waker of them exists");
                let one = |task| format!("NOBODY CAN WAKE {task}: it waits, and no waker of it exists");
                self.headline(f, tasks, one, many)
            }
            Finding::Abandoned { tasks } => {
                let what = self.abandoned(tasks[0]);
                let many = |count| format!("NOBODY IS KNOWN TO WAKE {count} tasks: {what}");
                let one = |task| format!("NOBODY IS KNOWN TO WAKE {task}: {what}");
                self.headline(f, tasks, one, many)
            }
            Finding::NotPolled { task } => writeln!(
                f,
                "FUTURELOCK: {} waits for a lock that was given to another part of it, which is not polled",
                self.label(*task)
            ),
            Finding::BlocksInKernel { tasks, word } => {
                let count = match tasks.len() {
                    1 => String::from("1 task has"),
                    count => format!("{count} tasks have"),
                };
                writeln!(
                    f,
                    "BLOCKED IN THE KERNEL: {count} waited for the word at {word:#x} without a turn, as for a lock \
                     of the standard library"
                )?;
                listed(f, tasks, SHOWN, |f, at| {
                    let task = tasks[at];
                    writeln!(f, "    {}, {}", self.label(task), self.tasks[task].state)
                })
            }
            Finding::Unattended { tasks } => {
                let since = tasks.iter().filter_map(|&task| self.tasks[task].since).max();
                let since = since.map_or_else(String::new, |since| format!(" for {}", short(since)));
                let waits = self.tasks[tasks[0]].waits.iter().filter(|wait| !wait.told);
                let what = |wait: &WaitDump| {
                    let mut own = wait.holders.iter().chain(&wait.likely);
                    match own.any(|holder| tasks.contains(holder)) {
                        true => format!("{}, unless it has moved them to another task", wait.on),
                        false => wait.on.to_string(),
                    }
                };
                let waits: Vec<String> = waits.map(what).collect();
                let what = waits.join(", and ");
                let many =
                    |count| format!("NO TASK IS KNOWN TO END THE WAIT of {count} tasks{since}: {what}");
                let one = |task| format!("NO TASK IS KNOWN TO END THE WAIT of {task}{since}: {what}");
                self.headline(f, tasks, one, many)
            }
            Finding::NothingRuns { tasks } => {
                writeln!(
                    f,
                    "NOTHING HERE CAN GO ON, unless a thread outside of the runtime acts{}: {} for what no \
                     living task is known to bring,\n    no task runs or is queued, and there is no timer, \
                     socket or closure that blocks",
                    if self.runs() {
                        ", or the task that asks"
                    } else {
                        ""
                    },
                    match tasks.len() {
                        1 => String::from("1 task waits"),
                        more => format!("{more} tasks wait"),
                    }
                )?;
                let behind = self.behind();
                listed(f, tasks, SHOWN, |f, at| {
                    let task = tasks[at];
                    write!(f, "    {} waits for ", self.label(task))?;
                    match &self.tasks[task].waits[..] {
                        [] => f.write_str("something that is not known")?,
                        [wait, ..] => write!(f, "{}", wait.on)?,
                    }
                    let behind = &behind[task];
                    let shown = behind.iter().take(LINKS);
                    let shown: Vec<String> = shown.map(|behind| format!("#{behind}")).collect();
                    match behind.len() - shown.len() {
                        _ if shown.is_empty() => writeln!(f),
                        0 => writeln!(f, "; {} depends on it", shown.join(", ")),
                        more => writeln!(f, "; {} and {more} more depend on it", shown.join(", ")),
                    }
                })
            }
        }
    }

    /// Writes what is wrong with one task, or with many and which ones these are.
    fn headline(
        &self,
        f: &mut Formatter<'_>,
        tasks: &[usize],
        one: impl FnOnce(String) -> String,
        many: impl FnOnce(usize) -> String,
    ) -> fmt::Result {
        if let [task] = *tasks {
            return writeln!(f, "{}", one(self.label(task)));
        }
        writeln!(f, "{}", many(tasks.len()))?;
        listed(f, tasks, SHOWN, |f, at| {
            writeln!(f, "    {}", self.label(tasks[at]))
        })
    }

    /// Returns for what a task waits whose channel's only other end is not known to be used, and why.
    fn abandoned(&self, task: usize) -> String {
        let reason = |wait: &WaitDump| match (&wait.likely[..], &wait.on) {
            ([user, ..], on) => format!("{on}, which is #{user} and cannot go on"),
            ([], on @ (WaitsFor::Receive { last: None, .. } | WaitsFor::Send { last: None, .. })) => format!(
                "{on}; the task that used the only other end last has ended, and may have passed it on"
            ),
            ([], on) => format!("{on}, which is this task or has ended, and may have passed its end on"),
        };
        let waits = self.tasks[task].waits.iter().filter(|wait| !wait.told);
        waits.map(reason).collect::<Vec<_>>().join(", and ")
    }

    /// Returns the tasks that depend on each task.
    fn behind(&self) -> Vec<Vec<usize>> {
        let mut behind = vec![Vec::new(); self.tasks.len()];
        for (number, task) in self.tasks.iter().enumerate() {
            for &holder in task.waits.iter().flat_map(|wait| &wait.holders) {
                // The user of the dump may have removed tasks.
                if let Some(behind) = behind.get_mut(holder) {
                    behind.push(number);
                }
            }
        }
        behind
    }

    /// A task runs: if nothing else does, it is the one that called for the dump.
    fn runs(&self) -> bool {
        let runs = |task: &TaskDump| matches!(task.state, TaskState::Running(_));
        self.tasks.iter().any(runs)
    }

    fn label(&self, number: usize) -> String {
        let task = &self.tasks[number];
        let kind = task
            .kind
            .map_or_else(|| String::from("thread"), |kind| kind.to_string());
        let waits_for_it = |wait: &WaitDump| wait.on == WaitsFor::Fork && wait.holders.contains(&number);
        let place = match (&task.name, task.spawned_at) {
            _ if task.internal => String::from(INTERNAL),
            (name, Some(site)) => format!(" {}", named(name.as_deref(), site)),
            (None, None) if task.kind == Some(TaskKind::Fork) => {
                let mut tasks = self.tasks.iter();
                let whole = tasks.position(|task| task.waits.iter().any(waits_for_it));
                let task = whole.map(|whole| (whole, &self.tasks[whole]));
                task.map_or_else(String::new, |(whole, task)| match task.spawned_at {
                    _ if task.internal => format!(" by #{whole}"),
                    Some(site) => format!(" of #{whole} {}", named(task.name.as_deref(), site)),
                    None => format!(" of #{whole}"),
                })
            }
            (Some(name), None) => format!(" `{}`", name.escape_debug()),
            (None, None) => String::new(),
        };
        format!("#{number} {kind}{place}")
    }
}

/// Writes a line for each of the tasks, by its place, or for the first ones of many.
fn listed(
    f: &mut Formatter<'_>,
    tasks: &[usize],
    most: usize,
    mut line: impl FnMut(&mut Formatter<'_>, usize) -> fmt::Result,
) -> fmt::Result {
    let most = if f.alternate() { usize::MAX } else { most };
    let shown = tasks.len().min(most);
    (0..shown).try_for_each(|at| line(f, at))?;
    match tasks.len() - shown {
        0 => Ok(()),
        more => writeln!(f, "    … and {more} more"),
    }
}
