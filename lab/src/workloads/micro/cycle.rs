//! *cycle*: rings of tasks. Each task unparks the next, then parks; one task of each ring runs at a time.
//!
//! ```text
//!  ring   A ─▶ B ─▶ C ─▶ D ─▶ E ─▶ A …      a transfer is an unpark, a park and a switch
//! ```
//!
//! With a ring per worker nothing else is ready; with a hundred, each waits for its turn, and the policy
//! decides whose it is.

use super::super::check;
use super::super::params::{Domain, Param, Params, Variant};
use super::super::spec::{Kind, Workload};
use super::hall::{Counted, Hall, PlaceOf, Window};
use super::per_worker;
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::TaskPool;
use crate::peers::parks::{Parks, Place};
use std::sync::Arc;

/// The workload as users see it.
pub(in crate::workloads) const WORKLOAD: Workload = Workload {
    name: "cycle",
    kind: Kind::Cycle,
    about: "rings of tasks: each unparks the next and parks",
    unit: "transfers",
    latency: None,
    params: &[
        per_worker("rings", "rings for each worker"),
        Param {
            name: "ring",
            about: "tasks in a ring",
            domain: Domain::Number { least: 2, most: 1000 },
            default: "5",
        },
        super::MS,
        super::CLOCK,
        super::super::STYLE,
        Param {
            name: "start",
            about: "who starts warpweft's fibers: whoever takes them, one by one; or a ring's together, on one thread, by \
                    `fiber::spawn_local`. The others have nothing of the kind",
            domain: Domain::Word(&["apart", "together"]),
            default: "apart",
        },
    ],
    variants: &[
        Variant {
            name: "one",
            about: "a ring for each worker: nothing else is ready",
            set: &[("rings", "1")],
        },
        super::CLOCKED,
        super::super::FIBERS,
        Variant {
            name: "fibers-together",
            about: "warpweft's tasks are fibers, and those of a ring are started on one thread; the others' are as ever",
            set: &[("style", "fibers"), ("start", "together")],
        },
    ],
    smoke: &[("rings", "3"), ("ms", "20")],
};

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    rings: usize,
    ring: usize,
    /// How many are started together.
    group: usize,
    window: Window,
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params, workers: usize) -> Self {
        Self {
            rings: params.number("rings") as usize * workers,
            ring: params.number("ring") as usize,
            group: if params.is("start", "together") {
                params.number("ring") as usize
            } else {
                1
            },
            window: Window::new(params, workers),
        }
    }

    /// Runs it.
    pub(super) fn run<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let ring = self.ring;
        let begins = move |seat: usize| seat.is_multiple_of(ring);
        let task = move |hall: Arc<Hall<PlaceOf<P>>>, seat: usize| async move {
            let first = seat - seat % ring;
            let next = &hall.seats[first + (seat + 1 - first) % ring].place;
            let own = hall.enter(seat).await;
            let mut transfers = 0;
            while !hall.is_over() {
                transfers += 1;
                own.turn(transfers, &hall);
                next.unpark();
                own.place.park().await;
            }
            // The others of the ring are told by the same way: each is unparked once more, and ends.
            next.unpark();
        };
        let seats = self.rings * ring;
        let counted = self
            .window
            .count_in_groups(pool, seats, self.group, begins, task)?;
        self.check(&counted)?;
        Ok(counted.outcome(ring))
    }

    /// One task of a ring runs at a time, in its order: each had as many turns as the one before it, or one
    /// fewer since the ring was stopped.
    fn check(&self, counted: &Counted) -> Result<(), LabError> {
        for turns in counted.all.chunks(self.ring) {
            let in_order = turns.is_sorted_by(|a, b| a >= b);
            let together = turns[0] - turns[self.ring - 1] <= 1;
            check(
                "rings in which a transfer was lost or doubled",
                &(in_order, together),
                &(true, true),
            )?;
        }
        Ok(())
    }
}
