//! The worker's arguments of a policy's hooks: its local state, its random numbers and its counters.

use crate::duty::{Duty, Violation};
use std::cell::RefCell;
use warpweft_platform::random::Rng;
use warpweft_policy::{Clock, Counters, Cx, Policy, PoolEnv, TaskRef, Wake, Why, WorkerId};

/// A hook that hands tasks out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    Next,
    PollGlobal,
    Search,
    Scan,
}

impl Hook {
    pub(crate) fn call<P: Policy>(
        self,
        shared: &P::Shared,
        local: &mut P::Local,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        match self {
            Self::Next => P::next(shared, local, cx),
            Self::PollGlobal => P::poll_global(shared, local, cx),
            Self::Search => P::search(shared, local, cx),
            Self::Scan => P::scan(shared, local, cx),
        }
    }
}

/// Pushes as a worker of the runtime does: by the fast path, if the policy has one for that reason.
pub(crate) fn push_local<P: Policy>(
    shared: &P::Shared,
    local: &mut P::Local,
    task: TaskRef,
    why: Why,
    cx: &Cx<'_>,
) -> Wake {
    if !P::is_fast_path(shared, why) {
        return P::push(shared, Some(local), task, why, cx);
    }
    match P::push_local(local, task) {
        Ok(()) => Wake::Any,
        Err(task) => P::push(shared, Some(local), task, why, cx),
    }
}

/// Reports that the running task waits, if the policy watches waits.
pub(crate) fn suspended<P: Policy>(
    shared: &P::Shared,
    local: &mut P::Local,
    task: &mut TaskRef,
    cx: &Cx<'_>,
) {
    if P::watches_waits(shared) {
        P::suspended(shared, local, task.waiting(), cx);
    }
}

/// Builds the policy's state for `workers` workers.
pub(crate) fn build<P: Policy>(
    name: &str,
    policy: &P,
    workers: usize,
) -> Result<(P::Shared, Vec<P::Local>), Violation> {
    let (shared, locals) = policy.build(&PoolEnv::new(workers)).map_err(|error| {
        Violation::new(
            name,
            Duty::Build,
            format!("For {workers} workers it is an error: {error}"),
        )
    })?;
    if locals.len() != workers {
        let how = format!("For {workers} workers it made {} of them.", locals.len());
        return Err(Violation::new(name, Duty::Build, how));
    }
    Ok((shared, locals))
}

/// The arguments of a worker's hook besides the shared state.
pub(crate) struct TestWorker<P: Policy> {
    pub(crate) index: usize,
    pub(crate) workers: usize,
    pub(crate) local: P::Local,
    pub(crate) counters: Counters,
    pub(crate) random: RefCell<Rng>,
}

impl<P: Policy> TestWorker<P> {
    pub(crate) fn all(locals: Vec<P::Local>, seed: u64) -> Vec<Self> {
        let workers = locals.len();
        let worker = |(index, local)| Self {
            index,
            workers,
            local,
            counters: Counters::default(),
            random: RefCell::new(Rng::seeded(seed.wrapping_add(index as u64))),
        };
        locals.into_iter().enumerate().map(worker).collect()
    }

    /// Returns the local state, and the context of a call.
    pub(crate) fn parts<'a>(&'a mut self, clock: Clock<'a>) -> (&'a mut P::Local, Cx<'a>) {
        let Self {
            index,
            workers,
            local,
            counters,
            random,
        } = self;
        (
            local,
            Cx::for_worker(WorkerId(*index), *workers, counters, random, clock),
        )
    }
}
