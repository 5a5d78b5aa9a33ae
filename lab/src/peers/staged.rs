//! This project's runtime in stages: pools one behind the other, each under a policy of its own, with as many workers in all as others
//! have in one.
//!
//! ```text
//!  staged:fifo/lifo        spawners, steps │ what takes long
//!  staged:fifo/lifo/fifo   spawners │ steps │ what takes long
//! ```
//!
//! A task that begins a part is spawned on the pool of that part; one that begins where it is stays there. Workers are shared out evenly,
//! those that are left over to the first pools: where few tasks take long, few workers are kept from the others by them.

use std::future::Future;
use std::time::Instant;

use ::warpweft::{PolicySpec, Pool, Runtime, TaskBuilder, stage};

use super::waits::Sleeps;
use super::warpweft::{Handle, Verbs as Plain, counters_of, one_policy};
use super::{TaskPool, Tasks, not_built};
use crate::error::LabError;
use crate::harness::record::{Counters, Outcome};
use crate::workloads::{Program, Request};

/// How such policies begin.
const PREFIX: &str = "staged:";
/// What the word alone stands for.
const USUAL: &str = "staged:fifo/fifo";
/// The parts of a workload that may have pools of their own.
const PARTS: [&str; 3] = ["spawners", "steps", "long"];

/// Whether this policy is one of stages.
pub(crate) fn is_staged(policy: &str) -> bool {
    policy == "staged" || policy.starts_with(PREFIX)
}

/// The policies of the stages, in order.
pub(super) fn policies(text: &str) -> Result<Vec<PolicySpec>, LabError> {
    let text = if text == "staged" { USUAL } else { text };
    let stages: Vec<&str> = text.trim_start_matches(PREFIX).split('/').collect();
    if !(2..=PARTS.len()).contains(&stages.len()) {
        return Err(LabError::Usage(format!(
            "`{text}`: 2 or 3 policies with slashes between them are stages, such as {USUAL}; {} were found",
            stages.len()
        )));
    }
    stages.into_iter().map(one_policy).collect()
}

/// Why there cannot be so many stages with so few workers, if so.
pub(crate) fn refusal(policy: &str, workers: usize) -> Result<Option<String>, LabError> {
    let stages = policies(policy)?.len();
    Ok((workers < stages).then(|| format!("{stages} stages need as many workers at least")))
}

/// The verbs of a task, of which those that it starts belong to one stage.
#[derive(Clone, Copy)]
struct Verbs(&'static Pool);

impl Tasks for Verbs {
    type Handle<T: Send + 'static> = Handle<T>;

    #[inline]
    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Handle(self.0.spawn(future))
    }

    #[inline]
    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(self.0.spawn_job(job))
    }

    #[inline]
    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    #[inline]
    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        TaskBuilder::new().on_pool(self.0).spawn_detached(job);
    }

    #[inline]
    fn yield_now(self) -> impl Future<Output = ()> + Send + 'static {
        Plain.yield_now()
    }
}

impl Sleeps for Verbs {
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send {
        Plain::sleep_until(deadline)
    }
}

/// The runtime, and which of its pools has which part.
struct Stages {
    runtime: Runtime,
    steps: Verbs,
    long: Verbs,
}

impl Stages {
    fn new(policies: Vec<PolicySpec>, workers: usize) -> Result<Self, ::warpweft::BuildError> {
        let stages = policies.len();
        let mut builders = policies.into_iter().enumerate().map(|(at, policy)| {
            let share = workers / stages + usize::from(at < workers % stages);
            Runtime::builder().workers(share).policy_spec(policy)
        });
        let first = builders.next().unwrap_or_else(Runtime::builder);
        let behind = PARTS[PARTS.len() + 1 - stages..].iter().zip(builders);
        let runtime = behind
            .fold(stage(PARTS[0], first), |chain, (name, pool)| {
                chain.then(*name, pool)
            })
            .build()?;
        let verbs = |name| {
            let pool = runtime.pool(name).unwrap_or_else(|_| runtime.first());
            // A process makes one run.
            Verbs(Box::leak(Box::new(pool.clone())))
        };
        let (steps, long) = (verbs(PARTS[1]), verbs(PARTS[2]));
        Ok(Self { runtime, steps, long })
    }
}

impl TaskPool for Stages {
    type Tasks = Verbs;

    fn tasks(&self) -> Verbs {
        self.steps
    }

    fn long(&self) -> Verbs {
        self.long
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(root).detach();
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(self.runtime.spawn_job(job))
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        TaskBuilder::new().on(&self.runtime).spawn_detached(job);
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Of all pools, one after the other.
    fn counters(&self) -> Option<Counters> {
        let pools = self.runtime.pools().iter();
        pools
            .map(|pool| counters_of(&pool.counters()))
            .reduce(Counters::beside)
    }
}

/// Runs a request on a fresh runtime.
pub(super) fn run(request: &Request, program: &Program, policy: &str) -> Result<Outcome, LabError> {
    let stages =
        Stages::new(policies(policy)?, request.workers).map_err(|error| not_built(request, &error))?;
    match program {
        Program::PacketBimodal(plan) if plan.waits() => program.run_timers(&stages),
        _ => program.run_tasks(&stages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_share_the_workers_and_have_their_policies() {
        for (text, workers, shares) in [
            ("staged", 2, vec![("spawners", 1), ("long", 1)]),
            ("staged:fifo/lifo", 3, vec![("spawners", 2), ("long", 1)]),
            (
                "staged:fifo/lifo/fifo",
                5,
                vec![("spawners", 2), ("steps", 2), ("long", 1)],
            ),
        ] {
            let stages = Stages::new(policies(text).unwrap(), workers).unwrap();
            let pools = stages.runtime.pools();
            let found: Vec<(&str, usize)> = pools.iter().map(|pool| (pool.name(), pool.workers())).collect();
            assert_eq!(found, shares, "{text}");
            assert_eq!(stages.long.0.name(), "long");
            let steps = if shares.len() == 3 { "steps" } else { "spawners" };
            assert_eq!(stages.steps.0.name(), steps);
            assert_eq!(stages.counters().unwrap().workers.len(), workers);
        }
        let stages = Stages::new(policies("staged:fifo/lifo").unwrap(), 2).unwrap();
        let policies: Vec<&str> = stages.runtime.pools().iter().map(Pool::policy).collect();
        assert!(
            policies[0].contains("fifo") && policies[1].contains("lifo"),
            "{policies:?}"
        );
    }

    #[test]
    fn wrong_stages_say_what_would_be_right() {
        for (text, reason) in [
            ("staged:fifo", "2 or 3 policies"),
            ("staged:fifo/lifo/fifo/lifo", "2 or 3 policies"),
            ("staged:fifo/filo", "fifo"),
            ("staged:fifo/", "fifo"),
        ] {
            let error = policies(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(
            refusal("staged", 1)
                .unwrap()
                .is_some_and(|reason| reason.contains("2 stages"))
        );
        assert_eq!(refusal("staged", 2).unwrap(), None);
    }
}
