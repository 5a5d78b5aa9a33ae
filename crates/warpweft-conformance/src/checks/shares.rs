//! Tests that each priority gets its least share of the time, though all have tasks.
//!
//! ```text
//!   each priority has some tasks, which never end: they are pushed again after each step
//!   one second passes on the virtual clock; whose steps took it?
//! ```

use super::bench::Bench;
use crate::duty::{Duty, Verdict};
use warpweft_policy::{Policy, TaskRef, Why, priority};

/// How much less than its share a priority may get, in points of a hundred.
const POINTS: u64 = 2;
/// How long all of it takes, in nanoseconds.
const TIME: u64 = 1_000_000_000;
/// How many tasks each priority has for each worker.
const TASKS: usize = 4;
/// The steps of the priorities take so long, by turns, in nanoseconds.
const STEPS: [u64; 3] = [50_000, 200_000, 90_000];

/// How a task becomes ready again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    Yielded,
    Woken,
    /// A thread outside of the pool wakes it.
    WokenOutside,
}

/// If all priorities have tasks, each gets at least its [share](Policy::shares) of a second less two points.
/// It does not matter how long the steps of a priority take, and how its tasks become ready. A policy without
/// shares has no such duty.
///
/// # Errors
///
/// The priority that got too little, and what all got.
pub fn shares_are_kept<P: Policy>(name: &str, policy: &P) -> Verdict {
    if policy.shares().is_empty() {
        return Ok(());
    }
    for again in [Again::Yielded, Again::Woken, Again::WokenOutside] {
        for shift in 0..STEPS.len() {
            play(name, policy, again, 1, |level| {
                STEPS[(level + shift) % STEPS.len()]
            })?;
        }
        // Workers whose steps take different times have no common clock here.
        play(name, policy, again, 2, |_| STEPS[0])?;
    }
    Ok(())
}

fn play<P: Policy>(
    name: &str,
    policy: &P,
    again: Again,
    workers: usize,
    takes: impl Fn(usize) -> u64,
) -> Verdict {
    let shares = policy.shares();
    let tasks = shares.len() * TASKS * workers;
    let mut bench = Bench::<P>::new(name, policy, workers, tasks, 1)?;
    for number in 0..tasks {
        let (mut task, _) = bench.new_task();
        task.set_policy_word(priority::word((number % shares.len()) as u8));
        match number % 2 {
            0 => bench.push(None, task, Why::Injected)?,
            _ => bench.push(Some(number % workers), task, Why::Spawned)?,
        }
    }
    let (mut got, mut tick, mut passed) = (vec![0; shares.len()], 0, 0);
    while passed < TIME {
        tick += 1;
        let mut round = 0;
        let overdue_first = u64::is_multiple_of(tick, u64::from(P::INTERVAL.max(1)));
        let mut ran = Vec::new();
        for worker in 0..workers {
            if let Some(task) = bench.find(worker, overdue_first)? {
                let level = priority::level(task.policy_word(), shares.len());
                got[level] += takes(level);
                round = takes(level);
                ran.push((worker, task));
            }
        }
        bench.pass_time(round);
        passed += round.max(1);
        for (worker, task) in ran {
            ready(&mut bench, worker, task, again)?;
        }
    }
    let all: u64 = got.iter().sum();
    let percent: Vec<_> = got.iter().map(|got| 100 * got / all).collect();
    for (level, (&share, &percent_)) in shares.iter().zip(&percent).enumerate() {
        if percent_ + POINTS < u64::from(share) {
            let how = format!(
                "Priority {level} got {percent_} % of the time, and its share is {share} %. All got {percent:?}, on {workers} workers, \
                 and their tasks were {again:?} again."
            );
            return Err(bench.violation(Duty::SharesKept, how));
        }
    }
    // What is left ends.
    bench.drain(0)?;
    bench.settle()
}

fn ready<P: Policy>(bench: &mut Bench<'_, P>, worker: usize, mut task: TaskRef, again: Again) -> Verdict {
    if again == Again::Yielded {
        return bench.push(Some(worker), task, Why::Yielded);
    }
    bench.suspend(worker, &mut task)?;
    let by = (again == Again::Woken).then_some(worker);
    bench.push(by, task, Why::Woken)
}
