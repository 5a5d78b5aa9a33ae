//! Tests that tasks which get another priority in their queues come out of them, and no others do.

use super::bench::Bench;
use crate::duty::{Duty, Verdict};
use warpweft_policy::{Policy, Why, priority};

/// How many tasks each source pushes.
const EACH: usize = 12;

/// Where tasks come from: from outside, or pushed by each worker.
const REASONS: [Why; 4] = [Why::Injected, Why::Spawned, Why::Yielded, Why::Woken];

/// `extract` of any worker hands out only tasks that are wanted and were held, each of them once, and no task
/// is lost by it. A policy may leave tasks where they are.
///
/// # Errors
///
/// The task that was handed out though it was not wanted, or was lost.
pub fn extracts_are_honest<P: Policy>(name: &str, policy: &P) -> Verdict {
    for workers in 1..=3 {
        for extractor in 0..workers {
            for wanted in [2, 3, usize::MAX] {
                play(name, policy, workers, extractor, wanted)?;
            }
        }
    }
    Ok(())
}

fn play<P: Policy>(name: &str, policy: &P, workers: usize, extractor: usize, every: usize) -> Verdict {
    let sources = workers + 1;
    let tasks = EACH * sources * REASONS.len();
    let mut bench = Bench::<P>::new(name, policy, workers, tasks, 1)?;
    let levels = usize::from(policy.priorities().max(1));
    for number in 0..tasks {
        let by = (number % sources).checked_sub(1);
        let (mut task, _) = bench.new_task();
        if policy.priorities() > 0 {
            task.set_policy_word(priority::word((number % levels) as u8));
        }
        let why = REASONS[number / sources % REASONS.len()];
        let why = if by.is_none() && why == Why::Yielded {
            Why::Woken
        } else {
            why
        };
        if why == Why::Woken {
            bench.suspend(number % workers, &mut task)?;
        }
        bench.push(by, task, why)?;
    }
    let is_wanted = |number: usize| number.is_multiple_of(every);
    for mut task in bench.extract(extractor, &is_wanted)? {
        let number = bench.number_of(&task)?;
        if !is_wanted(number) {
            let how =
                format!("`extract` of worker {extractor} handed out task {number}, which was not wanted.");
            return Err(bench.violation(Duty::HonestExtract, how));
        }
        task.set_policy_word(priority::keep(priority::word(0), task.policy_word()));
        bench.push(Some(extractor), task, Why::Woken)?;
    }
    bench.drain(extractor)?;
    bench.settle()
}
