//! Proactive work stealing against its table of states. The model does not depend on sets and locks. For each
//! task that comes out it computes from which deque it may have come, what happens to that deque, and so
//! which deques there are.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use warpweft_platform::random::Rng;
use warpweft_policy::{Clock, Count, Counters, Cx, Policy, PoolEnv, ProWs, TaskRef, Why, WorkerId, prows};
use warpweft_queue::DequeState::{self, Active, Muggable, Resumable, Suspended};
use warpweft_task::test_tasks::{self, TestTasks, number};

const WORKERS: usize = 3;

/// More than any history makes.
const TASKS: usize = 2000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hook {
    Next,
    GlobalPolls,
    Search,
    Scan,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Ends,
    Yields,
    Waits,
    /// It is cancelled when it is about to wait.
    EndsAsItWaits,
    /// It is woken before it waits.
    Again,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// By a worker, this many times; or by no thread.
    Spawn(usize, usize),
    Inject,
    /// A worker takes a task, which then does that.
    Take(usize, Hook, End),
    /// By a worker, or from outside.
    Wake(usize, Option<usize>),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let worker = || 0..WORKERS;
    let hook = prop_oneof![
        1 => Just(Hook::Next),
        1 => Just(Hook::GlobalPolls),
        2 => Just(Hook::Search),
        1 => Just(Hook::Scan),
    ];
    let end = prop_oneof![
        2 => Just(End::Ends),
        1 => Just(End::Yields),
        6 => Just(End::Waits),
        1 => Just(End::EndsAsItWaits),
        1 => Just(End::Again),
    ];
    let op = prop_oneof![
        2 => (worker(), 1..5_usize).prop_map(|(worker, count)| Op::Spawn(worker, count)),
        1 => Just(Op::Inject),
        6 => (worker(), hook, end).prop_map(|(worker, hook, end)| Op::Take(worker, hook, end)),
        3 => (0..64_usize, proptest::option::of(worker())).prop_map(|(which, by)| Op::Wake(which, by)),
    ];
    vec(op, 0..150)
}

/// A deque: the front is the top.
#[derive(Debug)]
struct Deque {
    state: DequeState,
    /// Of an active deque.
    owner: Option<usize>,
    /// The task that a suspended deque waits for.
    waits_for: Option<usize>,
    tasks: VecDeque<usize>,
}

#[derive(Debug, Default)]
struct Model {
    deques: Vec<Deque>,
    outside: VecDeque<usize>,
    yielded: VecDeque<usize>,
    muggings: u64,
    left: u64,
}

impl Model {
    fn active(&self, worker: usize) -> Option<usize> {
        self.deques.iter().position(|deque| deque.owner == Some(worker))
    }

    fn push(&mut self, worker: usize, task: usize) {
        let active = self.active(worker).unwrap_or_else(|| {
            self.deques.push(Deque {
                state: Active,
                owner: Some(worker),
                waits_for: None,
                tasks: VecDeque::new(),
            });
            self.deques.len() - 1
        });
        self.deques[active].tasks.push_back(task);
    }

    fn suspend(&mut self, worker: usize, task: usize) {
        let mut tasks = VecDeque::new();
        if let Some(active) = self.active(worker) {
            tasks = self.deques.remove(active).tasks;
            self.left += 1;
        }
        self.deques.push(Deque {
            state: Suspended,
            owner: None,
            waits_for: Some(task),
            tasks,
        });
    }

    /// Returns true if a deque waited for this task.
    fn resume(&mut self, task: usize, comes: bool) -> bool {
        let waits = self.deques.iter().position(|deque| deque.waits_for == Some(task));
        let Some(deque) = waits.map(|found| &mut self.deques[found]) else {
            return false;
        };
        (deque.state, deque.waits_for) = (Resumable, None);
        deque.tasks.extend(comes.then_some(task));
        self.free();
        true
    }

    fn free(&mut self) {
        self.deques
            .retain(|deque| deque.state == Suspended || !deque.tasks.is_empty());
    }

    /// A worker was given this task, with the whole deque or without. By the rules, which deque did it come
    /// from?
    fn take(&mut self, worker: usize, hook: Hook, task: usize, taken_over: bool) {
        let own = self.active(worker);
        if hook != Hook::Next && self.outside.front() == Some(&task) {
            self.outside.pop_front();
            return;
        }
        if hook != Hook::Next && self.yielded.front() == Some(&task) {
            self.yielded.pop_front();
            return;
        }
        let from = self.deques.iter().position(|deque| deque.tasks.contains(&task));
        let from = from.unwrap_or_else(|| panic!("task {task} is in no deque, nor at the head of a queue"));
        let deque = &mut self.deques[from];
        let (top, bottom) = (
            deque.tasks.front() == Some(&task),
            deque.tasks.back() == Some(&task),
        );
        match (hook, own) {
            (Hook::Next, _) => assert!(
                own == Some(from) && bottom,
                "`next` is the bottom of the own deque"
            ),
            (Hook::Search | Hook::Scan, Some(own)) => {
                assert!(own == from && bottom, "who has tasks does not steal");
            }
            (Hook::Search | Hook::Scan, None) => {
                assert_eq!(
                    taken_over,
                    deque.state == Muggable,
                    "a muggable deque is taken over"
                );
            }
            (Hook::GlobalPolls, _) => {}
        }
        if taken_over {
            assert!(own.is_none() && deque.state == Muggable && bottom);
            (deque.state, deque.owner) = (Active, Some(worker));
            self.muggings += 1;
        } else if hook == Hook::GlobalPolls || own.is_none() {
            assert!(top, "what is stolen is the oldest");
        }
        if taken_over || (own == Some(from) && hook != Hook::GlobalPolls) {
            deque.tasks.pop_back();
        } else {
            deque.tasks.pop_front();
            if deque.state == Resumable {
                deque.state = Muggable;
            }
        }
        self.free();
    }
}

struct Pool {
    shared: prows::Shared,
    locals: Vec<prows::Local>,
    counters: Counters,
    random: RefCell<Rng>,
    now: Cell<u64>,
    probe: TestTasks,
    made: usize,
    asleep: Vec<TaskRef>,
    model: Model,
}

impl Pool {
    fn new(seed: u64) -> Self {
        let built = ProWs::new().capacity(2).build(&PoolEnv::new(WORKERS));
        let (shared, locals) = built.expect("a small pool");
        Self {
            shared,
            locals,
            counters: Counters::default(),
            random: RefCell::new(Rng::seeded(seed)),
            now: Cell::new(0),
            probe: TestTasks::new(TASKS),
            made: 0,
            asleep: Vec::new(),
            model: Model::default(),
        }
    }

    fn call<R>(
        &mut self,
        worker: usize,
        hook: impl FnOnce(&prows::Shared, &mut prows::Local, &Cx<'_>) -> R,
    ) -> R {
        let clock = Clock::Virtual(&self.now);
        let cx = Cx::for_worker(WorkerId(worker), WORKERS, &self.counters, &self.random, clock);
        hook(&self.shared, &mut self.locals[worker], &cx)
    }

    fn push(&mut self, by: Option<usize>, task: TaskRef, why: Why) {
        let _ = match by {
            Some(worker) => self.call(worker, |shared, local, cx| {
                ProWs::push(shared, Some(local), task, why, cx)
            }),
            None => {
                let cx = Cx::from_outside(WORKERS, &self.counters, Clock::Virtual(&self.now));
                ProWs::push(&self.shared, None, task, why, &cx)
            }
        };
    }

    fn make(&mut self) -> (TaskRef, usize) {
        self.made += 1;
        (self.probe.task(self.made - 1), self.made - 1)
    }

    fn end(&mut self, worker: usize, task: TaskRef, word: u64) {
        test_tasks::run(task);
        self.call(worker, |shared, local, _| ProWs::completed(shared, local, word));
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Spawn(worker, count) => {
                for _ in 0..count {
                    let (task, id) = self.make();
                    self.model.push(worker, id);
                    self.push(Some(worker), task, Why::Spawned);
                }
            }
            Op::Inject => {
                let (task, id) = self.make();
                self.model.outside.push_back(id);
                self.push(None, task, Why::Injected);
            }
            Op::Take(worker, hook, end) => self.take(worker, hook, end),
            Op::Wake(which, by) if !self.asleep.is_empty() => {
                let task = self.asleep.swap_remove(which % self.asleep.len());
                let waited = self.model.resume(number(&task).expect("a probe's"), true);
                assert!(waited, "each task that sleeps has a deque");
                self.push(by, task, Why::Woken);
            }
            Op::Wake(..) => {}
        }
    }

    fn take(&mut self, worker: usize, hook: Hook, end: End) {
        let task = self.call(worker, |shared, local, cx| match hook {
            Hook::Next => ProWs::next(shared, local, cx),
            Hook::GlobalPolls => ProWs::poll_global(shared, local, cx),
            Hook::Search => ProWs::search(shared, local, cx),
            Hook::Scan => ProWs::scan(shared, local, cx),
        });
        let Some(mut task) = task else {
            if hook == Hook::Scan {
                let none = self.model.deques.iter().all(|deque| deque.tasks.is_empty());
                assert!(none && self.model.outside.is_empty() && self.model.yielded.is_empty());
            }
            if hook == Hook::Next {
                assert!(self.model.active(worker).is_none());
            }
            return;
        };
        assert_eq!(task.policy_word(), 0, "a task that is ready waits for nothing");
        let id = number(&task).expect("a probe's");
        let taken_over = self.counters.get(Count::Muggings) > self.model.muggings;
        self.model.take(worker, hook, id, taken_over);
        self.agree();
        match end {
            End::Ends => self.end(worker, task, 0),
            End::Yields => {
                self.model.yielded.push_back(id);
                self.push(Some(worker), task, Why::Yielded);
            }
            End::Again => {
                self.model.push(worker, id);
                self.push(Some(worker), task, Why::Woken);
            }
            End::Waits | End::EndsAsItWaits => {
                self.model.suspend(worker, id);
                self.call(worker, |shared, local, cx| {
                    ProWs::suspended(shared, local, task.waiting(), cx);
                });
                let next = self.call(worker, ProWs::next);
                assert!(next.is_none(), "it has left its deque");
                self.agree();
                if matches!(end, End::Waits) {
                    return self.asleep.push(task);
                }
                self.model.resume(id, false);
                let word = task.policy_word();
                self.end(worker, task, word);
            }
        }
    }

    fn agree(&self) {
        let states = self.shared.states();
        for deque in &states {
            assert_eq!(deque.set.is_none(), deque.tasks == 0, "{deque:?}");
            assert!(deque.set.is_none_or(|set| set < WORKERS));
        }
        let mut states: Vec<_> = states.iter().map(|deque| (deque.state, deque.tasks)).collect();
        let deques = self.model.deques.iter();
        let mut model: Vec<_> = deques.map(|deque| (deque.state, deque.tasks.len())).collect();
        states.sort_unstable();
        model.sort_unstable();
        assert_eq!(states, model);
        assert_eq!(self.counters.get(Count::Muggings), self.model.muggings);
        assert_eq!(self.counters.get(Count::DequesLeft), self.model.left);
    }
}

proptest! {
    #[test]
    fn the_policy_behaves_like_its_table(ops in ops(), seed in any::<u64>()) {
        let mut pool = Pool::new(seed);
        for op in ops {
            pool.step(op);
            pool.agree();
        }
        // Each worker wakes up, and one finds everything.
        while let Some(task) = pool.asleep.pop() {
            assert!(pool.model.resume(number(&task).expect("a probe's"), true));
            pool.push(None, task, Why::Woken);
        }
        while pool.model.deques.iter().any(|deque| !deque.tasks.is_empty())
            || !pool.model.outside.is_empty()
            || !pool.model.yielded.is_empty()
        {
            pool.take(0, Hook::Scan, End::Ends);
            pool.agree();
        }
        assert_eq!(pool.shared.states(), []);
        assert_eq!((0..pool.made).map(|id| pool.probe.runs(id)).max().unwrap_or(1), 1);
        assert_eq!(pool.probe.lost_in_all(), 0);
    }
}

/// Workers that always have their own work do not steal: the deques without an owner have their turn all the
/// same.
#[test]
fn a_deque_that_was_left_does_not_starve() {
    let mut pool = Pool::new(1);
    // Six deques of three tasks each, that wait.
    for _ in 0..6 {
        pool.step(Op::Spawn(0, 4));
        pool.step(Op::Take(0, Hook::Next, End::Waits));
    }
    (0..WORKERS).for_each(|worker| pool.step(Op::Spawn(worker, 1)));
    let left = |pool: &Pool| {
        pool.model
            .deques
            .iter()
            .filter(|deque| deque.state == Suspended)
            .map(|deque| deque.tasks.len())
            .sum::<usize>()
    };
    assert_eq!(left(&pool), 18);
    for round in 0.. {
        assert!(round < 18 * 4 * WORKERS, "a task starves");
        if left(&pool) == 0 {
            break;
        }
        for worker in 0..WORKERS {
            // Never idle: it has one task more than it takes.
            pool.step(Op::Spawn(worker, 2));
            pool.step(Op::Inject);
            pool.step(Op::Take(worker, Hook::Next, End::Ends));
            pool.step(Op::Take(worker, Hook::GlobalPolls, End::Ends));
        }
    }
}
