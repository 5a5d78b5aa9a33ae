//! A report for a terminal.

use super::graph::named;
use super::{Dump, Finding, TaskDump, TaskState, WaitDump, WaitsFor};
use crate::observe::stack::WithoutWait;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display, Formatter};
use std::mem::{Discriminant, discriminant};
use std::time::Duration;
use warpweft_task::TaskKind;

/// How many tasks of a group, and how many findings that are alike, are shown.
const SHOWN: usize = 10;
/// How many tasks of a circle, and on which a wait depends, are shown.
const LINKS: usize = 20;

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

/// What tasks of one group have in common: kind, spawn site, state, and what they wait for.
type Group = (
    &'static str,
    usize,
    &'static str,
    Vec<(Discriminant<WaitsFor>, &'static str)>,
);

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
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        let mut numbers: HashMap<Group, usize> = HashMap::new();
        for (number, task) in self.tasks.iter().enumerate() {
            let next = numbers.len();
            let group = *numbers.entry(group(task)).or_insert(next);
            groups.entry(group).or_default().push(number);
        }
        let age = |number: usize| Reverse(self.tasks[number].since);
        let mut groups: Vec<_> = groups.into_values().collect();
        for group in &mut groups {
            group.sort_by_key(|&number| age(number));
        }
        groups.sort_by_key(|group| age(group[0]));
        groups
    }

    /// Writes all findings. Of many that are alike, some stand for all.
    fn all_findings(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut alike: HashMap<_, (usize, usize)> = HashMap::new();
        let mut order = Vec::new();
        for finding in &self.findings {
            let site = finding
                .tasks()
                .first()
                .and_then(|&task| self.tasks[task].spawned_at);
            let key = (
                discriminant(finding),
                site.map(|site| std::ptr::from_ref(site).addr()),
            );
            let next = alike.len();
            let (place, seen) = alike.entry(key).or_insert((next, 0));
            if *place == next {
                order.push((site, 0));
            }
            *seen += 1;
            if f.alternate() || *seen <= SHOWN {
                self.finding(f, finding)?;
            } else {
                order[*place].1 += 1;
            }
        }
        for (site, more) in order.into_iter().filter(|(_, more)| *more > 0) {
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
                writeln!(f, "{likely}DEADLOCK: {} {may} go on", count(tasks.len(), "task"))?;
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
            Finding::NobodyCanWake { task } => writeln!(
                f,
                "NOBODY CAN WAKE {}: it waits, and no waker of it exists",
                self.label(*task)
            ),
            Finding::Abandoned { task } => writeln!(
                f,
                "NOBODY IS KNOWN TO WAKE {}: the last task that used the other end cannot do so any more",
                self.label(*task)
            ),
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
            Finding::Unattended { task } => {
                write!(f, "NO TASK IS KNOWN TO END THE WAIT of {}", self.label(*task))?;
                let since = self.tasks[*task].since;
                since
                    .iter()
                    .try_for_each(|since| write!(f, " for {}", short(*since)))?;
                let waits = self.tasks[*task].waits.iter().filter(|wait| !wait.told);
                for (at, wait) in waits.enumerate() {
                    write!(f, "{} {}", if at == 0 { ":" } else { ", and" }, wait.on)?;
                }
                writeln!(f)
            }
            Finding::NothingRuns { tasks } => {
                writeln!(
                    f,
                    "NOTHING HERE CAN GO ON, unless a thread outside of the runtime acts{}: {} for what no other \
                     task has,\n    no task runs or is queued, and there is no timer, socket or closure that blocks",
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
                listed(f, tasks, SHOWN, |f, at| {
                    let task = tasks[at];
                    write!(f, "    {} waits for ", self.label(task))?;
                    match &self.tasks[task].waits[..] {
                        [] => writeln!(f, "something that is not known"),
                        [wait, ..] => writeln!(f, "{}", wait.on),
                    }
                })
            }
        }
    }

    /// A task runs: if nothing else does, it is the one that called for the report.
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
            (name, Some(site)) => format!(" {}", named(name.as_deref(), site)),
            (None, None) if task.kind == Some(TaskKind::Fork) => {
                let mut tasks = self.tasks.iter();
                let whole = tasks.position(|task| task.waits.iter().any(waits_for_it));
                whole.map_or_else(String::new, |whole| {
                    let task = &self.tasks[whole];
                    let site = task.spawned_at.map(|site| named(task.name.as_deref(), site));
                    format!(" of #{whole} {}", site.unwrap_or_default())
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

/// Returns what tasks that come together have in common.
fn group(task: &TaskDump) -> Group {
    let kind = match task.kind {
        None => "thread",
        Some(TaskKind::Future) => "future",
        Some(TaskKind::Job) => "job",
        Some(TaskKind::Fiber) => "fiber",
        Some(TaskKind::Blocking) => "blocking",
        Some(_) => "fork",
    };
    let state = match task.state {
        TaskState::Queued => "queued",
        TaskState::Running(_) => "running",
        TaskState::Waiting => "waiting",
        TaskState::Blocking => "blocking",
        TaskState::SpawnedBlocking => "spawned",
    };
    let site = task.spawned_at.map_or(0, |site| std::ptr::from_ref(site).addr());
    let wait = |wait: &WaitDump| {
        let of = match wait.on {
            WaitsFor::Lock { kind, .. } | WaitsFor::Permits { kind, .. } | WaitsFor::Event { kind, .. } => {
                kind
            }
            _ => "",
        };
        (discriminant(&wait.on), of)
    };
    (kind, site, state, task.waits.iter().map(wait).collect())
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
        if self.state == TaskState::Waiting && self.waits.is_empty() {
            f.write_str(" for something that is not known")?;
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

impl Display for WaitDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "waits for {}", self.on)?;
        if self.object != 0 {
            write!(f, " {:#x}", self.object)?;
        }
        let is_enough = |held: &[usize], missing| held.iter().sum::<usize>() > missing;
        let is_some =
            matches!(&self.on, WaitsFor::Permits { held, missing, .. } if is_enough(held, *missing));
        for (at, holder) in self.holders.iter().take(LINKS).enumerate() {
            f.write_str(match (is_some, at) {
                (false, _) => ", depends on ",
                (true, 0) => ", depends on some of ",
                (true, _) => ", ",
            })?;
            write!(f, "#{holder}")?;
        }
        if let more @ 1.. = self.holders.len().saturating_sub(LINKS) {
            write!(f, " and {more} more")?;
        }
        if self.is_holder_missing {
            f.write_str(", which is not here: it has ended, has not waited yet, or is another runtime's")?;
        }
        for user in &self.likely {
            write!(f, ", probably depends on #{user}")?;
        }
        if self.is_indirect {
            f.write_str(", by a waker of another crate")?;
        }
        if let Some(since) = self.since {
            write!(f, ", for {}", short(since))?;
        }
        if self.told {
            f.write_str("; it was told, and has not looked")?;
        }
        Ok(())
    }
}

impl Display for WaitsFor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join => f.write_str("the end of a task"),
            Self::Fork => f.write_str("the parts of its join or scope that other workers have"),
            Self::Lock { kind, owner } => {
                write!(f, "the {kind}")?;
                owner.iter().try_for_each(|owner| write!(f, " of {owner}"))
            }
            Self::Permits {
                kind: "rwlock",
                wanted,
                owner,
                ..
            } => {
                f.write_str("the rwlock")?;
                owner.iter().try_for_each(|owner| write!(f, " of {owner}"))?;
                f.write_str(if *wanted == 1 { ", to read" } else { ", to write" })
            }
            Self::Permits {
                kind,
                wanted,
                free,
                owner,
                absent,
                ..
            } => {
                write!(f, "{} of a {kind} ({free} free", count(*wanted, "permit"))?;
                owner
                    .iter()
                    .try_for_each(|owner| write!(f, "; {owner} has some"))?;
                if *absent > 0 {
                    write!(f, "; {} with tasks that are not here", count(*absent, "permit"))?;
                }
                f.write_str(")")
            }
            Self::Barrier { arrived, size } => {
                write!(f, "a barrier at which {arrived} of {size} have arrived")
            }
            Self::Event { kind, last, made_at } => {
                write!(f, "a notification of a {kind}")?;
                made_at.iter().try_for_each(|at| write!(f, " made at {at}"))?;
                last.iter()
                    .try_for_each(|last| write!(f, "; last notified by {last}"))
            }
            Self::Receive {
                capacity,
                senders,
                last,
                made_at,
            } => {
                let senders = count(*senders, "sender");
                match *capacity {
                    usize::MAX => write!(f, "a value of an empty channel (without a bound, {senders})")?,
                    _ => write!(f, "a value of an empty channel (0 of {capacity}, {senders})")?,
                }
                write!(f, " made at {made_at}")?;
                last.iter()
                    .try_for_each(|last| write!(f, "; last used by {last}"))
            }
            Self::Send {
                queued,
                capacity,
                receivers,
                last,
                made_at,
            } => {
                let receivers = count(*receivers, "receiver");
                write!(
                    f,
                    "room in a full channel ({queued} of {capacity}, {receivers}) made at {made_at}"
                )?;
                last.iter()
                    .try_for_each(|last| write!(f, "; last used by {last}"))
            }
            Self::Timer(left) => write!(f, "a timer in {}", short(*left)),
            Self::Socket { descriptor, write } => {
                let to = if *write { "written" } else { "read" };
                match descriptor {
                    Some(descriptor) => write!(f, "descriptor {descriptor} to be {to}"),
                    None => write!(f, "a descriptor to be {to}"),
                }
            }
            Self::BlockingPlace => f.write_str("a thread of `spawn_blocking`"),
            Self::Cancellation => f.write_str("the cancellation of a token"),
        }
    }
}
