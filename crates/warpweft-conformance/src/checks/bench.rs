//! A pool without threads: the policy's state, one `TestWorker` per worker, and a ledger of the tasks inside.
//!
//! ```text
//!   push ──▶ policy ──▶ next, poll_global, search, scan
//!     └── number into the ledger    └── number out of the ledger, or a violation
//! ```

use crate::duty::{Duty, Verdict, Violation};
use crate::test_worker::{Hook, TestWorker, build};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use warpweft_policy::{Clock, Counters, Cx, Policy, PoolSize, TaskRef, Wake, Why, WorkerId};
use warpweft_task::JoinHandle;
use warpweft_task::test_tasks::{self, TestTasks, number};

impl Hook {
    pub(crate) const ALL: [Self; 4] = [Self::Next, Self::PollGlobal, Self::Search, Self::Scan];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::PollGlobal => "poll_global",
            Self::Search => "search",
            Self::Scan => "scan",
        }
    }
}

/// The pool. As a worker, `None` means a push from outside.
pub(crate) struct Bench<'n, P: Policy> {
    name: &'n str,
    shared: P::Shared,
    workers: Vec<TestWorker<P>>,
    outside: Counters,
    now: Cell<u64>,
    size: PoolSize,
    /// The handles of tasks that may be cancelled, by number.
    handles: BTreeMap<usize, JoinHandle<()>>,
    /// Cancelled tasks, and how many of them have ended.
    cancelled: BTreeSet<usize>,
    ended_cancelled: u64,
    probe: Rc<TestTasks>,
    numbers: usize,
    /// Numbers of the tasks that the policy holds.
    held: BTreeSet<usize>,
    /// The workers that pushed with `Wake::None`, and so may have put a task where only they find it.
    private: Vec<usize>,
    /// The first answers of `is_fast_path`.
    fast_paths: [bool; Why::ALL.len()],
    /// Pushes by workers and suspensions so far. Now and then the fast path is not used.
    hooks: usize,
}

/// Once in this number of times the fast path is not used.
const LONG_WAYS: usize = 3;

impl<'n, P: Policy> Bench<'n, P> {
    /// Makes a pool for at most `tasks` tasks.
    pub(crate) fn new(
        name: &'n str,
        policy: &P,
        workers: usize,
        tasks: usize,
        seed: u64,
    ) -> Result<Self, Violation> {
        let (shared, locals) = build(name, policy, workers)?;
        Ok(Self {
            name,
            fast_paths: Why::ALL.map(|why| P::is_fast_path(&shared, why)),
            hooks: 0,
            shared,
            workers: TestWorker::all(locals, seed),
            outside: Counters::default(),
            now: Cell::new(0),
            size: PoolSize::new(workers, workers),
            handles: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            ended_cancelled: 0,
            probe: Rc::new(TestTasks::new(tasks)),
            numbers: 0,
            held: BTreeSet::new(),
            private: Vec::new(),
        })
    }

    /// Makes another pool with the same policy, for tasks of this one: they come by [`depart`](Bench::depart)
    /// and [`push`](Bench::push).
    pub(crate) fn beside(&self, policy: &P, seed: u64) -> Result<Self, Violation> {
        let mut other = Self::new(self.name, policy, self.workers(), 0, seed)?;
        other.probe = Rc::clone(&self.probe);
        Ok(other)
    }

    pub(crate) fn violation(&self, duty: Duty, how: impl Into<String>) -> Violation {
        Violation::new(self.name, duty, how)
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns the numbers of the tasks that the policy holds.
    pub(crate) fn held(&self) -> &BTreeSet<usize> {
        &self.held
    }

    pub(crate) fn pass_time(&self, ns: u64) {
        self.now.set(self.now.get() + ns);
    }

    /// Makes a task, and returns its number with it.
    pub(crate) fn new_task(&mut self) -> (TaskRef, usize) {
        let number = self.numbers;
        self.numbers += 1;
        (self.probe.task(number), number)
    }

    /// Makes a task that may be [cancelled](Bench::cancel), and returns its number with it.
    pub(crate) fn new_cancellable(&mut self) -> (TaskRef, usize) {
        let number = self.numbers;
        self.numbers += 1;
        let (task, handle) = self.probe.cancellable(number);
        self.handles.insert(number, handle);
        (task, number)
    }

    /// Cancels a task, wherever it is.
    pub(crate) fn cancel(&mut self, number: usize) {
        if self.handles.get(&number).is_some_and(JoinHandle::cancel) {
            self.cancelled.insert(number);
        }
    }

    /// Lets a worker look for cancelled tasks, and ends those that it hands out. Returns their number.
    pub(crate) fn evict(&mut self, worker: usize, cancellations: u64) -> Result<usize, Violation> {
        let clock = Clock::Virtual(&self.now);
        let (local, cx) = self.workers[worker].parts(clock);
        let cx = cx.with_size(&self.size);
        let tasks = P::evict(&self.shared, local, cancellations, &cx);
        self.nothing_dropped("evict")?;
        let evicted = tasks.len();
        for task in tasks {
            let number = self.number_of(&task)?;
            let how = if !self.held.remove(&number) {
                format!("`evict` of worker {worker} handed out task {number}, which it did not hold.")
            } else if !self.cancelled.contains(&number) {
                format!("`evict` of worker {worker} handed out task {number}, which was not cancelled.")
            } else {
                // The framework does not report its end: the policy knows of it.
                self.end(number, task);
                continue;
            };
            return Err(self.violation(Duty::HonestEvict, how));
        }
        Ok(evicted)
    }

    /// Returns how many tasks the policy reports to have; 0 if it does not say.
    pub(crate) fn reported(&self) -> usize {
        let own = (0..self.workers()).filter_map(|worker| P::queued(&self.shared, WorkerId(worker)));
        own.sum::<usize>() + P::queued_shared(&self.shared).unwrap_or(0)
    }

    /// Sets how many workers run. The others rest: the caller lets them [give back](Bench::give_back) what
    /// they have, and calls no other hook of theirs.
    pub(crate) fn resize(&mut self, workers: usize) {
        self.size.set(workers);
    }

    /// Lets a worker that is about to rest give its tasks to the others, as the framework does.
    pub(crate) fn give_back(&mut self, worker: usize) -> Verdict {
        let mut drained = Vec::new();
        loop {
            let clock = Clock::Virtual(&self.now);
            let (local, cx) = self.workers[worker].parts(clock);
            let cx = cx.with_size(&self.size);
            let task = P::drain(&self.shared, local, &cx);
            self.nothing_dropped("drain")?;
            let Some(task) = task else { break };
            let number = self.number_of(&task)?;
            if !self.held.remove(&number) {
                let how =
                    format!("`drain` of worker {worker} handed out task {number}, which it did not hold.");
                return Err(self.violation(Duty::NothingTwice, how));
            }
            drained.push(task);
        }
        // Nothing is left where only that worker looks.
        self.private.retain(|&owner| owner != worker);
        drained
            .into_iter()
            .try_for_each(|task| self.push(None, task, Why::Woken))
    }

    /// Returns how many tasks the policy may hold where this worker cannot take them.
    pub(crate) fn private_to_others(&self, worker: usize) -> usize {
        self.private.iter().filter(|&&owner| owner != worker).count()
    }

    pub(crate) fn push(&mut self, by: Option<usize>, task: TaskRef, why: Why) -> Verdict {
        self.push_for(by, task, why).map(drop)
    }

    /// Does the same as `push`, and returns the policy's answer.
    pub(crate) fn push_for(&mut self, by: Option<usize>, task: TaskRef, why: Why) -> Result<Wake, Violation> {
        let number = self.number_of(&task)?;
        self.held.insert(number);
        if P::is_fast_path(&self.shared, why) != self.fast_paths[why as usize] {
            let how = format!(
                "`is_fast_path({why:?})` was {} at first, and now is not.",
                self.fast_paths[why as usize]
            );
            return Err(self.violation(Duty::HonestShortWays, how));
        }
        let task = match by {
            Some(worker) => match self.push_local(worker, task, why)? {
                Some(task) => task,
                None => return Ok(Wake::Any),
            },
            None => task,
        };
        let clock = Clock::Virtual(&self.now);
        let wake = match by {
            Some(worker) => {
                let (local, cx) = self.workers[worker].parts(clock);
                let cx = cx.with_size(&self.size);
                P::push(&self.shared, Some(local), task, why, &cx)
            }
            None => {
                let cx = Cx::from_outside(self.workers.len(), &self.outside, clock).with_size(&self.size);
                P::push(&self.shared, None, task, why, &cx)
            }
        };
        self.nothing_dropped("push")?;
        match (wake, by) {
            (Wake::None, None) => {
                let how =
                    format!("`push({why:?})` from outside said `Wake::None`: all workers may be asleep.");
                return Err(self.violation(Duty::HonestWake, how));
            }
            (Wake::None, Some(worker)) => self.private.push(worker),
            (Wake::Worker(worker), _) if worker.0 >= self.workers() => {
                let how = format!(
                    "`push({why:?})` wants to wake worker {} of {}.",
                    worker.0,
                    self.workers()
                );
                return Err(self.violation(Duty::HonestWake, how));
            }
            (Wake::Any | Wake::Worker(_), _) => {}
        }
        Ok(wake)
    }

    /// Pushes by the fast path, if the policy has one for that reason. Returns the task if it must still be
    /// pushed.
    fn push_local(&mut self, worker: usize, task: TaskRef, why: Why) -> Result<Option<TaskRef>, Violation> {
        self.hooks += 1;
        if !self.fast_paths[why as usize] || self.hooks.is_multiple_of(LONG_WAYS) {
            return Ok(Some(task));
        }
        let (number, word) = (self.number_of(&task)?, task.policy_word());
        let left = P::push_local(&mut self.workers[worker].local, task);
        self.nothing_dropped("push_local")?;
        let Err(task) = left else { return Ok(None) };
        let (back, now) = (self.number_of(&task)?, task.policy_word());
        if (back, now) != (number, word) {
            let how = format!(
                "`push_local` was given task {number} with the word {word}, and gave task {back} with the word {now} back."
            );
            return Err(self.violation(Duty::HonestShortWays, how));
        }
        Ok(Some(task))
    }

    /// Calls a hook of a worker.
    pub(crate) fn take(&mut self, worker: usize, hook: Hook) -> Result<Option<TaskRef>, Violation> {
        let only_ready = P::is_only_ready(&self.shared, &self.workers[worker].local);
        let clock = Clock::Virtual(&self.now);
        let (local, cx) = self.workers[worker].parts(clock);
        let cx = cx.with_size(&self.size);
        let task = hook.call::<P>(&self.shared, local, &cx);
        self.nothing_dropped(hook.name())?;
        let Some(task) = task else { return Ok(None) };
        let number = self.number_of(&task)?;
        if !self.held.remove(&number) {
            let how = format!(
                "`{}` of worker {worker} handed out task {number}, which it did not hold.",
                hook.name()
            );
            return Err(self.violation(Duty::NothingTwice, how));
        }
        if only_ready && matches!(hook, Hook::Next | Hook::PollGlobal) {
            let how = format!(
                "It was true of worker {worker}, and then `{}` had task {number}.",
                hook.name()
            );
            return Err(self.violation(Duty::HonestAlone, how));
        }
        if self.held.is_empty() {
            self.private.clear();
        }
        Ok(Some(task))
    }

    /// Takes out queued tasks whose numbers are wanted.
    pub(crate) fn extract(
        &mut self,
        worker: usize,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<TaskRef>, Violation> {
        let clock = Clock::Virtual(&self.now);
        let (local, cx) = self.workers[worker].parts(clock);
        let cx = cx.with_size(&self.size);
        let is_wanted = |task: &TaskRef| number(task).is_some_and(wanted);
        let tasks = P::extract(&self.shared, local, &is_wanted, &cx);
        self.nothing_dropped("extract")?;
        for task in &tasks {
            let number = self.number_of(task)?;
            if !self.held.remove(&number) {
                let how =
                    format!("`extract` of worker {worker} handed out task {number}, which it did not hold.");
                return Err(self.violation(Duty::NothingTwice, how));
            }
        }
        Ok(tasks)
    }

    /// Suspends the running task of a worker.
    pub(crate) fn suspend(&mut self, worker: usize, task: &mut TaskRef) -> Verdict {
        self.hooks += 1;
        let (watches, word) = (P::watches_waits(&self.shared), task.policy_word());
        // A policy that does not watch waits may be told of them all the same.
        if watches || self.hooks.is_multiple_of(LONG_WAYS) {
            let clock = Clock::Virtual(&self.now);
            let (local, cx) = self.workers[worker].parts(clock);
            let cx = cx.with_size(&self.size);
            P::suspended(&self.shared, local, task.waiting(), &cx);
        }
        if !watches && task.policy_word() != word {
            let how =
                "`watches_waits` says that it need not be told, and `suspended` wrote into a task's word.";
            return Err(self.violation(Duty::HonestShortWays, how));
        }
        self.nothing_dropped("suspended")
    }

    /// Transfers the running task of a worker to another pool. For this pool it has ended; the other one
    /// finds no word.
    pub(crate) fn depart(&mut self, worker: usize, task: &mut TaskRef) -> Verdict {
        if P::WATCHES_COMPLETIONS {
            P::completed(&self.shared, &mut self.workers[worker].local, task.policy_word());
        }
        task.set_policy_word(0);
        self.nothing_dropped("completed")
    }

    /// Runs a task to its end, on a worker.
    pub(crate) fn run(&mut self, worker: usize, task: TaskRef) -> Verdict {
        let number = self.number_of(&task)?;
        let word = task.policy_word();
        let is_cancelled = self.end(number, task);
        if P::WATCHES_COMPLETIONS {
            P::completed(&self.shared, &mut self.workers[worker].local, word);
            self.nothing_dropped("completed")?;
        }
        if self.probe.runs(number) != u64::from(!is_cancelled) {
            let how = format!("Task {number} ran {} times.", self.probe.runs(number));
            return Err(self.violation(Duty::NothingTwice, how));
        }
        Ok(())
    }

    /// Runs a task of that number, and returns true if it was cancelled: then it ends without having run.
    fn end(&mut self, number: usize, task: TaskRef) -> bool {
        let is_cancelled = self.cancelled.contains(&number);
        self.ended_cancelled += u64::from(is_cancelled);
        // A task of `TestTasks` is a closure: it ends in one step.
        test_tasks::run(task);
        is_cancelled
    }

    /// Takes one task by the framework's rule: `poll_global` first if its turn has come, else `next`,
    /// `poll_global`, `search`, `scan`.
    pub(crate) fn find(&mut self, worker: usize, overdue_first: bool) -> Result<Option<TaskRef>, Violation> {
        if overdue_first && let Some(task) = self.take(worker, Hook::PollGlobal)? {
            return Ok(Some(task));
        }
        for hook in Hook::ALL {
            if let Some(task) = self.take(worker, hook)? {
                return Ok(Some(task));
            }
        }
        Ok(None)
    }

    /// Takes and runs all that is left, by scans: by `first` alone as long as it finds something, then by
    /// all.
    pub(crate) fn drain(&mut self, first: usize) -> Verdict {
        self.drain_by_scan(first)?;
        loop {
            let before = self.held.len();
            for worker in 0..self.workers() {
                self.drain_by_scan(worker)?;
            }
            if self.held.is_empty() {
                return Ok(());
            }
            if self.held.len() == before {
                let how = format!("No `scan` of any worker finds the tasks {:?}.", self.held);
                return Err(self.violation(Duty::NothingLost, how));
            }
        }
    }

    /// Takes and runs the tasks that scans of `worker` find. They must be all that are not private to others.
    fn drain_by_scan(&mut self, worker: usize) -> Verdict {
        while let Some(task) = self.take(worker, Hook::Scan)? {
            self.run(worker, task)?;
        }
        if self.held.len() > self.private_to_others(worker) {
            let how = format!(
                "`scan` of worker {worker} said `None` while the policy held the tasks {:?}.",
                self.held
            );
            return Err(self.violation(Duty::ExhaustiveScan, how));
        }
        Ok(())
    }

    /// Checks that every task has run once.
    pub(crate) fn settle(&self) -> Verdict {
        let is_wrong = |number: &usize| {
            let was_cancelled = self.cancelled.contains(number);
            self.probe.runs(*number) != u64::from(!was_cancelled)
                || self.probe.lost(*number) != u64::from(was_cancelled)
        };
        match (0..self.numbers).find(is_wrong) {
            Some(number) => {
                let how = format!(
                    "At the end task {number} had run {} times.",
                    self.probe.runs(number)
                );
                Err(self.violation(Duty::NothingLost, how))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn number_of(&self, task: &TaskRef) -> Result<usize, Violation> {
        number(task).ok_or_else(|| {
            self.violation(
                Duty::NothingTwice,
                "A hook handed out a task that was never pushed.",
            )
        })
    }

    fn nothing_dropped(&self, hook: &str) -> Verdict {
        if self.probe.lost_in_all() == self.ended_cancelled {
            return Ok(());
        }
        let is_lost = |number: &usize| self.probe.lost(*number) > 0 && self.held.contains(number);
        let number = (0..self.numbers).find(is_lost);
        let how = format!(
            "`{hook}` dropped the reference of task {}.",
            number.unwrap_or_default()
        );
        Err(self.violation(Duty::NothingLost, how))
    }
}
