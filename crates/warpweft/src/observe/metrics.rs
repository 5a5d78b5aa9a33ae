//! What a pool does, in numbers: the value that a program reads.

use super::recorder::times::Distribution;
use crate::observe::PoolCounters;
use std::fmt;
use std::time::Duration;
use warpweft_policy::Count;

/// What a runtime does, in numbers, at one moment. See [`Runtime::metrics`](crate::Runtime::metrics).
///
/// Each number is recent, but they are not read at the same instant: two of them may disagree by what
/// happened in between. As text it is a few lines for each pool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// The pools, in the order of the runtime.
    pub pools: Vec<PoolMetrics>,
}

/// What a pool does, in numbers, at one moment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// The name of the pool.
    pub name: String,
    /// The policy, as text.
    pub policy: String,
    /// How long the pool has existed.
    pub age: Duration,
    /// The tasks that have not ended.
    pub tasks: TaskCounts,
    /// How long the queues are, and what is waited for outside of tasks.
    pub depths: Depths,
    /// The threads.
    pub threads: ThreadCounts,
    /// How often a worker was found stuck in a task.
    pub stalls: usize,
    /// For how long each worker has been awake: it ran tasks, or searched for some. Compensating workers are
    /// not among them.
    pub busy: Vec<Duration>,
    /// What the workers counted.
    pub counters: PoolCounters,
    /// How long tasks ran and waited, of each class. Empty until steps were
    /// [measured](crate::Recorder::measure_steps).
    pub classes: Vec<ClassMetrics>,
}

/// Tasks that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCounts {
    /// Tasks of all kinds in the queues of the policy.
    pub runnable: usize,
    /// Futures that have waited at least once. Some of them may be runnable again, or running.
    pub futures: usize,
    /// Fibers that have waited at least once.
    pub fibers: usize,
    /// Jobs that have begun: they run, or wait in the middle of their closure.
    ///
    /// The ones that have not begun are among [`runnable`](Self::runnable), where kinds are not told apart: a
    /// count for each kind would cost each spawn and each end of a task.
    pub jobs: usize,
    /// Second halves of joins, and jobs of scopes, that another worker has taken and begun. Those that nobody
    /// has taken are no tasks yet, and cost nothing because nobody counts them; see [`Depths::forks`].
    pub forks: usize,
    /// Closures of [`spawn_blocking`](crate::spawn_blocking) that run.
    pub blocking: usize,
}

/// How long the queues are, and what is waited for outside of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depths {
    /// Tasks in the queues that no worker owns: from outside, yielded, or without room in a worker's own
    /// queue. `None` if the policy does not say, or the pool has ended.
    pub injector: Option<usize>,
    /// Tasks in each worker's own queue, likewise. Compensating workers are not among them.
    pub local: Vec<Option<usize>>,
    /// Workers with a fork on offer. Each offers its oldest one, and the younger ones are behind it.
    pub forks: usize,
    /// Closures of [`spawn_blocking`](crate::spawn_blocking) that were admitted and wait for a thread.
    pub blocking: usize,
    /// Timers that are set.
    pub timers: usize,
    /// Sockets and other descriptors that are registered.
    pub sockets: usize,
}

/// Threads of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadCounts {
    /// Threads that carry a worker, did, or may.
    pub all: usize,
    /// The ones among `all` in the middle of a task that waits, without a worker.
    pub blocked: usize,
    /// The ones among `all` that wait for a worker.
    pub spare: usize,
    /// Threads of [`spawn_blocking`](crate::spawn_blocking).
    pub blocking: usize,
    /// Workers that search for work.
    pub searching: usize,
    /// Workers that sleep.
    pub sleeping: usize,
}

/// How long the tasks of a class ran and waited.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClassMetrics {
    /// The [priority](crate::Priority) of the class; `None` for tasks without one. Priorities from 6 on are
    /// one class.
    pub priority: Option<u8>,
    /// From the push of a new task to its first step. Of many tasks in the queue only some are sampled.
    pub queue_delay: Distribution,
    /// From a wake to the step that follows; sampled likewise.
    pub wake_to_run: Distribution,
    /// How long each step took, the time until the worker had its next task included.
    pub run_time: Distribution,
}

/// A length, or a question mark.
struct KnownLength(Option<usize>);

impl fmt::Display for KnownLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(len) => write!(f, "{len}"),
            None => f.write_str("?"),
        }
    }
}

/// The lengths of the workers' own queues.
struct Each<'a>(&'a [Option<usize>]);

impl fmt::Display for Each<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (worker, &len) in self.0.iter().enumerate() {
            let comma = if worker > 0 { ", " } else { "" };
            write!(f, "{comma}{}", KnownLength(len))?;
        }
        Ok(())
    }
}

impl PoolMetrics {
    /// Returns the share of the time since the pool was made in which its workers were awake, from 0 to 1.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let all = self.age.as_secs_f64() * self.busy.len() as f64;
        if all == 0.0 {
            return 0.0;
        }
        (self.busy.iter().sum::<Duration>().as_secs_f64() / all).min(1.0)
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, pool) in self.pools.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{pool}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PoolMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tasks,
            depths,
            threads,
            ..
        } = self;
        let total = self.counters.total();
        let workers = self.busy.len();
        writeln!(
            f,
            "pool `{}`, {workers} workers, policy {}, {:.1} s old",
            self.name.escape_debug(),
            self.policy.escape_debug(),
            self.age.as_secs_f64()
        )?;
        writeln!(
            f,
            "  tasks    {} runnable, {} futures and {} fibers that have waited, {} jobs and {} forks begun, \
             {} blocking closures",
            tasks.runnable, tasks.futures, tasks.fibers, tasks.jobs, tasks.forks, tasks.blocking
        )?;
        writeln!(
            f,
            "  queues   {} shared; own {}; {} workers offer forks",
            KnownLength(depths.injector),
            Each(&depths.local),
            depths.forks
        )?;
        writeln!(
            f,
            "  waiting  {} timers, {} sockets, {} closures for a thread",
            depths.timers, depths.sockets, depths.blocking
        )?;
        writeln!(
            f,
            "  workers  {:.1} % awake, {} search, {} sleep; {} steps, {} steals of {} tasks, {} wakes, {} stalls",
            self.utilisation() * 100.0,
            threads.searching,
            threads.sleeping,
            total.get(Count::Ran) + total.get(Count::FiberTurns),
            total.get(Count::Steals),
            total.get(Count::Stolen),
            total.get(Count::Wakes),
            self.stalls
        )?;
        write!(
            f,
            "  threads  {}, of which {} wait in tasks and {} are spare; {} for blocking closures",
            threads.all, threads.blocked, threads.spare, threads.blocking
        )?;
        for class in &self.classes {
            let rows = [
                ("queue delay", &class.queue_delay),
                ("wake to run", &class.wake_to_run),
                ("run time", &class.run_time),
            ];
            for (name, times) in rows.into_iter().filter(|(_, times)| times.count() > 0) {
                write!(f, "\n  {name:<11}")?;
                if let Some(priority) = class.priority {
                    write!(f, " of priority {priority}")?;
                }
                write!(
                    f,
                    "  mean {:.1?}, 50 % {:.1?}, 99 % {:.1?}, 99.9 % {:.1?}, of {}",
                    times.mean(),
                    times.quantile(0.5),
                    times.quantile(0.99),
                    times.quantile(0.999),
                    times.count()
                )?;
            }
        }
        Ok(())
    }
}
