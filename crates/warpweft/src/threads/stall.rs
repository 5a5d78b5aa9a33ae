//! [`Stall`]: what a report says of a stuck worker, as a value and as text.

use crate::observe::stack::{NoStack, Stack};
use std::fmt;
use std::panic::Location;
use std::time::Duration;
use warpweft_platform::thread_state::ThreadState;
use warpweft_task::TaskKind;

/// A worker that has been in one task for too long: see
/// [`Builder::report_stalls_after`](crate::Builder::report_stalls_after) and
/// [`Builder::on_stall`](crate::Builder::on_stall).
///
/// The monitor reads it while the worker may continue. A report at the end of a task may describe the next
/// one. As text it is several lines, without a line break at the end. The first one names the worker and the
/// task. Line breaks and control characters in names are escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The name of the pool: that of the runtime, or the name given to [`then`](crate::Builder::then) and
    /// [`silos`](crate::Builder::silos).
    pub pool: String,
    /// The number of the worker in its pool, from 0. Numbers from [`Pool::workers`](crate::Pool::workers) on
    /// belong to compensating workers.
    pub worker: usize,
    /// How long, at least, it had been in the task when the monitor noticed. Time in which the process was
    /// stopped does not count.
    pub stuck_for: Duration,
    /// The [name](crate::TaskBuilder::name) of the task, if it has one. With the name from a
    /// [stack](Self::stack), at most 48 bytes. For a fork, that of the task to which it belongs.
    pub name: Option<String>,
    /// What the task is; [`TaskKind::Fork`] for a fork that the worker took. `None` if the task had a name
    /// and has ended, or may be a fiber that has waited and whose stack could not be asked.
    pub kind: Option<TaskKind>,
    /// Where the task was spawned; for a fork, the task to which it belongs. `None` if that task does not
    /// wait for the fork on the stack of a thread, or if [`kind`](Self::kind) is `None`.
    pub spawned_at: Option<&'static Location<'static>>,
    /// The kernel's view of the thread: whether it runs, and if it sleeps, in what. `None` if the kernel does
    /// not report it.
    pub thread_state: Option<ThreadState>,
    /// What waited behind the task.
    pub behind: Behind,
    /// The stack of the code that is stuck, with the feature `stacks`, or why there is none.
    pub stack: Result<Stack, NoStack>,
    /// How many reports were left out since the last one, because there would have been too many. 0 for a
    /// program that has [`on_stall`](crate::Builder::on_stall), which gets all of them.
    pub left_out: usize,
}

/// What waited behind a stuck task, when it was noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Behind {
    /// How many tasks were in the worker's own queue. Other workers take them. `None` if the policy does not
    /// say ([`Policy::queued`](crate::Policy::queued)).
    pub tasks: Option<usize>,
    /// How many tasks there were that only this worker may run.
    pub pinned: usize,
    /// How many fibers of its thread were ready, but for those whose fork or scope has ended since. They wait
    /// until the task ends or waits.
    pub fibers: usize,
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tasks,
            pinned,
            fibers,
        } = self;
        match tasks {
            Some(tasks) => write!(f, "{} in its queue", many(*tasks, "task"))?,
            None => f.write_str("an unknown number of tasks in its queue")?,
        }
        if *pinned > 0 {
            write!(f, ", {} that only it may run", many(*pinned, "task"))?;
        }
        if *fibers > 0 {
            write!(f, ", {} of its thread", many(*fibers, "fiber"))?;
        }
        Ok(())
    }
}

fn many(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl Stall {
    /// Returns the task and what its thread does, in one line.
    pub(crate) fn brief(&self) -> String {
        struct Brief<'a>(&'a Stall);
        impl fmt::Display for Brief<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write_task(f)?;
                self.0.write_state(f, "; ")
            }
        }
        Brief(self).to_string()
    }

    /// Writes what the task is.
    fn write_task(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().map(str::escape_debug);
        match (self.kind, name, self.spawned_at) {
            (Some(TaskKind::Fork), Some(name), Some(site)) => {
                write!(f, "a fork of the task `{name}`, spawned at {site}")?;
            }
            (Some(TaskKind::Fork), None, Some(site)) => write!(f, "a fork of a task spawned at {site}")?,
            (Some(kind), Some(name), Some(site)) => write!(f, "the {kind} `{name}`, spawned at {site}")?,
            (Some(kind), None, Some(site)) => write!(f, "a {kind} spawned at {site}")?,
            (Some(TaskKind::Fork), ..) => f.write_str("a fork that it took")?,
            _ => f.write_str("a fiber that has waited before, or a task that has ended")?,
        }
        Ok(())
    }

    /// Writes what the thread does, after a separator: it computes, or it waits in the kernel.
    fn write_state(&self, f: &mut fmt::Formatter<'_>, separator: &str) -> fmt::Result {
        let Some(thread_state) = &self.thread_state else {
            return Ok(());
        };
        f.write_str(separator)?;
        f.write_str(match thread_state.state {
            'R' => "it computes: ",
            'S' | 'D' => "it blocks in the kernel: ",
            _ => "",
        })?;
        write!(f, "{thread_state}")
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.stuck_for.as_millis();
        let (worker, pool) = (self.worker, self.pool.escape_debug());
        write!(f, "worker {worker} of `{pool}` has been for {millis} ms in ")?;
        self.write_task(f)?;
        self.write_state(f, "\n  ")?;
        write!(f, "\n  behind it, for up to {millis} ms: {}", self.behind)?;
        match &self.stack {
            Ok(stack) => write!(f, "\n  its stack:\n{stack}")?,
            Err(why) => write!(f, "\n  no stack: {why}")?,
        }
        if self.left_out > 0 {
            write!(
                f,
                "\n  {} left out before this one",
                many(self.left_out, "report")
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_is_known() {
        let mut stall = Stall {
            pool: String::from("io"),
            worker: 1,
            stuck_for: Duration::from_millis(212),
            name: Some(String::from("reader")),
            kind: Some(TaskKind::Future),
            spawned_at: Some(Location::caller()),
            thread_state: None,
            behind: Behind {
                tasks: Some(3),
                pinned: 0,
                fibers: 1,
            },
            stack: Err(NoStack::NotBuilt),
            left_out: 1,
        };
        let text = stall.to_string();
        let first = "worker 1 of `io` has been for 212 ms in the future `reader`, spawned at ";
        assert!(text.starts_with(first), "{text}");
        let behind = "behind it, for up to 212 ms: 3 tasks in its queue, 1 fiber of its thread\n";
        assert!(text.contains(behind), "{text}");
        assert!(text.contains("no stack: the feature `stacks`"), "{text}");
        assert!(text.ends_with("1 report left out before this one"), "{text}");
        // Names come from the program's input, perhaps: none begins a line or a terminal's command.
        stall.pool.push_str("\n\r");
        stall.name = Some(String::from("a\nwarpweft: forged\u{1b}[31m"));
        let text = stall.to_string();
        assert!(text.starts_with(r"worker 1 of `io\n\r` has been"), "{text}");
        assert!(
            text.contains(r"the future `a\nwarpweft: forged\u{1b}[31m`, spawned"),
            "{text}"
        );
        stall.name = None;
        assert!(stall.to_string().contains("in a future spawned at"), "{stall}");
        stall.kind = Some(TaskKind::Fork);
        assert!(
            stall.to_string().contains("in a fork of a task spawned at"),
            "{stall}"
        );
        stall.name = Some(String::from("outer"));
        assert!(
            stall
                .to_string()
                .contains("in a fork of the task `outer`, spawned at"),
            "{stall}"
        );
        (stall.name, stall.spawned_at) = (None, None);
        assert!(stall.to_string().contains("in a fork that it took"), "{stall}");
        stall.kind = None;
        assert!(
            stall.to_string().contains("in a fiber that has waited before"),
            "{stall}"
        );
    }
}
