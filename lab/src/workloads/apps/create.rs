//! *create*: tasks with nothing in them are created, scheduled, run and destroyed.
//!
//! One at a time, each before the next; or all of them, before anybody asks for the first. In the second form
//! the memory is looked at when the last one has been created: the growth of the process's resident set,
//! divided by their number, with the handle that the program keeps of each. The warm-up is small, so that it
//! leaves no memory that could be used again.

use std::time::{Duration, Instant};

use super::{App, Name, per_step};
use crate::error::LabError;
use crate::harness::machine::resident_bytes;
use crate::harness::record::Outcome;
use crate::peers::apps::Apps;
use crate::workloads::params::{Domain, Param, Params, Variant};
use crate::workloads::spec::{Kind, Workload, count};
use crate::workloads::{FIBERS, STYLE, check};

/// The workload as users see it.
pub(in crate::workloads) const WORKLOAD: Workload = Workload {
    name: "create",
    kind: Kind::App(Name::Create),
    about: "empty tasks, one at a time or all at once: time and bytes for each",
    unit: "tasks",
    latency: None,
    params: &[
        count("1m", "tasks", 100_000_000),
        Param {
            name: "outstanding",
            about: "one: each ends before the next is created; all: all are created before one is waited for",
            domain: Domain::Word(&["one", "all"]),
            default: "one",
        },
        STYLE,
    ],
    variants: &[
        Variant {
            name: "all",
            about: "all are created before one is waited for",
            set: &[("outstanding", "all")],
        },
        Variant {
            name: "10m",
            about: "ten million, one at a time",
            set: &[("n", "10m")],
        },
        Variant {
            name: "all-10m",
            about: "ten million at once",
            set: &[("n", "10m"), ("outstanding", "all")],
        },
        FIBERS,
    ],
    smoke: &[("n", "500")],
};

/// Tasks of the warm-up at most.
const WARM: u64 = 1000;

/// The program, sized.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: u64,
    all: bool,
}

/// What was counted.
#[derive(Default)]
pub(crate) struct Created {
    ended: u64,
    /// By how much the resident set grew, if the system tells.
    bytes: Option<u64>,
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params) -> Self {
        Self {
            tasks: params.number("n"),
            all: params.word("outstanding") == "all",
        }
    }
}

impl App for Plan {
    type Tally = Created;

    fn warm_up(&self) -> Self {
        Self {
            tasks: self.tasks.min(WARM),
            ..*self
        }
    }

    async fn play<W: Apps>(self, tasks: W) -> (Duration, Created) {
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
