//! *options*: thirty thousand European options, priced on binomial lattices; each step in time is a task,
//! which spawns the next.
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

use crate::kit::chain::{Item, Listening, Source, heavy_ones, sends};
use crate::kit::task_recorder::{Recorded, TaskRecorder};
use crate::prelude::*;

mod pricing;
mod quotes;

use pricing::Lattice;

/// The most steps of a lattice: its work grows with the square.
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
    /// The largest deviation of the lattice from it.
    tolerance: f64,
}

/// A lattice on its way back in time.
pub(crate) struct Walk {
    task: &'static Task,
    values: Vec<f64>,
    started: u64,
}

impl Item for Walk {
    #[inline]
    fn step(&mut self) -> bool {
        if self.values.is_empty() {
            self.values = self.task.lattice.leaves();
        } else {
            self.task.lattice.back(&mut self.values);
        }
        self.values.len() == 1
    }

    fn arrive(self, recorder: &'static TaskRecorder) {
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
        let counts = [1, u64::from(wrong), u64::from(lattice.steps), 0];
        if *heavy {
            recorder.finish_heavy(self.started, counts);
        } else {
            recorder.finish(self.started, counts);
        }
    }
}

impl Source for Plan {
    type Item = Walk;

    fn items(self, spawner: u64) -> impl FnMut(&TaskRecorder, u64) -> Walk + Send + 'static {
        let first = spawner * self.listening.share();
        move |recorder, number| Walk {
            task: &self.tasks[(first + number) as usize],
            values: Vec::new(),
            started: recorder.now(),
        }
    }
}

fn fewest_steps(params: &Params) -> u32 {
    // Bounded far below.
    params.number("steps").min(params.number("heavy-steps")) as u32
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "options",
        about: "European options on binomial lattices, each step in time a task; one option in 200 has a hundred times the steps (--csv FILE)",
        unit: "options",
        latency: Some("from spawn to the price"),
        params: params! {
            count("30k", "options, those of a file repeated as often as needed", 1 << 28);
            window("0");
            spawners("1");
            Param::number("steps", "20", 1, MOST_STEPS, "steps of a lattice");
            Param::number("heavy", "5", 0, 1000,
                "heavy options of a thousand; at least one option is heavy unless it is 0");
            Param::number("heavy-steps", "2000", 1, MOST_STEPS, "steps of a heavy option's lattice");
            HANDLERS;
        },
        variants: variants! {
            Variant::new("spawners1", &[], "one spawner (the default)");
            Variant::new("spawners2", &[("spawners", "2")], "two spawners");
            Variant::new("spawners4", &[("spawners", "4")], "four spawners");
            Variant::new("bounded", &[("window", "1024")], "1024 options under way at most");
            NULL;
        },
        smoke: &[("n", "300"), ("heavy-steps", "200")],
        explored: MANY_JOBS,
        files: &[FileFlag {
            name: "csv",
            about: "The options that the workload `options` prices: a line for each, with the columns kind, spot, strike, \
                    rate, volatility, years [default: drawn at random, always the same ones]",
            many: false,
            recorded: true,
        }],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Jobs;
    const ALSO: &[&str] = &["go", "steal-one"];

    fn settle(asked: &mut Asked<'_>) -> Result<(), LabError> {
        let check = |path| quotes::read(path, fewest_steps(asked.params)).map(drop);
        asked.files.one("csv").map_or(Ok(()), check)
    }

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        let go = request.runtime == "go" && !request.files.is_empty();
        Ok(go.then_some("its program reads no files"))
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let file = request.files.one("csv");
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

    sends!(|plan| *plan);
}

impl Plan {
    fn outcome(&self, recorded: &Recorded) -> Result<Outcome, LabError> {
        let total = self.listening.total();
        let tasks = match self.listening.handlers {
            true => &self.tasks[..total as usize],
            false => &[],
        };
        let steps: u64 = tasks.iter().map(|task| u64::from(task.lattice.steps)).sum();
        let heavy = tasks.iter().filter(|task| task.heavy).count() as u64;
        check("options", &recorded.counts[0], &(tasks.len() as u64))?;
        check("prices too far from the closed form", &recorded.counts[1], &0)?;
        check("steps", &recorded.counts[2], &steps)?;
        check("heavy options", &recorded.heavy.len(), &heavy)?;
        let tasks_per_second = (steps + tasks.len() as u64) as f64 / recorded.elapsed.as_secs_f64();
        Ok(Outcome::new(total, recorded.elapsed)
            .with_latencies_apart(&recorded.histogram, &recorded.heavy)
            .with_measure("heavy_options", heavy as f64)
            .with_measure("tasks_per_second", tasks_per_second)
            .with_measure("window_full", recorded.waits as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(settings: &[&str]) -> Plan {
        Plan::load(&crate::kit::request("options", settings)).unwrap()
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
            let recorder = TaskRecorder::leaked(base(), 0);
            let walk = Walk {
                task: &plan.tasks[0],
                values: vec![value],
                started: 0,
            };
            walk.arrive(recorder);
            assert_eq!(
                crate::kit::task_recorder::record(&[recorder], 1).counts[1],
                wrong,
                "{value}"
            );
        }
    }
}
