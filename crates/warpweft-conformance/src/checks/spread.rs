//! Tasks from everywhere, for each reason: what the checks of `evict` and `extract` begin with.

use super::bench::Bench;
use crate::duty::Verdict;
use warpweft_policy::{Policy, TaskRef, Why, priority};

/// How many tasks each source pushes for each reason.
const EACH: usize = 12;

/// Why tasks are pushed, from outside or by each worker.
const REASONS: [Why; 4] = [Why::Injected, Why::Spawned, Why::Yielded, Why::Woken];

/// Returns the number of tasks for a pool of that many workers.
pub(super) fn tasks(workers: usize) -> usize {
    EACH * (workers + 1) * REASONS.len()
}

/// Pushes that many tasks, which `make` makes, of all priorities.
pub(super) fn push<P: Policy>(
    bench: &mut Bench<P>,
    policy: &P,
    workers: usize,
    mut make: impl FnMut(&mut Bench<P>) -> TaskRef,
) -> Verdict {
    let sources = workers + 1;
    let levels = usize::from(policy.priorities().max(1));
    for number in 0..tasks(workers) {
        let by = (number % sources).checked_sub(1);
        let mut task = make(bench);
        if policy.priorities() > 0 {
            task.set_policy_word(priority::word((number % levels) as u8));
        }
        let why = match REASONS[number / sources % REASONS.len()] {
            // No task yields outside of a worker.
            Why::Yielded if by.is_none() => Why::Woken,
            why => why,
        };
        if why == Why::Woken {
            bench.suspend(number % workers, &mut task)?;
        }
        bench.push(by, task, why)?;
    }
    Ok(())
}
