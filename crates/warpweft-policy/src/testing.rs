//! A pool without threads, for tests of policies: it calls the hooks one after the other.

use crate::{Clock, Count, Counters, Cx, Policy, PoolEnv, Wake, WorkerId};
use std::cell::{Cell, RefCell};
use warpweft_platform::random::Rng;
use warpweft_task::test_tasks::{self, TestTasks, number};
use warpweft_task::{TaskRef, Why};

/// A pool without threads, whose tasks are numbers.
pub(crate) struct Pool<P: Policy> {
    pub(crate) shared: P::Shared,
    pub(crate) locals: Vec<P::Local>,
    pub(crate) probe: TestTasks,
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
            probe: TestTasks::new(1 << 14),
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

    pub(crate) fn task(&self, number: usize, word: u64) -> TaskRef {
        let mut task = self.probe.task(number);
        task.set_policy_word(word);
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

    /// Runs a task to its end, and returns its number.
    pub(crate) fn end(&mut self, worker: usize, task: TaskRef) -> usize {
        let (number, word) = (number(&task), task.policy_word());
        self.counters.add(Count::Ran, 1);
        test_tasks::run(task);
        self.call(worker, |shared, local, _| P::completed(shared, local, word));
        number.expect("a task of the probe")
    }

    /// Returns the numbers of all tasks that `next` hands out, in its order.
    pub(crate) fn all(&mut self, worker: usize) -> Vec<usize> {
        let mut numbers = Vec::new();
        while let Some(task) = self.call(worker, P::next) {
            numbers.push(self.end(worker, task));
        }
        numbers
    }

    /// Spawns tasks with these numbers on a worker.
    pub(crate) fn spawn(&mut self, worker: usize, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            let task = self.task(number, 0);
            let _ = self.push(worker, task, Why::Spawned);
        }
    }

    /// Ends the task that a hook hands out, and returns its number.
    pub(crate) fn run(
        &mut self,
        worker: usize,
        hook: fn(&P::Shared, &mut P::Local, &Cx<'_>) -> Option<TaskRef>,
    ) -> Option<usize> {
        let task = self.call(worker, hook)?;
        Some(self.end(worker, task))
    }

    /// Runs what is left.
    pub(crate) fn end_all(&mut self) {
        for worker in 0..self.locals.len() {
            while self.run(worker, P::scan).is_some() {}
        }
    }
}

/// Takes the next task as the framework does: every `INTERVAL` steps `poll_global` comes first.
pub(crate) fn next_step<P: Policy>(pool: &mut Pool<P>, worker: usize, step: u64) -> Option<TaskRef> {
    let poll_global = |pool: &mut Pool<P>| pool.call(worker, P::poll_global);
    if step.is_multiple_of(u64::from(P::INTERVAL))
        && let Some(task) = poll_global(pool)
    {
        return Some(task);
    }
    pool.call(worker, P::next).or_else(|| poll_global(pool))
}

/// The behaviour of the busy tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    Yield,
    /// They wait, and are woken at once: so they use the slot, if there is one.
    Wake,
}

/// Busy tasks keep the workers busy forever, and one more task comes. Whichever workers make steps, it runs
/// within the bound.
pub(crate) fn keeps_its_bound<P: Policy>(
    policy: &P,
    busy_do: Busy,
    most: usize,
    stuck: bool,
    bound: impl Fn(usize, usize) -> u64,
) {
    for (workers, busy, from_outside) in [
        (1, 1, true),
        (1, 1, false),
        (1, most, true),
        (1, most, false),
        (3, most, false),
    ] {
        let stuck = (stuck && workers > 1).then_some(1);
        let mut pool = Pool::new(policy, workers);
        for number in 0..busy {
            let task = pool.task(number, 0);
            let _ = pool.push(number % workers, task, Why::Spawned);
        }
        let waits = pool.task(busy, 0);
        let _ = if from_outside {
            pool.push_from_outside(waits)
        } else {
            pool.push(stuck.unwrap_or(0), waits, Why::Spawned)
        };
        // In the middle of a step: what the running task pushes takes the slot.
        let more = pool.task(busy + 1, 0);
        let _ = pool.push(stuck.unwrap_or(0), more, Why::Spawned);
        let mut ran = false;
        'steps: for step in 1..=bound(busy + 1, workers) {
            pool.now.set(step * 1_000);
            for worker in (0..workers).filter(|&worker| Some(worker) != stuck) {
                let Some(mut task) = next_step(&mut pool, worker, step) else {
                    continue;
                };
                if number(&task) == Some(busy) {
                    pool.end(worker, task);
                    ran = true;
                    break 'steps;
                }
                if busy_do == Busy::Wake {
                    pool.call(worker, |shared, own, cx| {
                        P::suspended(shared, own, task.waiting(), cx);
                    });
                    let _ = pool.push(worker, task, Why::Woken);
                } else {
                    let _ = pool.push(worker, task, Why::Yielded);
                }
            }
        }
        assert!(
            ran,
            "{workers} workers, {busy} {busy_do:?}, from outside: {from_outside}, stuck: {stuck:?}"
        );
        pool.end_all();
    }
}
