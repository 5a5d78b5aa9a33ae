//! Tests where a parsimonious pool puts a woken task.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::cell::{Cell, RefCell};
use warpweft_platform::random::Rng;
use warpweft_policy::{
    Clock, Counters, Cx, Parsimonious, Policy, PoolEnv, TaskRef, Wake, Why, WorkerId, parsimonious,
};
use warpweft_task::test_tasks::{self, TestTasks, number};

const WORKERS: usize = 2;

struct Pool {
    shared: parsimonious::Shared,
    locals: Vec<parsimonious::Local>,
    counters: Counters,
    random: RefCell<Rng>,
    now: Cell<u64>,
    probe: TestTasks,
}

impl Pool {
    fn new() -> Self {
        let built = Parsimonious::new().build(&PoolEnv::new(WORKERS));
        let (shared, locals) = built.expect("a small pool");
        Self {
            shared,
            locals,
            counters: Counters::default(),
            random: RefCell::new(Rng::seeded(1)),
            now: Cell::new(0),
            probe: TestTasks::new(16),
        }
    }

    fn call<R>(
        &mut self,
        worker: usize,
        hook: impl FnOnce(&parsimonious::Shared, &mut parsimonious::Local, &Cx<'_>) -> R,
    ) -> R {
        let clock = Clock::Virtual(&self.now);
        let cx = Cx::for_worker(WorkerId(worker), WORKERS, &self.counters, &self.random, clock);
        hook(&self.shared, &mut self.locals[worker], &cx)
    }

    fn spawn(&mut self, worker: usize, task: usize) {
        let task = self.probe.task(task);
        let _ = self.call(worker, |shared, local, cx| {
            Parsimonious::push(shared, Some(local), task, Why::Spawned, cx)
        });
    }

    /// A task that waits on this worker.
    fn asleep(&mut self, worker: usize, task: usize) -> TaskRef {
        let mut task = self.probe.task(task);
        self.call(worker, |shared, local, cx| {
            Parsimonious::suspended(shared, local, task.waiting(), cx);
        });
        task
    }

    fn wake(&mut self, by: Option<usize>, task: TaskRef) -> Wake {
        match by {
            Some(worker) => self.call(worker, |shared, local, cx| {
                Parsimonious::push(shared, Some(local), task, Why::Woken, cx)
            }),
            None => {
                let cx = Cx::from_outside(WORKERS, &self.counters, Clock::Virtual(&self.now));
                Parsimonious::push(&self.shared, None, task, Why::Woken, &cx)
            }
        }
    }

    fn run(&mut self, task: Option<TaskRef>) -> Option<usize> {
        let task = task?;
        let id = number(&task);
        test_tasks::run(task);
        id
    }

    fn next(&mut self, worker: usize) -> Option<usize> {
        let task = self.call(worker, Parsimonious::next);
        self.run(task)
    }

    fn search(&mut self, worker: usize) -> Option<usize> {
        let task = self.call(worker, |shared, local, cx| {
            Parsimonious::search(shared, local, cx)
        });
        self.run(task)
    }

    fn scan(&mut self, worker: usize) -> Option<usize> {
        let task = self.call(worker, Parsimonious::scan);
        self.run(task)
    }
}

#[test]
fn a_worker_goes_on_with_its_deque_while_its_task_waits() {
    let mut pool = Pool::new();
    pool.spawn(0, 1);
    pool.spawn(0, 2);
    let task = pool.asleep(0, 3);
    assert_eq!(pool.next(0), Some(2));
    assert_eq!(pool.wake(None, task), Wake::Worker(WorkerId(0)));
    assert_eq!([pool.next(0), pool.next(0)], [Some(3), Some(1)]);
}

#[test]
fn a_woken_task_comes_back_to_its_worker_whoever_woke_it() {
    for by in [None, Some(0), Some(1)] {
        let mut pool = Pool::new();
        pool.spawn(0, 1);
        pool.spawn(1, 2);
        let task = pool.asleep(1, 3);
        let wake = pool.wake(by, task);
        assert_eq!(wake == Wake::Worker(WorkerId(1)), by != Some(1));
        assert_eq!(pool.next(0), Some(1), "woken by {by:?}");
        assert_eq!(pool.next(0), None, "woken by {by:?}");
        assert_eq!([pool.next(1), pool.next(1)], [Some(3), Some(2)]);
    }
}

#[test]
fn a_lone_one_is_left_to_its_worker_and_several_are_shared() {
    let mut pool = Pool::new();
    let tasks = [0, 1, 2].map(|task| pool.asleep(0, task));
    let [first, others @ ..] = tasks;
    let _ = pool.wake(None, first);
    assert!((0..20).all(|_| pool.search(1).is_none()));
    for other in others {
        let _ = pool.wake(None, other);
    }
    let stolen = (0..20).find_map(|_| pool.search(1));
    assert_eq!(stolen, Some(0), "the one that has waited longest");
    // The worker may be stuck in a task: a thread that is about to sleep takes the single one, too.
    assert_eq!(
        [pool.scan(1), pool.scan(1), pool.scan(1)],
        [Some(1), Some(2), None]
    );
}
