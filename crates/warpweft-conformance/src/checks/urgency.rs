//! Tests that an urgent task runs before many less urgent ones, wherever it comes from.
//!
//! ```text
//!   inside:   each worker has many less urgent tasks ──▶ run, run, run, …
//!   outside:  many less urgent tasks wait there, too
//!   and then, from outside or by a worker: a few urgent ones
//! ```
//!
//! The workers take tasks by the framework's rule, as for starvation. The steps count, not how long they
//! take.

use super::bench::Bench;
use crate::duty::{Duty, Verdict, Violation};
use warpweft_policy::{Policy, TaskRef, Why, priority};

/// The smallest bound that is required of a policy.
const LEAST: u64 = 61;

/// Returns within how many steps of each worker an urgent task must run while there are less urgent ones:
/// [`INTERVAL`](Policy::INTERVAL), or 61 if that is less.
///
/// *Reason.* A policy may look only once in `INTERVAL` steps at what waits outside of a worker's own half, if
/// it then takes the most urgent task. One that goes round several places at these looks is too late.
#[must_use]
pub fn urgent_steps(interval: u32) -> u64 {
    u64::from(interval).max(LEAST)
}

/// The behaviour of the less urgent tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Less {
    /// Each ends.
    Ending,
    /// Each yields, and is run again.
    Yielding,
    /// Each waits, and is woken at once.
    Waking,
}

/// The sources of urgent tasks: pushed by worker 0 or from outside.
const SOURCES: [(Option<usize>, Why); 7] = [
    (None, Why::Injected),
    (None, Why::Spawned),
    (None, Why::Woken),
    (Some(0), Why::Spawned),
    (Some(0), Why::Forked),
    (Some(0), Why::Yielded),
    (Some(0), Why::Woken),
];

/// How many urgent tasks come at once, again and again. In a policy with several places, one of them may have
/// been served last.
const URGENT: [usize; 6] = [3, 1, 1, 1, 1, 1];
/// Rounds between them.
const PAUSE: u64 = 3;

/// Rounds before they come: none, and enough for workers to have taken some tasks from outside.
const WARM_UPS: [u64; 2] = [0, 10];

/// While many less urgent tasks wait inside and outside of the pool, urgent ones run within [`urgent_steps`]
/// of each worker. The urgent ones come from outside, were spawned, forked or woken, or yielded. A policy
/// with fewer than two priorities has no such duty.
///
/// # Errors
///
/// The urgent task that was passed over, and the task that ran instead.
pub fn urgent_comes_first<P: Policy>(name: &str, policy: &P) -> Verdict {
    let levels = policy.priorities();
    if levels < 2 {
        return Ok(());
    }
    let last = levels - 1;
    let mut pairs = vec![(0, last), (0, 1), (last - 1, last)];
    pairs.dedup();
    for workers in 1..=3 {
        for less in [Less::Ending, Less::Yielding, Less::Waking] {
            for source in SOURCES {
                for warm_up in WARM_UPS {
                    for &levels in &pairs {
                        UrgencyCase {
                            workers,
                            less,
                            source,
                            warm_up,
                            levels,
                        }
                        .play(name, policy)?;
                    }
                }
            }
        }
    }
    Ok(())
}

struct UrgencyCase {
    workers: usize,
    less: Less,
    /// The pusher of the urgent tasks, and the reason.
    source: (Option<usize>, Why),
    warm_up: u64,
    /// The priority of the urgent tasks, and of the others.
    levels: (u8, u8),
}

impl UrgencyCase {
    fn play<P: Policy>(&self, name: &str, policy: &P) -> Verdict {
        let limit = urgent_steps(P::INTERVAL);
        // They must not run out before the bound, neither inside nor outside, nor in one of the few queues of
        // a worker.
        let each = 4 * limit as usize;
        let (urgent, less) = self.levels;
        let less_urgent = 2 * each * self.workers;
        let all = less_urgent + URGENT.iter().sum::<usize>();
        let mut bench = Bench::<P>::new(name, policy, self.workers, all, 1)?;
        for worker in 0..self.workers {
            for _ in 0..each {
                push(&mut bench, None, Why::Injected, less)?;
                push(&mut bench, Some(worker), Why::Spawned, less)?;
            }
        }
        let mut tick = 0;
        while tick < self.warm_up {
            tick += 1;
            self.round(&mut bench, tick, less_urgent)?;
        }
        for urgent_ones in URGENT {
            for _ in 0..urgent_ones {
                push(&mut bench, self.source.0, self.source.1, urgent)?;
            }
            let end = tick + limit;
            while bench.held().range(less_urgent..).next().is_some() {
                if tick == end {
                    return Err(self.passed_over(&bench, limit));
                }
                tick += 1;
                self.round(&mut bench, tick, less_urgent)?;
            }
            for _ in 0..PAUSE {
                tick += 1;
                self.round(&mut bench, tick, less_urgent)?;
            }
        }
        Ok(())
    }

    fn passed_over<P: Policy>(&self, bench: &Bench<'_, P>, limit: u64) -> Violation {
        let ((by, why), (urgent, less)) = (self.source, self.levels);
        let from = by.map_or(String::from("from outside"), |worker| {
            format!("by worker {worker}")
        });
        let how = format!(
            "A task with priority {urgent} that was pushed {from} as {why:?} had not run after {limit} steps of each of {} workers, \
             while others with priority {less} did, which were {:?}.",
            self.workers, self.less
        );
        bench.violation(Duty::UrgentFirst, how)
    }

    /// One step of each worker.
    fn round<P: Policy>(&self, bench: &mut Bench<'_, P>, tick: u64, less_urgent: usize) -> Verdict {
        bench.pass_time(1_000);
        for worker in 0..self.workers {
            let overdue_first = tick.is_multiple_of(u64::from(P::INTERVAL.max(1)));
            if let Some(task) = bench.find(worker, overdue_first)? {
                self.step(bench, worker, task, less_urgent)?;
            }
        }
        Ok(())
    }

    fn step<P: Policy>(
        &self,
        bench: &mut Bench<'_, P>,
        worker: usize,
        mut task: TaskRef,
        less_urgent: usize,
    ) -> Verdict {
        if self.less == Less::Ending || bench.number_of(&task)? >= less_urgent {
            return bench.run(worker, task);
        }
        if self.less == Less::Yielding {
            return bench.push(Some(worker), task, Why::Yielded);
        }
        bench.suspend(worker, &mut task)?;
        bench.push(Some(worker), task, Why::Woken)
    }
}

/// Pushes a new task with this priority.
fn push<P: Policy>(bench: &mut Bench<'_, P>, by: Option<usize>, why: Why, level: u8) -> Verdict {
    let (mut task, _) = bench.new_task();
    task.set_policy_word(priority::word(level));
    if why == Why::Woken {
        // It has run on some worker, and waits.
        let last = bench.workers() - 1;
        bench.suspend(last, &mut task)?;
    }
    bench.push(by, task, why)
}
