//! *create*: tasks with nothing in them are created, scheduled, run and destroyed.
//!
//! One at a time, each before the next; or all of them, before the first is asked for. In the second form
//! the memory is looked at when the last one has been created: the growth of the process's resident set,
//! divided by their number, with the handle that the program keeps of each. The warm-up is small, so that it
//! leaves no memory that could be used again.

use std::time::{Duration, Instant};

use harness::resident_bytes;

use crate::kit::MOST_THREADS;
use crate::kit::actors::{ActorProgram, per_step};
use crate::prelude::*;

/// Tasks of the warm-up at most.
const WARM: u64 = 1000;

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: u64,
    all: bool,
}

/// The counts of a run.
#[derive(Default)]
pub(crate) struct Created {
    ended: u64,
    /// By how much the resident set grew, if the system reports it.
    bytes: Option<u64>,
}

impl ActorProgram for Plan {
    const ABOUT: About = About {
        name: "create",
        about: "empty tasks, one at a time or all at once: time and bytes for each",
        unit: "tasks",
        params: params! {
            count("1m", "tasks", 100_000_000);
            Param::word("outstanding", "one", &["one", "all"],
                "one: each ends before the next is created; all: all are created before one is waited for");
            STYLE;
        },
        variants: variants! {
            Variant::new("all", &[("outstanding", "all")], "all are created before one is waited for");
            Variant::new("10m", &[("n", "10m")], "ten million, one at a time");
            Variant::new("all-10m", &[("n", "10m"), ("outstanding", "all")], "ten million at once");
            FIBERS;
        },
        smoke: &[("n", "500")],
        ..About::NEW
    };

    const CAVEATS: &[(&str, Caveat)] = &[
        ("threads", Caveat::other("a thread per task; n is bounded")),
        ("may", Caveat::other("two mappings per task; n is bounded")),
        (
            "java",
            Caveat::same("its bytes are also those that its collector has not freed yet"),
        ),
    ];

    type Counted = Created;

    fn load(request: &Request) -> Self {
        let params = &request.params;
        Self {
            tasks: params.number("n"),
            all: params.word("outstanding") == "all",
        }
    }

    /// One at a time these could, but a task takes them 10 to 100 us.
    fn fit(request: &mut Request) {
        if ["threads", "may"].contains(&request.runtime.as_str()) {
            request.bound("n", MOST_THREADS);
        }
    }

    fn warm_up(&self) -> Self {
        Self {
            tasks: self.tasks.min(WARM),
            ..*self
        }
    }

    async fn play<W: Actors>(self, tasks: W) -> (Duration, Created) {
        let mut created = Created::default();
        if !self.all {
            let start = Instant::now();
            for _ in 0..self.tasks {
                created.ended += tasks.spawn(async { 1 }).await;
            }
            return (start.elapsed(), created);
        }
        let before = resident_bytes();
        let start = Instant::now();
        let handles: Vec<_> = (0..self.tasks).map(|_| tasks.spawn(async { 1 })).collect();
        let creating = start.elapsed();
        created.bytes = resident_bytes()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        let start = Instant::now();
        for handle in handles {
            created.ended += handle.await;
        }
        (creating + start.elapsed(), created)
    }

    fn outcome(&self, elapsed: Duration, created: Created) -> Result<Outcome, LabError> {
        check("tasks that ended", &created.ended, &self.tasks)?;
        let outcome = per_step(self.tasks, elapsed, "ns_per_task");
        Ok(match created.bytes {
            Some(bytes) => outcome.with_measure("bytes_per_task", bytes as f64 / self.tasks as f64),
            None => outcome,
        })
    }
}
