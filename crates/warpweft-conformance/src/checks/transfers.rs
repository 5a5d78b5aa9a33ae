//! Two pools of one policy, and tasks that transfer between them: nothing lost, nothing twice, nothing left
//! behind.
//!
//! ```text
//!   worker of one pool: next … scan ──▶ `completed`, the policy word := 0
//!                                         ──▶ push(Injected), from outside, to the other pool
//! ```
//!
//! For the pool that a task leaves the task has ended: its word goes to `completed`, as at an end. For the
//! other one it is a task from outside, without a word.

use super::bench::Bench;
use super::threads;
use crate::duty::{Verdict, Violation};
use crate::test_worker::{Hook, TestWorker, build};
use std::panic::resume_unwind;
use warpweft_platform::random::Rng;
use warpweft_platform::sync::Arc;
use warpweft_platform::thread;
use warpweft_policy::{Clock, Counters, Cx, Policy, TaskRef, Why};
use warpweft_task::test_tasks::TestTasks;

/// The number of histories. Each has its own random numbers.
const HISTORIES: u64 = 128;
/// Events per history.
const LENGTH: usize = 300;
/// Threads per pool.
const WORKERS: usize = 2;
const ROUNDS: usize = 4;
/// Tasks per round.
const TASKS: usize = 1_000;

/// Random histories of two pools of up to three workers each. Tasks transfer between the pools, wait, are
/// woken in their pool, and end. They run first in one thread, then with a thread for each worker. Every task
/// comes out of the pool to which it went, once.
///
/// # Errors
///
/// The duty that the policy broke, and in which history, or with threads.
///
/// # Panics
///
/// A hook of the policy panics.
pub fn nothing_lost_in_transfers<P: Policy>(name: &str, policy: &P) -> Verdict {
    (0..HISTORIES).try_for_each(|seed| {
        play(name, policy, seed).map_err(|violation| {
            let how = format!("{} (History {seed} of two pools.)", violation.how());
            Violation::new(name, violation.duty(), how)
        })
    })?;
    (0..ROUNDS).try_for_each(|round| one_round(name, policy, round as u64))
}

fn play<P: Policy>(name: &str, policy: &P, seed: u64) -> Verdict {
    let mut chance = Rng::seeded(seed);
    let workers = 1 + seed as usize % 3;
    let first = Bench::<P>::new(name, policy, workers, LENGTH, seed)?;
    let second = first.beside(policy, !seed)?;
    let mut pools = [first, second];
    let mut asleep: [Vec<TaskRef>; 2] = Default::default();
    for _ in 0..LENGTH {
        let (here, worker) = (chance.below(2), chance.below(workers));
        let by = (chance.below(4) > 0).then_some(worker);
        match chance.below(8) {
            0..=2 => {
                let (task, _) = pools[0].new_task();
                pools[here].push(by, task, Why::ALL[chance.below(Why::ALL.len())])?;
            }
            3 => {
                if let Some(task) = asleep[here].pop() {
                    pools[here].push(by, task, Why::Woken)?;
                }
            }
            _ => {
                let Some(mut task) = pools[here].take(worker, Hook::ALL[chance.below(4)])? else {
                    continue;
                };
                match chance.below(4) {
                    0 => pools[here].run(worker, task)?,
                    1 => {
                        pools[here].suspend(worker, &mut task)?;
                        asleep[here].push(task);
                    }
                    _ => {
                        pools[here].depart(worker, &mut task)?;
                        pools[1 - here].push(None, task, Why::Injected)?;
                    }
                }
            }
        }
    }
    for (pool, asleep) in pools.iter_mut().zip(asleep) {
        for task in asleep {
            pool.push(None, task, Why::Woken)?;
        }
        pool.drain(seed as usize % workers)?;
    }
    pools[0].settle()
}

/// The state that the threads of both pools share.
struct PoolPair<P: Policy> {
    pools: [P::Shared; 2],
    probe: TestTasks,
}

fn one_round<P: Policy>(name: &str, policy: &P, round: u64) -> Verdict {
    let (first, second) = (build(name, policy, WORKERS)?, build(name, policy, WORKERS)?);
    let pair = Arc::new(PoolPair::<P> {
        pools: [first.0, second.0],
        probe: TestTasks::new(TASKS),
    });
    let counters = Counters::default();
    for number in 0..TASKS {
        inject(&pair, number % 2, pair.probe.task(number), &counters);
    }
    let mut parts = Vec::new();
    for (here, locals) in [first.1, second.1].into_iter().enumerate() {
        for mut worker in TestWorker::<P>::all(locals, round) {
            let pair = Arc::clone(&pair);
            parts.push(thread::spawn(move || {
                work(&pair, here, &mut worker);
                (here, worker)
            }));
        }
    }
    let workers: Vec<_> = parts
        .into_iter()
        .map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic)))
        .collect();
    for (here, mut worker) in workers {
        let (local, cx) = worker.parts(Clock::Machine);
        while let Some(task) = P::scan(&pair.pools[here], local, &cx) {
            threads::end::<P>(&pair.pools[here], local, task);
        }
    }
    threads::each_ran_once(name, &pair.probe, TASKS)
}

/// Runs a worker: a fixed number of steps, in which it transfers most of the tasks that it takes.
fn work<P: Policy>(pair: &PoolPair<P>, here: usize, worker: &mut TestWorker<P>) {
    let mut chance = Rng::seeded((2 * worker.index + here) as u64);
    let counters = Counters::default();
    let (local, cx) = worker.parts(Clock::Machine);
    for _ in 0..4 * TASKS {
        let Some(mut task) = Hook::ALL[chance.below(4)].call::<P>(&pair.pools[here], local, &cx) else {
            continue;
        };
        if chance.below(4) == 0 {
            threads::end::<P>(&pair.pools[here], local, task);
            continue;
        }
        let word = task.policy_word();
        if P::WATCHES_COMPLETIONS {
            P::completed(&pair.pools[here], local, word);
        }
        task.set_policy_word(0);
        inject(pair, 1 - here, task, &counters);
    }
}

fn inject<P: Policy>(pair: &PoolPair<P>, pool: usize, task: TaskRef, counters: &Counters) {
    let cx = Cx::from_outside(WORKERS, counters, Clock::Machine);
    let _ = P::push(&pair.pools[pool], None, task, Why::Injected, &cx);
}
