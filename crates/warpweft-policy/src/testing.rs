//! A pool without threads, for the tests of policies: hooks called one after the other.

use crate::{Clock, Counters, Cx, Policy, PoolEnv, Wake, WorkerId};
use std::cell::{Cell, RefCell};
use warpweft_platform::random::Rng;
use warpweft_task::probe::{Probe, number};
use warpweft_task::{TaskRef, Why};

/// A pool without threads, whose tasks are numbers.
pub(crate) struct Pool<P: Policy> {
    pub(crate) shared: P::Shared,
    pub(crate) locals: Vec<P::Local>,
    pub(crate) probe: Probe,
    pub(crate) counters: Counters,
    random: RefCell<Rng>,
    pub(crate) now: Cell<u64>,
}

impl<P: Policy> Pool<P> {
    pub(crate) fn new(policy: &P, workers: usize) -> Self {
        Self::at(policy, &PoolEnv::new(workers))
    }

    pub(crate) fn at(policy: &P, env: &PoolEnv) -> Self {
        let (shared, locals) = policy.build(env).expect("a small pool");
        Self {
            shared,
            locals,
            probe: Probe::new(1 << 14),
            counters: Counters::default(),
            random: RefCell::new(Rng::seeded(1)),
            now: Cell::new(0),
        }
    }

    pub(crate) fn call<R>(
        &mut self,
        worker: usize,
        hook: impl FnOnce(&P::Shared, &mut P::Local, &Cx<'_>) -> R,
    ) -> R {
        let workers = self.locals.len();
        let clock = Clock::Virtual(&self.now);
        let cx = Cx::for_worker(WorkerId(worker), workers, &self.counters, &self.random, clock);
        hook(&self.shared, &mut self.locals[worker], &cx)
    }

    pub(crate) fn task(&self, number: usize, priority: u64) -> TaskRef {
        let mut task = self.probe.task(number);
        task.set_policy_word(priority);
        task
    }

    pub(crate) fn push(&mut self, worker: usize, task: TaskRef, why: Why) -> Wake {
        self.call(worker, |shared, local, cx| {
            P::push(shared, Some(local), task, why, cx)
        })
    }

    pub(crate) fn push_from_outside(&self, task: TaskRef) -> Wake {
        let cx = Cx::from_outside(self.locals.len(), &self.counters, Clock::Virtual(&self.now));
        P::push(&self.shared, None, task, Why::Injected, &cx)
    }

    /// Runs a task to its end; its number.
    pub(crate) fn end(&mut self, worker: usize, task: TaskRef) -> usize {
        let (number, word) = (number(&task), task.policy_word());
        drop(task.run());
        self.call(worker, |shared, local, _| P::retired(shared, local, word));
        number.expect("a task of the probe")
    }

    /// The numbers of all that `next` has, in its order.
    pub(crate) fn all(&mut self, worker: usize) -> Vec<usize> {
        let mut numbers = Vec::new();
        while let Some(task) = self.call(worker, P::next) {
            numbers.push(self.end(worker, task));
        }
        numbers
    }
}

/// Every `INTERVAL` steps `overdue` comes first.
pub(crate) fn next_step<P: Policy>(pool: &mut Pool<P>, worker: usize, step: u64) -> Option<TaskRef> {
    let overdue = |pool: &mut Pool<P>| pool.call(worker, P::overdue);
    if step.is_multiple_of(u64::from(P::INTERVAL))
        && let Some(task) = overdue(pool)
    {
        return Some(task);
    }
    pool.call(worker, P::next).or_else(|| overdue(pool))
}
