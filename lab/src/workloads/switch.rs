//! *switch*: tasks that do nothing but let others run. What it costs to go from one to the next.

use std::time::{Duration, Instant};

use crate::kit::actors::{ActorProgram, MOST_ACTORS, per_step};
use crate::prelude::*;

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: u64,
    /// Yields of each task.
    each: u64,
}

impl ActorProgram for Plan {
    const ABOUT: About = About {
        name: "switch",
        about: "tasks that do nothing but yield",
        unit: "yields",
        params: params! {
            count("10m", "yields of all tasks together, at least one each", 10_000_000_000);
            Param::number("tasks", "1000", 1, MOST_ACTORS, "tasks that yield");
            STYLE;
        },
        variants: variants! {
            FIBERS;
        },
        smoke: &[("n", "5000"), ("tasks", "20")],
        ..About::NEW
    };

    /// The sum of their yields.
    type Counted = u64;

    fn load(request: &Request) -> Self {
        let params = &request.params;
        let tasks = params.number("tasks");
        Self {
            tasks,
            each: (params.number("n") / tasks).max(1),
        }
    }

    fn warm_up(&self) -> Self {
        Self {
            each: (self.each / 10).max(1),
            ..*self
        }
    }

    async fn play<W: Actors>(self, tasks: W) -> (Duration, u64) {
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
