//! Real threads on one policy: nothing lost, nothing twice, when hooks run at the same time.

use crate::duty::{Duty, Verdict, Violation};
use crate::test_worker::{Hook, TestWorker, build, push_local, suspended};
use std::panic::resume_unwind;
use warpweft_platform::random::Rng;
use warpweft_platform::sync::Arc;
use warpweft_platform::thread;
use warpweft_policy::{Clock, Counters, Cx, Policy, TaskRef, Why};
use warpweft_task::test_tasks::{self, TestTasks};

const WORKERS: usize = 3;
const ROUNDS: usize = 8;
/// Tasks per thread and round.
const TASKS: usize = 1_000;

/// Three workers and an external thread push and take at random; afterwards every task has run once.
///
/// It takes a fraction of a second, whatever the policy does: every thread does a fixed number of steps.
///
/// # Errors
///
/// The duty that the policy broke. It shows only in some runs; the checks under `loom` are exhaustive.
pub fn nothing_lost_with_threads<P: Policy>(name: &str, policy: &P) -> Verdict {
    (0..ROUNDS).try_for_each(|round| one_round(name, policy, round as u64))
}

fn one_round<P: Policy>(name: &str, policy: &P, round: u64) -> Verdict {
    let (shared, locals) = build(name, policy, WORKERS)?;
    let shared = Arc::new(shared);
    let probe = Arc::new(TestTasks::new((WORKERS + 1) * TASKS));
    let workers: Vec<_> = TestWorker::<P>::all(locals, round)
        .into_iter()
        .map(|mut worker| {
            let (shared, probe) = (Arc::clone(&shared), Arc::clone(&probe));
            thread::spawn(move || {
                work::<P>(&shared, &mut worker, &probe);
                worker
            })
        })
        .collect();
    let counters = Counters::default();
    let cx = Cx::from_outside(WORKERS, &counters, Clock::Machine);
    for number in WORKERS * TASKS..(WORKERS + 1) * TASKS {
        let _ = P::push(&shared, None, probe.task(number), Why::Injected, &cx);
    }
    let finished = workers
        .into_iter()
        .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
    let mut finished: Vec<TestWorker<P>> = finished.collect();
    // No other thread is at work any more. Two rounds, because only its pusher finds a private task.
    for worker in &mut finished {
        let (local, cx) = worker.parts(Clock::Machine);
        while let Some(task) = P::scan(&shared, local, &cx) {
            end::<P>(&shared, local, task);
        }
    }
    each_ran_once(name, &probe, (WORKERS + 1) * TASKS)
}

/// Checks that each of the tasks has run, once.
pub(super) fn each_ran_once(name: &str, probe: &TestTasks, tasks: usize) -> Verdict {
    for number in 0..tasks {
        let (runs, lost) = (probe.runs(number), probe.lost(number));
        if runs > 1 {
            return Err(Violation::new(
                name,
                Duty::NothingTwice,
                format!("Task {number} ran {runs} times."),
            ));
        }
        if runs + lost != 1 || lost > 0 {
            let outcome = if lost > 0 {
                "was dropped"
            } else {
                "is in no place that a scan finds"
            };
            return Err(Violation::new(
                name,
                Duty::NothingLost,
                format!("Task {number} {outcome}."),
            ));
        }
    }
    Ok(())
}

/// Runs a worker: it pushes its tasks one by one, and takes, yields, suspends and wakes in between.
fn work<P: Policy>(shared: &P::Shared, worker: &mut TestWorker<P>, probe: &TestTasks) {
    let first = worker.index * TASKS;
    let mut chance = Rng::seeded(first as u64);
    let (local, cx) = worker.parts(Clock::Machine);
    let mut asleep: Vec<TaskRef> = Vec::new();
    for number in first..first + TASKS {
        let why = [Why::Spawned, Why::Forked][chance.below(2)];
        let _ = push_local::<P>(shared, local, probe.task(number), why, &cx);
        for _ in 0..chance.below(3) {
            let Some(mut task) = Hook::ALL[chance.below(4)].call::<P>(shared, local, &cx) else {
                continue;
            };
            match chance.below(8) {
                0 => {
                    let _ = push_local::<P>(shared, local, task, Why::Yielded, &cx);
                }
                1 => {
                    suspended::<P>(shared, local, &mut task, &cx);
                    asleep.push(task);
                }
                _ => end::<P>(shared, local, task),
            }
        }
        if chance.below(4) == 0
            && let Some(task) = asleep.pop()
        {
            let _ = push_local::<P>(shared, local, task, Why::Woken, &cx);
        }
    }
    for task in asleep {
        let _ = push_local::<P>(shared, local, task, Why::Woken, &cx);
    }
}

pub(super) fn end<P: Policy>(shared: &P::Shared, local: &mut P::Local, task: TaskRef) {
    let word = task.policy_word();
    // A task of `TestTasks` is a closure: it ends in one step.
    test_tasks::run(task);
    if P::WATCHES_COMPLETIONS {
        P::completed(shared, local, word);
    }
}
