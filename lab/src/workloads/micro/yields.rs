//! *yield*: each task gives way, over and over.
//!
//! With one task per worker there is nothing to give way to; with a hundred, each waits for its turn.

use super::super::params::{Params, Variant};
use super::super::spec::{Kind, Workload};
use super::hall::Window;
use super::per_worker;
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::parks::Parks;
use crate::peers::{TaskPool, Tasks};

/// The workload as users see it.
pub(in crate::workloads) const WORKLOAD: Workload = Workload {
    name: "yield",
    kind: Kind::Yield,
    about: "tasks that give way, over and over",
    unit: "yields",
    latency: None,
    params: &[
        per_worker("tasks", "tasks for each worker"),
        super::MS,
        super::CLOCK,
        super::super::STYLE,
    ],
    variants: &[
        Variant {
            name: "one",
            about: "a task for each worker: there is nothing to give way to",
            set: &[("tasks", "1")],
        },
        super::CLOCKED,
        super::super::FIBERS,
    ],
    smoke: &[("tasks", "3"), ("ms", "20")],
};

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: usize,
    window: Window,
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params, workers: usize) -> Self {
        Self {
            tasks: params.number("tasks") as usize * workers,
            window: Window::new(params, workers),
        }
    }

    /// Runs it.
    pub(super) fn run<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let verbs = pool.tasks();
        let counted = self.window.count(
            pool,
            self.tasks,
            |_| true,
            move |hall, seat| async move {
                let own = hall.enter(seat).await;
                let mut turns = 0;
                while !hall.is_over() {
                    turns += 1;
                    own.turn(turns, &hall);
                    verbs.yield_now().await;
                }
            },
        )?;
        Ok(counted.outcome(1))
    }
}
