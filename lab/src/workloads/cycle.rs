//! *cycle*: rings of tasks. Each task unparks the next, then parks; one task of each ring runs at a time.
//!
//! ```text
//!  ring   A ─▶ B ─▶ C ─▶ D ─▶ E ─▶ A …      a step is an unpark, a park and a switch
//! ```
//!
//! With a ring per worker nothing else is ready; with a hundred, each waits for its turn, and the policy
//! decides whose it is.

use std::sync::Arc;

use crate::kit::task_bench::{Counted, ParkSlotOf, TaskBench, Window};
use crate::prelude::*;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    rings: usize,
    ring: usize,
    /// The number of tasks that are started together.
    group: usize,
    window: Window,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "cycle",
        about: "rings of tasks: each unparks the next and parks",
        unit: "wakes",
        params: params! {
            per_worker("rings", "rings for each worker");
            Param::number("ring", "5", 2, 1000, "tasks in a ring");
            MS;
            CLOCK;
            STYLE;
            Param::word("start", "apart", &["apart", "together"],
                "who starts warpweft's fibers: whoever takes them, one by one; or a ring's together, on one \
                 thread, by `fiber::spawn_here`. The others have nothing of the kind");
        },
        variants: variants! {
            Variant::new("one", &[("rings", "1")], "a ring for each worker: nothing else is ready");
            CLOCKED;
            FIBERS;
            Variant::new("fibers-together", &[("style", "fibers"), ("start", "together")],
                "warpweft's tasks are fibers, and those of a ring are started on one thread; the others' are as \
                 ever");
        },
        smoke: &[("rings", "3"), ("ms", "20")],
        explored: WAITING,
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Parks;
    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go", "java"];

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let workers = request.workers;
        Ok(Self {
            rings: params.number("rings") as usize * workers,
            ring: params.number("ring") as usize,
            group: if params.is("start", "together") {
                params.number("ring") as usize
            } else {
                1
            },
            window: Window::new(params, workers),
        })
    }

    fn parks<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let ring = self.ring;
        let begins = move |slot: usize| slot.is_multiple_of(ring);
        let task = move |bench: Arc<TaskBench<ParkSlotOf<P>>>, slot: usize| async move {
            let first = slot - slot % ring;
            let next = &bench.slots[first + (slot + 1 - first) % ring].place;
            let own = bench.enter(slot).await;
            let mut transfers = 0;
            while !bench.is_over() {
                transfers += 1;
                own.turn(transfers, &bench);
                next.unpark();
                own.place.park().await;
            }
            // The others of the ring are told by the same way: each is unparked once more, and ends.
            next.unpark();
        };
        let slots = self.rings * ring;
        let counted = self
            .window
            .count_in_groups(pool, slots, self.group, begins, task)?;
        self.check(&counted)?;
        Ok(counted.outcome(ring))
    }
}

impl Plan {
    /// One task of a ring runs at a time, in its order: each had as many turns as the one before it, or one
    /// fewer since the ring was stopped.
    fn check(&self, counted: &Counted) -> Result<(), LabError> {
        for turns in counted.all.chunks(self.ring) {
            let in_order = turns.is_sorted_by(|a, b| a >= b);
            let together = turns[0] - turns[self.ring - 1] <= 1;
            check(
                "rings in which a wake was lost or doubled",
                &(in_order, together),
                &(true, true),
            )?;
        }
        Ok(())
    }
}
