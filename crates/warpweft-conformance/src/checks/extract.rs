//! Tests that tasks which get another priority in their queues come out of them, and no others do.

use super::bench::Bench;
use super::spread;
use crate::duty::{Duty, Verdict};
use warpweft_policy::{Policy, Why, priority};

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
    let tasks = spread::tasks(workers);
    let mut bench = Bench::<P>::new(name, policy, workers, tasks, 1)?;
    spread::push(&mut bench, policy, workers, |bench| bench.new_task().0)?;
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
