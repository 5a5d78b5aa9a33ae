//! *switch*: tasks that do nothing but let others run. What it costs to go from one to the next.

use std::time::{Duration, Instant};

use super::{App, MOST_ACTORS, Name, per_step};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::apps::Apps;
use crate::workloads::params::{Domain, Param, Params};
use crate::workloads::spec::{Kind, Workload, count};
use crate::workloads::{FIBERS, STYLE, check};

/// The workload as users see it.
pub(in crate::workloads) const WORKLOAD: Workload = Workload {
    name: "switch",
    kind: Kind::App(Name::Switch),
    about: "tasks that do nothing but yield",
    unit: "yields",
    latency: None,
    params: &[
        count(
            "10m",
            "yields of all tasks together, at least one each",
            10_000_000_000,
        ),
        Param {
            name: "tasks",
            about: "tasks that yield",
            domain: Domain::Number {
                least: 1,
                most: MOST_ACTORS,
            },
            default: "1000",
        },
        STYLE,
    ],
    variants: &[FIBERS],
    smoke: &[("n", "5000"), ("tasks", "20")],
};

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: u64,
    /// Yields of each task.
    each: u64,
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params) -> Self {
        let tasks = params.number("tasks");
        Self {
            tasks,
            each: (params.number("n") / tasks).max(1),
        }
    }
}

impl App for Plan {
    /// How often all of them yielded.
    type Tally = u64;

    fn warm_up(&self) -> Self {
        Self {
            each: (self.each / 10).max(1),
            ..*self
        }
    }

    async fn play<W: Apps>(self, tasks: W) -> (Duration, u64) {
        let start = Instant::now();
        let handles: Vec<_> = (0..self.tasks)
            .map(|_| {
                tasks.spawn(async move {
                    let mut yields = 0;
                    while yields < self.each {
                        tasks.yield_now().await;
                        yields += 1;
                    }
                    yields
                })
            })
            .collect();
        let mut yields = 0;
        for handle in handles {
            yields += handle.await;
        }
        (start.elapsed(), yields)
    }

    fn outcome(&self, elapsed: Duration, yields: u64) -> Result<Outcome, LabError> {
        check("yields", &yields, &(self.tasks * self.each))?;
        Ok(per_step(yields, elapsed, "ns_per_yield"))
    }
}
