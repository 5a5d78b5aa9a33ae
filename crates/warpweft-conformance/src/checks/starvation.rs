//! Tests that a task runs in bounded time while every worker is kept busy forever.
//!
//! ```text
//!   worker 0:  run ─▶ push a successor ─▶ run ─▶ push a successor ─▶ …      a chain that never ends
//!   worker 1:  run ─▶ push a successor ─▶ …
//!   and at some moment, from somewhere: the task that waits for its turn
//! ```
//!
//! The workers take tasks by the framework's rule: `poll_global` every [`INTERVAL`](Policy::INTERVAL) tasks,
//! and whenever `next` has nothing.

use super::bench::Bench;
use crate::duty::{Duty, Verdict};
use warpweft_policy::{Policy, TaskRef, Why, priority};

/// The number of kinds of places (from outside, yielded, the bottom of a stack, …) that a policy may let
/// `poll_global` go round. A task must run when `poll_global` has been once round all of them for each task
/// before it and for itself: after [`steps`] of its worker.
pub const TURNS: u64 = 8;

/// The largest bound that counts as one: at a microsecond a task it is a second.
pub const MOST_STEPS: u64 = 1 << 20;

/// Returns within how many steps of every worker a task must run that came when the policy held `ahead`
/// others: `TURNS * INTERVAL * (ahead + 1)`.
///
/// *Reason.* `poll_global` is called once in `INTERVAL` steps, whatever `next` has. A policy with several
/// places that `next` may pass over serves them in turn, or at random; [`TURNS`] leaves room for eight. In
/// one place the oldest is first, so at most the `ahead` others come before.
#[must_use]
pub fn steps(interval: u32, ahead: usize) -> u64 {
    (TURNS * u64::from(interval.max(1)))
        .saturating_mul(ahead as u64 + 1)
        .min(MOST_STEPS)
}

/// The behaviour of the tasks that keep the workers busy.
#[derive(Debug, Clone, Copy)]
enum Busy {
    /// Each spawns its successor.
    Spawning,
    /// Each spawns two.
    Multiplying,
    /// Each yields, and is run again.
    Yielding,
    /// Each waits, and is woken at once.
    Waking,
    /// Each spawns its successor, and at every step an external thread spawns something.
    SpawningUnderInjection,
    /// Each spawns its successor, and yields once.
    SpawningAndYielding,
}

const BUSY: [Busy; 6] = [
    Busy::Spawning,
    Busy::Multiplying,
    Busy::Yielding,
    Busy::Waking,
    Busy::SpawningUnderInjection,
    Busy::SpawningAndYielding,
];

/// The source of the waiting task: pushed by worker 0 or from outside.
const VICTIMS: [(Option<usize>, Why); 6] = [
    (None, Why::Injected),
    (None, Why::Woken),
    (Some(0), Why::Spawned),
    (Some(0), Why::Forked),
    (Some(0), Why::Yielded),
    (Some(0), Why::Woken),
];

/// Steps before the waiting task comes, so that the policy is in the middle of something.
const WARM_UP: u64 = 10;

/// The behaviour of tasks that are more urgent than the one that waits.
const BUSY_AND_URGENT: [Busy; 3] = [Busy::Spawning, Busy::Yielding, Busy::SpawningUnderInjection];

/// While chains of tasks keep every worker busy forever, a task from outside, one that yielded, was woken, or
/// was spawned earlier runs within [`steps`]. If all of those tasks have the highest of several priorities,
/// and this one has the lowest, the bound is multiplied by the number of priorities.
///
/// # Errors
///
/// The task that starved, and the tasks that kept the workers busy.
pub fn nothing_starves<P: Policy>(name: &str, policy: &P) -> Verdict {
    for workers in 1..=3 {
        for busy in BUSY {
            for (by, why) in VICTIMS {
                for before in [0, 7] {
                    starve(name, policy, workers, busy, by, why, before, None)?;
                }
            }
        }
    }
    let levels = policy.priorities();
    if levels < 2 {
        return Ok(());
    }
    for workers in 1..=2 {
        for busy in BUSY_AND_URGENT {
            for (by, why) in VICTIMS {
                starve(name, policy, workers, busy, by, why, 2, Some(levels))?;
            }
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "one line of a table")]
fn starve<P: Policy>(
    name: &str,
    policy: &P,
    workers: usize,
    busy: Busy,
    by: Option<usize>,
    why: Why,
    before: usize,
    levels: Option<u8>,
) -> Verdict {
    // Each step of a worker makes two tasks at most. Before the victim there is a chain per worker, and
    // `before`.
    let most = (WARM_UP as usize * 2 + 3) * workers + before + 1;
    let within = |ahead| {
        let limit = steps(P::INTERVAL, ahead).saturating_mul(u64::from(levels.unwrap_or(1)));
        limit.min(MOST_STEPS)
    };
    let limit = within(most);
    let capacity = most + (limit as usize + 1) * 2 * workers;
    let mut bench = Bench::<P>::new(name, policy, workers, capacity, 1)?;
    let mut endless = Endless {
        busy,
        numbers: vec![false; capacity],
        word: levels.map_or(0, |_| priority::word(0)),
    };
    for worker in 0..workers {
        endless.push(&mut bench, Some(worker), Why::Spawned, true)?;
    }
    let mut tick = 0;
    while tick < WARM_UP {
        tick += 1;
        endless.round(&mut bench, tick)?;
    }
    // In the middle of a step of worker 0: what its task pushes afterwards may pass the victim. But a task
    // yields at the end of its step.
    tick += 1;
    let mut running = bench.find(0, false)?;
    if why == Why::Yielded
        && let Some(running) = running.take()
    {
        endless.step(&mut bench, 0, running)?;
    }
    for _ in 0..before {
        endless.push(&mut bench, by, why, false)?;
    }
    let ahead = bench.held().len();
    let (mut victim, number) = bench.new_task();
    if let Some(levels) = levels {
        victim.set_policy_word(priority::word(levels - 1));
    }
    bench.push(by, victim, why)?;
    if let Some(running) = running {
        endless.step(&mut bench, 0, running)?;
    }
    let limit = within(ahead);
    for _ in 0..limit {
        tick += 1;
        endless.round(&mut bench, tick)?;
        if !bench.held().contains(&number) {
            return Ok(());
        }
    }
    let from = by.map_or(String::from("from outside"), |worker| {
        format!("by worker {worker}")
    });
    let less = levels.map_or("", |_| " with the lowest priority");
    let how = format!(
        "A task pushed {from} as {why:?}{less}, with {ahead} tasks ahead, had not run after {limit} steps of each of \
         {workers} workers that were busy {busy:?}."
    );
    Err(bench.violation(Duty::NothingStarves, how))
}

struct Endless {
    busy: Busy,
    /// The tasks that have successors, by number.
    numbers: Vec<bool>,
    /// The policy word of all of them.
    word: u64,
}

impl Endless {
    /// One step of each worker.
    fn round<P: Policy>(&mut self, bench: &mut Bench<'_, P>, tick: u64) -> Verdict {
        bench.pass_time(1_000);
        for worker in 0..bench.workers() {
            if let Some(task) = bench.find(worker, tick.is_multiple_of(u64::from(P::INTERVAL.max(1))))? {
                self.step(bench, worker, task)?;
            }
        }
        Ok(())
    }

    fn step<P: Policy>(&mut self, bench: &mut Bench<'_, P>, worker: usize, mut task: TaskRef) -> Verdict {
        let number = bench.number_of(&task)?;
        if !self.numbers[number] {
            return bench.run(worker, task);
        }
        match self.busy {
            Busy::Yielding => {
                bench.push(Some(worker), task, Why::Yielded)?;
                return Ok(());
            }
            Busy::Waking => {
                bench.suspend(worker, &mut task)?;
                bench.push(Some(worker), task, Why::Woken)?;
                return Ok(());
            }
            Busy::Spawning => {}
            Busy::Multiplying => self.push(bench, Some(worker), Why::Spawned, true)?,
            Busy::SpawningUnderInjection => self.push(bench, None, Why::Injected, false)?,
            Busy::SpawningAndYielding => {
                self.push(bench, Some(worker), Why::Spawned, true)?;
                self.numbers[number] = false;
                bench.push(Some(worker), task, Why::Yielded)?;
                return Ok(());
            }
        }
        self.push(bench, Some(worker), Why::Spawned, true)?;
        bench.run(worker, task)
    }

    fn push<P: Policy>(
        &mut self,
        bench: &mut Bench<'_, P>,
        by: Option<usize>,
        why: Why,
        endless: bool,
    ) -> Verdict {
        let (mut task, number) = bench.new_task();
        task.set_policy_word(self.word);
        self.numbers[number] = endless;
        bench.push(by, task, why)
    }
}
