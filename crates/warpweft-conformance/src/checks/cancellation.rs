//! Tests that tasks which are cancelled in their queues leave them once, and that no others do.

use super::bench::Bench;
use crate::duty::{Duty, Verdict};
use warpweft_policy::{Policy, Why, priority};

/// How many tasks each source pushes for each reason.
const EACH: usize = 6;

/// Why tasks are pushed, from outside or by each worker.
const REASONS: [Why; 4] = [Why::Injected, Why::Spawned, Why::Yielded, Why::Woken];

/// Tasks are cancelled while a policy holds them. [`evict`](Policy::evict) of any worker hands out such tasks
/// only, each of them once, and drops none. Those that stay come out in their turn, and all that were not
/// cancelled run. Where the policy says how many tasks it has, it has none at the end.
///
/// # Errors
///
/// The task that was handed out though it was not cancelled, or was lost; or the wrong count.
pub fn evictions_are_honest<P: Policy>(name: &str, policy: &P) -> Verdict {
    for workers in 1..=3 {
        for evictor in 0..workers {
            for every in [1, 2, 3, usize::MAX] {
                play(name, policy, workers, evictor, every)?;
            }
        }
    }
    Ok(())
}

fn play<P: Policy>(name: &str, policy: &P, workers: usize, evictor: usize, every: usize) -> Verdict {
    let sources = workers + 1;
    let tasks = EACH * sources * REASONS.len();
    let mut bench = Bench::<P>::new(name, policy, workers, tasks, 1)?;
    let levels = usize::from(policy.priorities().max(1));
    for number in 0..tasks {
        let by = (number % sources).checked_sub(1);
        let (mut task, _) = bench.new_cancellable();
        if policy.priorities() > 0 {
            task.set_policy_word(priority::word((number % levels) as u8));
        }
        let why = match REASONS[number / sources % REASONS.len()] {
            Why::Yielded if by.is_none() => Why::Woken,
            why => why,
        };
        if why == Why::Woken {
            bench.suspend(number % workers, &mut task)?;
        }
        bench.push(by, task, why)?;
    }
    let mut cancellations = 0;
    for number in (0..tasks).filter(|number| number.is_multiple_of(every)) {
        bench.cancel(number);
        cancellations += 1;
    }
    // Twice: nothing that was handed out comes again. By others, too: each has its own half.
    for worker in [evictor, evictor].into_iter().chain(0..workers) {
        cancellations += tasks as u64;
        bench.evict(worker, cancellations)?;
    }
    bench.drain(evictor)?;
    bench.settle()?;
    match bench.reported() {
        0 => Ok(()),
        left => {
            let how = format!("All tasks have left, and it reports that it has {left}.");
            Err(bench.violation(Duty::HonestEvict, how))
        }
    }
}
