//! A report for a terminal.

use super::graph::named;
use super::{Dump, Finding, TaskDump, TaskState, WaitDump, WaitsFor};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

impl Display for Dump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            self.finding(f, finding)?;
        }
        for pool in &self.pools {
            write!(
                f,
                "pool `{}`: {} workers, policy {}, {} tasks in queues",
                pool.name.escape_debug(),
                pool.workers,
                pool.policy,
                pool.ready
            )?;
            if pool.closed {
                f.write_str(", closed")?;
            }
            if pool.forked {
                f.write_str(", in the parent of this forked process")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{} tasks and threads:", self.tasks.len())?;
        for (number, task) in self.tasks.iter().enumerate() {
            writeln!(f, "#{number} {task}")?;
            for wait in &task.waits {
                writeln!(f, "    {wait}")?;
            }
        }
        Ok(())
    }
}

impl Dump {
    fn finding(&self, f: &mut Formatter<'_>, finding: &Finding) -> fmt::Result {
        match finding {
            Finding::Cycle { tasks, uncertain } => {
                let may = if *uncertain { "probably cannot" } else { "cannot" };
                writeln!(f, "DEADLOCK: {} {may} go on", count(tasks.len(), "task"))?;
                for (at, task) in tasks.iter().enumerate() {
                    let next = tasks[(at + 1) % tasks.len()];
                    let wait = self.tasks[*task]
                        .waits
                        .iter()
                        .find(|wait| wait.holders.contains(&next));
                    write!(f, "    {} waits for ", self.label(*task))?;
                    match wait {
                        Some(wait) => write!(f, "{}", wait.on)?,
                        None => f.write_str("something")?,
                    }
                    writeln!(f, ", which depends on {}", self.label(next))?;
                }
                Ok(())
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
        }
    }

    fn label(&self, number: usize) -> String {
        let task = &self.tasks[number];
        let kind = task
            .kind
            .map_or_else(|| String::from("thread"), |kind| kind.to_string());
        let place = match (&task.name, task.spawned_at) {
            (name, Some(site)) => format!(" {}", named(name.as_deref(), site)),
            (Some(name), None) => format!(" `{}`", name.escape_debug()),
            (None, None) => String::new(),
        };
        format!("#{number} {kind}{place}")
    }
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
    let ms = duration.as_millis();
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms / 100 % 10),
        _ => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
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
        for holder in &self.holders {
            write!(f, ", depends on #{holder}")?;
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
            Self::Permits { kind, wanted, free } => write!(f, "{wanted} permits of a {kind} ({free} free)"),
            Self::Event { kind } => write!(f, "a notification of a {kind}"),
            Self::Receive {
                capacity,
                senders,
                last,
            } => {
                write!(
                    f,
                    "a value of an empty channel (0 of {capacity}, {})",
                    count(*senders, "sender")
                )?;
                last.iter()
                    .try_for_each(|last| write!(f, "; last used by {last}"))
            }
            Self::Send {
                queued,
                capacity,
                receivers,
                last,
            } => {
                let receivers = count(*receivers, "receiver");
                write!(f, "room in a full channel ({queued} of {capacity}, {receivers})")?;
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
        }
    }
}
