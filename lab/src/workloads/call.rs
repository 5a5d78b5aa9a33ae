//! *call*: callers that each spawn a task, and wait for its answer by a promise.
//!
//! ```text
//!  caller ── spawns ──▶ task: works, keeps the promise ──▶ caller ── spawns ──▶ …
//! ```

use std::time::Duration;

use harness::empty_histogram;
use hdrhistogram::Histogram;

use crate::kit::host;
use crate::prelude::*;

/// Simulated: a task's work besides `spin`; assumed, some fifty instructions.
const TASK_NS: u64 = 15;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
    callers: u64,
    spin: Duration,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "call",
        about: "callers that each spawn a task and wait for its answer by a promise, one call after the other",
        unit: "calls",
        latency: Some("from the spawn to the answer"),
        params: params! {
            count("100k", "calls over all callers", 1 << 32);
            Param::number("callers", "1", 1, 10_000, "tasks that call");
            Param::number("spin", "0", 0, 1_000_000_000, "nanoseconds of work in each call");
        },
        smoke: &[("n", "500"), ("callers", "3")],
        explored: WAITING,
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Waits;
    const SIMULATES: bool = true;

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(Self {
            n: params.number("n"),
            callers: params.number("callers"),
            spin: Duration::from_nanos(params.number("spin")),
        })
    }

    fn warm_up(&self) -> Option<Self> {
        Some(Self {
            n: (self.n / 10).max(1),
            ..*self
        })
    }

    fn waits<P: TaskPool<Tasks: Promises>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (tasks, plan) = (pool.tasks(), *self);
        let share = (self.n / self.callers).max(1);
        let (elapsed, sum, histogram) = inside(pool, async move {
            let start = host::now();
            let callers: Vec<_> = (0..plan.callers)
                .map(|_| tasks.spawn(plan.caller(share, tasks)))
                .collect();
            let (mut sum, mut all) = (0, empty_histogram());
            for caller in callers {
                let (of_caller, histogram) = caller.await;
                sum += of_caller;
                // The bounds are the same constants everywhere.
                all.add(histogram).expect("the same bounds");
            }
            (host::since(start), sum, all)
        })?;
        check(
            "sum of the answers",
            &sum,
            &(self.callers * (0..share).sum::<u64>()),
        )?;
        Ok(Outcome::new(self.callers * share, elapsed).with_latency(&histogram))
    }
}

impl Plan {
    async fn caller<W: Promises>(self, share: u64, tasks: W) -> (u64, Histogram<u64>) {
        let (mut sum, mut histogram) = (0, empty_histogram());
        for number in 0..share {
            let start = host::now();
            let (promise, promised) = W::promise();
            tasks.launch(async move {
                host::takes(TASK_NS);
                host::spin(self.spin);
                W::keep(promise, number);
            });
            sum += W::promised(promised).await.unwrap_or_default();
            histogram.saturating_record(host::since(start).as_nanos() as u64);
        }
        (sum, histogram)
    }
}
