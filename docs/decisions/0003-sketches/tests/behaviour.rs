//! Each sketch puts a task where its scheduler would.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::cell::{Cell, RefCell};
use warpweft_platform::random::Rng;
use warpweft_policy::{Clock, Counters, Cx, Policy, PoolEnv, TaskRef, Wake, Why, WorkerId};
use warpweft_policy_sketches::cforall::Cforall;
use warpweft_policy_sketches::go::Go;
use warpweft_policy_sketches::libfibre::Libfibre;
use warpweft_policy_sketches::lifo_slot::LifoSlot;
use warpweft_policy_sketches::negele::Negele;
use warpweft_policy_sketches::prows::ProWs;
use warpweft_policy_sketches::staged::Stage;
use warpweft_task::probe::{self, Probe, number};

type Hook<P> = fn(&<P as Policy>::Shared, &mut <P as Policy>::Local, &Cx<'_>) -> Option<TaskRef>;

/// A pool without threads, whose tasks are numbers.
struct Pool<P: Policy> {
    shared: P::Shared,
    locals: Vec<P::Local>,
    probe: Probe,
    counters: Counters,
    random: RefCell<Rng>,
    now: Cell<u64>,
}

impl<P: Policy> Pool<P> {
    fn new(policy: &P, workers: usize) -> Self {
        let (shared, locals) = policy.build(&PoolEnv::new(workers)).expect("a small pool");
        let (counters, random, now) = (Counters::default(), RefCell::new(Rng::seeded(1)), Cell::new(0));
        Self {
            shared,
            locals,
            probe: Probe::new(32),
            counters,
            random,
            now,
        }
    }

    fn call<R>(&mut self, worker: usize, hook: impl FnOnce(&P::Shared, &mut P::Local, &Cx<'_>) -> R) -> R {
        let clock = Clock::Virtual(&self.now);
        let cx = Cx::for_worker(
            WorkerId(worker),
            self.locals.len(),
            &self.counters,
            &self.random,
            clock,
        );
        hook(&self.shared, &mut self.locals[worker], &cx)
    }

    fn push(&mut self, worker: usize, task: TaskRef, why: Why) -> Wake {
        self.call(worker, |shared, local, cx| {
            P::push(shared, Some(local), task, why, cx)
        })
    }

    fn push_from_outside(&mut self, task: TaskRef, why: Why) -> Wake {
        let cx = Cx::from_outside(self.locals.len(), &self.counters, Clock::Virtual(&self.now));
        P::push(&self.shared, None, task, why, &cx)
    }

    fn spawn(&mut self, worker: usize, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            let task = self.probe.task(number);
            let _ = self.push(worker, task, Why::Spawned);
        }
    }

    /// Takes a task; runs it and gives its number.
    fn run(&mut self, worker: usize, hook: Hook<P>) -> Option<usize> {
        let task = self.call(worker, hook)?;
        let number = number(&task);
        probe::run(task);
        number
    }

    fn suspend(&mut self, worker: usize, task: &mut TaskRef) {
        self.call(worker, |shared, local, cx| {
            P::suspended(shared, local, task.waiting(), cx);
        });
    }
}

#[test]
fn prows_leaves_the_deque_of_a_task_that_waits_and_finds_it_again() {
    let mut pool = Pool::new(&ProWs, 2);
    pool.spawn(0, 0..5);
    let mut waits = pool.call(0, ProWs::next).expect("the newest");
    assert_eq!(number(&waits), Some(4));
    pool.suspend(0, &mut waits);
    // Proactive: the worker has nothing, though its old deque has four tasks.
    assert_eq!(pool.run(0, ProWs::next), None);
    // A thief, any, gets the top of the suspended deque; a new deque is the worker's then.
    let stolen = (0..100).find_map(|_| pool.run(1, ProWs::search));
    assert_eq!(stolen, Some(0));
    pool.spawn(1, [10]);
    assert_eq!(pool.run(1, ProWs::next), Some(10));
    // The task comes back to the bottom of its own deque, whoever wakes it.
    let _ = pool.push_from_outside(waits, Why::Woken);
    // Resumable: stolen from once, at the top; then it is mugged, and the thief goes on at the bottom.
    let found: Vec<_> = (0..100)
        .filter_map(|_| pool.run(1, ProWs::search))
        .take(2)
        .collect();
    assert_eq!(found, [1, 4]);
    let rest: Vec<_> = std::iter::from_fn(|| pool.run(1, ProWs::next)).collect();
    assert_eq!(rest, [3, 2]);
}

#[test]
fn prows_frees_the_deque_of_a_task_that_ends_asleep() {
    let mut pool = Pool::new(&ProWs, 1);
    pool.spawn(0, 0..2);
    let mut waits = pool.call(0, ProWs::next).expect("the newest");
    pool.suspend(0, &mut waits);
    let word = waits.policy_word();
    assert_ne!(word, 0);
    drop(waits);
    pool.call(0, |shared, local, _| ProWs::retired(shared, local, word));
    // Resumable with one task: the steal empties and frees it.
    assert_eq!((0..100).find_map(|_| pool.run(0, ProWs::search)), Some(0));
    assert_eq!(pool.run(0, ProWs::scan), None);
}

#[test]
fn cforall_helps_a_lane_whose_head_waits_too_long() {
    let mut pool = Pool::new(&Cforall, 2);
    pool.spawn(1, [0]);
    // Worker 0's tasks never wait for long, but that of worker 1 does.
    let mut helped = None;
    for round in 1..32 {
        pool.now.set(round * 1_000);
        pool.spawn(0, [round as usize]);
        if pool.run(0, Cforall::next) == Some(0) {
            helped = Some(round);
            break;
        }
    }
    assert!(helped.is_some(), "nobody helped");
}

#[test]
fn negele_takes_the_highest_priority_first() {
    let mut pool = Pool::new(&Negele, 1);
    for (number, priority) in [(0, 2), (1, 0), (2, 1), (3, 0)] {
        let mut task = pool.probe.task(number);
        task.set_policy_word(priority);
        let _ = pool.push(0, task, Why::Spawned);
    }
    let order: Vec<_> = std::iter::from_fn(|| pool.run(0, Negele::next)).collect();
    assert_eq!(order, [1, 3, 2, 0]);
}

#[test]
fn libfibre_brings_a_woken_task_home() {
    let mut pool = Pool::new(&Libfibre, 3);
    pool.spawn(1, [7]);
    let mut task = pool.call(1, Libfibre::next).expect("its own");
    pool.suspend(1, &mut task);
    assert_eq!(pool.push(2, task, Why::Woken), Wake::Worker(WorkerId(1)));
    assert_eq!(pool.run(2, Libfibre::next), None);
    assert_eq!(pool.run(1, Libfibre::next), Some(7));
}

#[test]
fn go_runs_the_newest_next_and_the_others_in_their_order() {
    let mut pool = Pool::new(&Go, 2);
    pool.spawn(0, 0..4);
    let yields = pool.probe.task(9);
    let _ = pool.push(0, yields, Why::Yielded);
    // What is next is stolen last.
    assert_eq!(pool.run(1, Go::search), Some(0));
    let order: Vec<_> = std::iter::from_fn(|| pool.run(0, Go::next)).collect();
    assert_eq!(order, [3, 2]);
    assert_eq!(pool.run(1, Go::next), Some(1));
    // A yielded goroutine is in the global queue.
    assert_eq!(pool.run(0, Go::overdue), Some(9));
}

#[test]
fn a_lifo_slot_goes_first_but_three_times_only() {
    let mut pool = Pool::new(&LifoSlot(8), 1);
    pool.spawn(0, [9, 0]);
    let mut order = Vec::new();
    for number in 1..5 {
        order.extend(pool.run(0, LifoSlot::next));
        pool.spawn(0, [number]);
    }
    // 9 was in the queue; the others came through the slot.
    assert_eq!(order, [0, 1, 2, 9]);
}

#[test]
fn a_lifo_slot_is_stolen_when_it_is_old() {
    let mut pool = Pool::new(&LifoSlot(8), 2);
    pool.spawn(0, [5]);
    assert_eq!(pool.run(1, LifoSlot::search), None);
    assert_eq!(pool.run(1, LifoSlot::search), Some(5));
}

#[test]
fn a_task_hops_from_stage_to_stage() {
    let (mut parse, mut reply) = (Pool::new(&Stage(8), 1), Pool::new(&Stage(8), 1));
    parse.spawn(0, [3]);
    let mut task = parse.call(0, Stage::next).expect("its own");
    // What the framework does with a token that hops.
    task.set_policy_word(0);
    let _ = reply.push_from_outside(task, Why::Yielded);
    assert_eq!(parse.run(0, Stage::scan), None);
    assert_eq!(reply.run(0, Stage::next), None);
    assert_eq!(reply.run(0, Stage::overdue), Some(3));
}
