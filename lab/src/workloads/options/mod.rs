//! *options*: thirty thousand European options, priced on binomial lattices; each step in time is a task of
//! its own, which spawns the next.
//!
//! ```text
//!  light   leaves ─▶ step ─▶ … 20 …   ─▶ step: the price
//!  heavy   leaves ─▶ step ─▶ … 2000 … ─▶ step: the price
//! ```
//!
//! One option in two hundred has a lattice of 2000 steps, an exact, shuffled count; no task of it is long, so
//! that it need not stall the others, and whether it does is the policy's affair. The two kinds are timed
//! apart. Each price is checked against the closed form (Modelski, *Using effect handlers for efficient
//! parallel scheduling*, 2022, section 5.5).

use std::path::Path;

use super::chain::{self, Departures, Journey, heavy_ones};
use super::check;
use super::lane::{Landed, Lane};
use super::listener::Listening;
use super::params::{Domain, Param, Params, Variant};
use super::spec::{self, Kind, Workload};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::{JobPool, TaskPool};

mod pricing;
mod quotes;

use pricing::Lattice;

/// The workload as users see it.
pub(super) const WORKLOAD: Workload = Workload {
    name: "options",
    kind: Kind::Options,
    about: "European options on binomial lattices, each step in time a task; one option in 200 has a hundred times the steps (--csv FILE)",
    unit: "options",
    latency: Some("from spawn to the price"),
    params: &[
        spec::count(
            "30k",
            "options, those of a file repeated as often as needed",
            1 << 28,
        ),
        spec::window("0"),
        spec::spawners("1"),
        Param {
            name: "steps",
            about: "steps of a lattice",
            domain: Domain::Number {
                least: 1,
                most: MOST_STEPS,
            },
            default: "20",
        },
        Param {
            name: "heavy",
            about: "heavy options of a thousand; at least one option is heavy unless it is 0",
            domain: Domain::Number { least: 0, most: 1000 },
            default: "5",
        },
        Param {
            name: "heavy-steps",
            about: "steps of a heavy option's lattice",
            domain: Domain::Number {
                least: 1,
                most: MOST_STEPS,
            },
            default: "2000",
        },
        spec::HANDLERS,
    ],
    variants: &[
        Variant {
            name: "spawners1",
            about: "one spawner (the default)",
            set: &[],
        },
        Variant {
            name: "spawners2",
            about: "two spawners",
            set: &[("spawners", "2")],
        },
        Variant {
            name: "spawners4",
            about: "four spawners",
            set: &[("spawners", "4")],
        },
        Variant {
            name: "bounded",
            about: "1024 options under way at most",
            set: &[("window", "1024")],
        },
        spec::NULL,
    ],
    smoke: &[("n", "300"), ("heavy-steps", "200")],
};

/// Lattices have at most so many steps: their work grows with the square.
const MOST_STEPS: u64 = 100_000;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    listening: Listening,
    tasks: &'static [Task],
}

/// An option with its lattice.
struct Task {
    lattice: Lattice,
    heavy: bool,
    /// The price in closed form.
    known: f64,
    /// How far from it the lattice may be.
    tolerance: f64,
}

/// A lattice on its way back in time.
pub(super) struct Walk {
    task: &'static Task,
    values: Vec<f64>,
    started: u64,
}

impl Journey for Walk {
    #[inline]
    fn step(&mut self) -> bool {
        if self.values.is_empty() {
            self.values = self.task.lattice.leaves();
        } else {
            self.task.lattice.back(&mut self.values);
        }
        self.values.len() == 1
    }

    fn arrive(self, lane: &'static Lane) {
        let Task {
            lattice,
            heavy,
            known,
            tolerance,
        } = self.task;
        let off = (self.values[0] - known).abs();
        // A price that is no number is wrong, too.
        let wrong = off.is_nan() || off > *tolerance;
        drop(self.values);
        let tally = [1, u64::from(wrong), u64::from(lattice.steps), 0];
        if *heavy {
            lane.finish_heavy(self.started, tally);
        } else {
            lane.finish(self.started, tally);
        }
    }
}

impl Departures for Plan {
    type Journey = Walk;

    #[inline]
    fn depart(self, lane: &Lane, spawner: u64, number: u64) -> Walk {
        let place = spawner * self.listening.share() + number;
        Walk {
            task: &self.tasks[place as usize],
            values: Vec::new(),
            started: lane.now(),
        }
    }
}

/// Refuses a file that is no chain of options for these lattices.
pub(crate) fn check_file(params: &Params, path: &Path) -> Result<(), LabError> {
    quotes::read(path, fewest_steps(params)).map(|_| ())
}

fn fewest_steps(params: &Params) -> u32 {
    // Bounded far below.
    params.number("steps").min(params.number("heavy-steps")) as u32
}

impl Plan {
    /// Reads the parameters and the file, or draws the options; prices them in closed form.
    pub(super) fn new(params: &Params, file: Option<&Path>) -> Result<Self, LabError> {
        let listening = Listening::new(params);
        let quotes = match file {
            Some(path) => quotes::read(path, fewest_steps(params))?,
            None => quotes::drawn(listening.total()),
        };
        let heavy = heavy_ones(listening.total(), params.number("heavy"));
        let tasks: Vec<Task> = quotes
            .iter()
            .cycle()
            .zip(heavy)
            .map(|(quote, heavy)| {
                let steps = params.number(if heavy { "heavy-steps" } else { "steps" }) as u32;
                Task {
                    lattice: quote.lattice(steps),
                    heavy,
                    known: quote.black_scholes(),
                    tolerance: match file {
                        Some(_) => quote.wide_tolerance(steps),
                        None => quote.tolerance(steps),
                    },
                }
            })
            .collect();
        Ok(Self {
            listening,
            tasks: tasks.leak(),
        })
    }

    /// The part that is not measured.
    pub(super) fn warm_up(&self) -> Self {
        Self {
            listening: self.listening.warm_up(),
            ..*self
        }
    }

    /// Runs with tasks that are futures.
    pub(super) fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        self.outcome(&chain::tasks(self.listening, pool, *self))
    }

    /// Runs with tasks that are closures.
    pub(super) fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        self.outcome(&chain::jobs(self.listening, pool, *self))
    }

    fn outcome(&self, landed: &Landed) -> Result<Outcome, LabError> {
        let total = self.listening.total();
        let tasks = match self.listening.handlers {
            true => &self.tasks[..total as usize],
            false => &[],
        };
        let steps: u64 = tasks.iter().map(|task| u64::from(task.lattice.steps)).sum();
        let heavy = tasks.iter().filter(|task| task.heavy).count() as u64;
        check("options", &landed.tally[0], &(tasks.len() as u64))?;
        check("prices too far from the closed form", &landed.tally[1], &0)?;
        check("steps", &landed.tally[2], &steps)?;
        check("heavy options", &landed.heavy.len(), &heavy)?;
        let tasks_per_second = (steps + tasks.len() as u64) as f64 / landed.elapsed.as_secs_f64();
        Ok(Outcome::new(total, landed.elapsed)
            .with_latencies_apart(&landed.histogram, &landed.heavy)
            .with_measure("heavy_options", heavy as f64)
            .with_measure("tasks_per_second", tasks_per_second)
            .with_measure("window_full", landed.waits as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(settings: &[&str]) -> Plan {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let chosen = spec::parse("options", false, &settings).unwrap();
        Plan::new(&chosen.params, None).unwrap()
    }

    #[test]
    fn one_in_two_hundred_is_heavy() {
        let plan = plan(&[]);
        let heavy: Vec<&Task> = plan.tasks.iter().filter(|task| task.heavy).collect();
        assert_eq!((plan.tasks.len(), heavy.len()), (30_000, 150));
        assert!(heavy.iter().all(|task| task.lattice.steps == 2000));
    }

    #[test]
    fn what_is_drawn_is_priced_to_a_thousandth_on_heavy_lattices() {
        let plan = plan(&["n=60", "heavy=1000"]);
        for task in plan.tasks {
            let mut walk = Walk {
                task,
                values: Vec::new(),
                started: 0,
            };
            let mut tasks = 1;
            while !walk.step() {
                tasks += 1;
            }
            assert_eq!(tasks, 2001, "the leaves, and a task for each step");
            let off = (walk.values[0] - task.known).abs() / task.known;
            assert!(off < 1e-3, "{off} of {}", task.known);
        }
    }

    #[test]
    fn what_is_drawn_is_priced_within_the_tolerance_with_few_steps() {
        for steps in ["steps=1", "steps=3", "steps=20"] {
            for task in plan(&["n=2000", "heavy=0", steps]).tasks {
                let mut values = task.lattice.leaves();
                while values.len() > 1 {
                    task.lattice.back(&mut values);
                }
                assert!(
                    (values[0] - task.known).abs() <= task.tolerance,
                    "{:?}",
                    task.lattice
                );
            }
        }
    }

    #[test]
    fn a_wrong_price_is_counted() {
        let plan = plan(&["n=1", "heavy=0", "steps=1"]);
        for (value, wrong) in [(plan.tasks[0].known, 0), (f64::NAN, 1), (1e9, 1)] {
            let lane = Lane::leaked(super::super::base(), 0);
            let walk = Walk {
                task: &plan.tasks[0],
                values: vec![value],
                started: 0,
            };
            walk.arrive(lane);
            assert_eq!(super::super::lane::land(&[lane], 1).tally[1], wrong, "{value}");
        }
    }
}
