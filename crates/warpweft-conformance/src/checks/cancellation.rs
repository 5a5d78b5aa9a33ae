//! Tests that tasks which are cancelled in their queues leave them once, and that no others do.

use super::bench::Bench;
use super::spread;
use crate::duty::{Duty, Verdict};
use warpweft_policy::Policy;

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
    let tasks = spread::tasks(workers);
    let mut bench = Bench::<P>::new(name, policy, workers, tasks, 1)?;
    spread::push(&mut bench, policy, workers, |bench| bench.new_cancellable().0)?;
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
