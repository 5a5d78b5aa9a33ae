//! Tests that a worker which rests, because its pool has become smaller, leaves nothing behind.
//!
//! ```text
//!   workers 0 ..:  run ─▶ push a successor ─▶ run ─▶ push a successor ─▶ …      chains that never end
//!   the last one:  pushes tasks of all kinds ─▶ drain ─▶ rests
//!   and then:      what ran there last is woken, from outside and by worker 0
//! ```
//!
//! The others never run out of tasks, so they do not search: what is left at the worker that rests must be
//! where they look in any case.

use super::bench::Bench;
use super::starvation::steps;
use crate::duty::{Duty, Verdict, Violation};
use std::collections::BTreeSet;
use warpweft_policy::{Policy, TaskRef, Why};

/// How many tasks of each kind the worker has when it is to rest.
const EACH: usize = 5;
/// How many tasks that ran on it last are woken after that.
const WOKEN: usize = 4;

/// The behaviour of the tasks that keep the other workers busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    /// Each spawns its successor.
    Spawning,
    /// Each yields, and is run again.
    Yielding,
}

/// While chains of tasks keep the other workers busy forever, a worker rests. What it had in its own half,
/// and what ran there last and is woken later, runs on the others within [`steps`]. When the pool is larger
/// again, the worker has tasks like any other.
///
/// # Errors
///
/// The task that was left behind.
pub fn rest_leaves_nothing<P: Policy>(name: &str, policy: &P) -> Verdict {
    for workers in 2..=3 {
        for busy in [Busy::Spawning, Busy::Yielding] {
            for size in 1..workers {
                play(name, policy, workers, size, busy)?;
            }
        }
    }
    Ok(())
}

fn play<P: Policy>(name: &str, policy: &P, workers: usize, size: usize, busy: Busy) -> Verdict {
    let most = workers * 4 * (EACH + WOKEN) + 8;
    let limit = steps(P::INTERVAL, most);
    let capacity = most + (limit as usize + 1) * 2 * workers;
    let mut game = Game {
        bench: Bench::<P>::new(name, policy, workers, capacity, 1)?,
        busy,
        endless: BTreeSet::new(),
        tick: 0,
        size,
    };
    for worker in 0..size {
        game.chain(worker)?;
    }
    let mut asleep = Vec::new();
    let mut victims = BTreeSet::new();
    for worker in size..workers {
        for _ in 0..WOKEN {
            let (mut task, number) = game.bench.new_task();
            game.bench.suspend(worker, &mut task)?;
            victims.insert(number);
            asleep.push(task);
        }
        for why in [Why::Spawned, Why::Forked, Why::Yielded, Why::Woken] {
            for _ in 0..EACH {
                let (mut task, number) = game.bench.new_task();
                if why == Why::Woken {
                    game.bench.suspend(worker, &mut task)?;
                }
                victims.insert(number);
                game.bench.push(Some(worker), task, why)?;
            }
        }
        // In the middle of a step, so that a private place is in use.
        if let Some(task) = game.bench.find(worker, false)? {
            game.bench.run(worker, task)?;
        }
    }
    // One is woken before the worker knows that it must rest, and lies where it looks.
    if let Some(task) = asleep.pop() {
        game.bench.push(None, task, Why::Woken)?;
    }
    game.bench.resize(size);
    for worker in size..workers {
        game.bench.give_back(worker)?;
    }
    for (number, task) in asleep.into_iter().enumerate() {
        let by = (number % 2 == 0).then_some(0);
        game.bench.push(by, task, Why::Woken)?;
    }
    let limit = steps(P::INTERVAL, game.bench.held().len());
    for _ in 0..limit {
        if victims.is_disjoint(game.bench.held()) {
            return game.grow();
        }
        game.round()?;
    }
    let left: Vec<_> = victims.intersection(game.bench.held()).collect();
    let how = format!(
        "After {limit} steps of each of the {size} workers that were busy {busy:?}, the tasks {left:?} of the workers that rest had \
         not run."
    );
    Err(game.bench.violation(Duty::RestLeavesNothing, how))
}

struct Game<'n, P: Policy> {
    bench: Bench<'n, P>,
    busy: Busy,
    /// The tasks that have successors.
    endless: BTreeSet<usize>,
    tick: u64,
    /// How many workers run.
    size: usize,
}

impl<P: Policy> Game<'_, P> {
    fn chain(&mut self, worker: usize) -> Verdict {
        let (task, number) = self.bench.new_task();
        self.endless.insert(number);
        self.bench.push(Some(worker), task, Why::Spawned)
    }

    /// One step of each worker that runs.
    fn round(&mut self) -> Verdict {
        self.bench.pass_time(1_000);
        self.tick += 1;
        let polls = self.tick.is_multiple_of(u64::from(P::INTERVAL.max(1)));
        for worker in 0..self.size {
            if let Some(task) = self.bench.find(worker, polls)? {
                self.step(worker, task)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, worker: usize, task: TaskRef) -> Result<(), Violation> {
        let number = self.bench.number_of(&task)?;
        if self.endless.contains(&number) {
            if self.busy == Busy::Yielding {
                return self.bench.push(Some(worker), task, Why::Yielded);
            }
            self.chain(worker)?;
        }
        self.bench.run(worker, task)
    }

    /// The pool is as large as before: all workers push again, and all tasks come out.
    fn grow(mut self) -> Verdict {
        let workers = self.bench.workers();
        self.bench.resize(workers);
        self.endless.clear();
        for worker in 0..workers {
            for why in [Why::Spawned, Why::Woken] {
                let (mut task, _) = self.bench.new_task();
                if why == Why::Woken {
                    self.bench.suspend(worker, &mut task)?;
                }
                self.bench.push(Some(worker), task, why)?;
            }
        }
        self.bench.drain(workers - 1)?;
        self.bench.settle()
    }
}
