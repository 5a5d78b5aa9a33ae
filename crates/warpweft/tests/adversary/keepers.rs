//! A policy whose hooks each program replaces, and the check that one thread at a time has a worker's state.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warpweft::policy::{Cx, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why, YieldTo};
use warpweft::{JoinError, JoinHandle, Policy};
use warpweft_queue::Locked;

/// The hooks of a hostile policy. What is provided is honest: one queue for all workers.
#[allow(unused_variables, reason = "most hooks ignore most arguments")]
pub(crate) trait Hooks: Send + Sync + 'static {
    const INTERVAL: u32 = 61;
    const WATCHES_COMPLETIONS: bool = false;

    fn push(&self, queue: &Queue, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        queue.push(task);
        Wake::Any
    }
    fn is_fast_path(&self, why: Why) -> bool {
        false
    }
    fn push_local(&self, queue: &Queue, task: TaskRef) -> Result<(), TaskRef> {
        Err(task)
    }
    fn yielded(&self, queue: &Queue, task: TaskRef, cx: &Cx<'_>) -> Wake {
        self.push(queue, task, Why::Yielded, cx)
    }
    fn watches_waits(&self) -> bool {
        true
    }
    fn suspended(&self, task: Waiting<'_>) {}
    fn next(&self, queue: &Queue, cx: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
    fn poll_global(&self, queue: &Queue, cx: &Cx<'_>) -> Option<TaskRef> {
        None
    }
    fn search(&self, queue: &Queue, cx: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
    fn steal_from_stuck(&self, queue: &Queue, cx: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
    fn scan(&self, queue: &Queue, cx: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
    fn drain(&self, queue: &Queue, cx: &Cx<'_>) -> Option<TaskRef> {
        None
    }
    fn is_only_ready(&self) -> bool {
        false
    }
    fn evict(&self, queue: &Queue) -> Vec<TaskRef> {
        Vec::new()
    }
    fn completed(&self, word: u64) {}
}

/// The names of all hooks that take or give tasks, for programs that try each.
pub(crate) const ALL: [&str; 15] = [
    "push",
    "is_fast_path",
    "push_local",
    "yielded",
    "watches_waits",
    "suspended",
    "next",
    "poll_global",
    "search",
    "steal_from_stuck",
    "scan",
    "drain",
    "is_only_ready",
    "evict",
    "completed",
];

pub(crate) type Queue = Locked<TaskRef>;

/// The policy with those hooks.
pub(crate) struct Hostile<H>(pub(crate) Arc<H>);

impl<H> Hostile<H> {
    /// The policy, and its hooks for the program.
    pub(crate) fn new(hooks: H) -> (Self, Arc<H>) {
        let hooks = Arc::new(hooks);
        (Self(Arc::clone(&hooks)), hooks)
    }
}

/// What the workers share.
pub(crate) struct Shared<H> {
    queue: Queue,
    hooks: Arc<H>,
}

/// A worker's state. It notes whether a hook has it, so that a second thread is found.
pub(crate) struct Own<H> {
    taken: AtomicBool,
    hooks: Arc<H>,
    queue: Arc<Queue>,
}

impl<H> Own<H> {
    /// Ends the process if a hook has this state already, because then two `&mut` to it exist.
    fn enter(&mut self) -> Taken<'_, H> {
        if self.taken.swap(true, Ordering::SeqCst) {
            eprintln!("UNSOUND: two threads are in the state of one worker");
            std::process::exit(99);
        }
        Taken(self)
    }
}

/// A hook has the state.
struct Taken<'a, H>(&'a Own<H>);

impl<H> Drop for Taken<'_, H> {
    fn drop(&mut self) {
        if !self.0.taken.swap(false, Ordering::SeqCst) {
            eprintln!("UNSOUND: two threads were in the state of one worker");
            std::process::exit(99);
        }
    }
}

impl<H: Hooks> Policy for Hostile<H> {
    type Shared = Shared<H>;
    type Local = Own<H>;

    const INTERVAL: u32 = H::INTERVAL;
    const WATCHES_COMPLETIONS: bool = H::WATCHES_COMPLETIONS;

    fn build(&self, env: &PoolEnv) -> Result<(Shared<H>, Vec<Own<H>>), PolicyError> {
        let shared = Shared {
            queue: Queue::new(),
            hooks: Arc::clone(&self.0),
        };
        let own = |_| Own {
            taken: AtomicBool::new(false),
            hooks: Arc::clone(&self.0),
            queue: Arc::new(Queue::new()),
        };
        Ok((shared, (0..env.workers).map(own).collect()))
    }

    fn push(shared: &Shared<H>, mut own: Option<&mut Own<H>>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let _taken = own.as_mut().map(|own| own.enter());
        shared.hooks.push(&shared.queue, task, why, cx)
    }

    fn is_fast_path(shared: &Shared<H>, why: Why) -> bool {
        shared.hooks.is_fast_path(why)
    }

    fn push_local(own: &mut Own<H>, task: TaskRef) -> Result<(), TaskRef> {
        let taken = own.enter();
        taken.0.hooks.push_local(&taken.0.queue, task)
    }

    fn yielded(shared: &Shared<H>, own: &mut Own<H>, task: TaskRef, _: YieldTo, cx: &Cx<'_>) -> Wake {
        let _taken = own.enter();
        shared.hooks.yielded(&shared.queue, task, cx)
    }

    fn watches_waits(shared: &Shared<H>) -> bool {
        shared.hooks.watches_waits()
    }

    fn suspended(shared: &Shared<H>, own: &mut Own<H>, task: Waiting<'_>, _: &Cx<'_>) {
        let _taken = own.enter();
        shared.hooks.suspended(task);
    }

    fn next(shared: &Shared<H>, own: &mut Own<H>, cx: &Cx<'_>) -> Option<TaskRef> {
        let taken = own.enter();
        taken
            .0
            .queue
            .pop()
            .or_else(|| shared.hooks.next(&shared.queue, cx))
    }

    fn poll_global(shared: &Shared<H>, own: &mut Own<H>, cx: &Cx<'_>) -> Option<TaskRef> {
        let _taken = own.enter();
        shared.hooks.poll_global(&shared.queue, cx)
    }

    fn search(shared: &Shared<H>, own: &mut Own<H>, cx: &Cx<'_>) -> Option<TaskRef> {
        let _taken = own.enter();
        shared.hooks.search(&shared.queue, cx)
    }

    fn steal_from_stuck(shared: &Shared<H>, own: &mut Own<H>, cx: &Cx<'_>) -> Option<TaskRef> {
        let _taken = own.enter();
        shared.hooks.steal_from_stuck(&shared.queue, cx)
    }

    fn scan(shared: &Shared<H>, own: &mut Own<H>, cx: &Cx<'_>) -> Option<TaskRef> {
        let taken = own.enter();
        taken
            .0
            .queue
            .pop()
            .or_else(|| shared.hooks.scan(&shared.queue, cx))
    }

    fn drain(shared: &Shared<H>, own: &mut Own<H>, cx: &Cx<'_>) -> Option<TaskRef> {
        let taken = own.enter();
        taken
            .0
            .queue
            .pop()
            .or_else(|| shared.hooks.drain(&shared.queue, cx))
    }

    fn is_only_ready(shared: &Shared<H>, _: &Own<H>) -> bool {
        shared.hooks.is_only_ready()
    }

    fn evict(shared: &Shared<H>, own: &mut Own<H>, _: u64, _: &Cx<'_>) -> Vec<TaskRef> {
        let _taken = own.enter();
        shared.hooks.evict(&shared.queue)
    }

    fn completed(shared: &Shared<H>, own: &mut Own<H>, word: u64) {
        let _taken = own.enter();
        shared.hooks.completed(word);
    }
}

/// Returns the number of threads of this process. A sanitizer may have another one.
pub(crate) fn threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .expect("this process")
        .count()
}

/// Waits for something that another thread does.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(600), "never: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits for tasks that a hostile policy had. Each joiner gets some answer; what a panic says must not be
/// `UNSOUND`.
pub(crate) fn all_answer<T: Send + 'static>(handles: impl IntoIterator<Item = JoinHandle<T>>) -> Answers {
    let mut answers = Answers::default();
    for handle in handles {
        match handle.wait() {
            Ok(_) => answers.done += 1,
            Err(JoinError::Dropped) => answers.dropped += 1,
            Err(JoinError::Shutdown) => answers.shutdown += 1,
            Err(JoinError::Cancelled) => answers.cancelled += 1,
            Err(JoinError::Panicked(_)) => answers.panicked += 1,
            Err(other) => panic!("an unexpected answer: {other:?}"),
        }
    }
    answers
}

/// The answers that the joiners of some tasks got.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) done: usize,
    pub(crate) dropped: usize,
    pub(crate) shutdown: usize,
    pub(crate) cancelled: usize,
    pub(crate) panicked: usize,
}

impl Answers {
    /// The number of joiners with an answer.
    pub(crate) fn all(self) -> usize {
        self.done + self.dropped + self.shutdown + self.cancelled + self.panicked
    }
}
