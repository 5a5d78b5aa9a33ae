//! *locality*: churn in which each task works on an array before it hands over. A woken task is better off
//! where the array is.
//!
//! ```text
//!  share     the array goes to the unparked task, which should run where it was unparked
//!  noshare   each task keeps its own: it should run where it ran last
//! ```
//!
//! A policy that puts woken tasks on one side does well in one form and badly in the other.
//!
//! An array belongs to one task at a time, so its cells are counted up by a plain load and store; were one in
//! two hands, or left behind by the unparking task, counts would be lost, and the sum would show it.

use std::sync::Arc;

use super::churn::{SPOTS, Spots, spots};
use crate::kit::host::{AtomicU64, Ordering};
use crate::kit::task_bench::{Apart, Window};
use crate::prelude::*;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    tasks: usize,
    spots: usize,
    shared: bool,
    cells: usize,
    touched: u64,
    window: Window,
}

/// An array of one task at a time.
type Array = Apart<Box<[AtomicU64]>>;

impl Program for Plan {
    const ABOUT: About = About {
        name: "locality",
        about: "churn in which each task works on an array, which goes to whom it unparks or stays its own",
        unit: "hand-overs",
        params: params! {
            per_worker("tasks", "tasks for each worker");
            SPOTS;
            Param::word("array", "share", &["share", "noshare"],
                "share: it goes to whoever is unparked; noshare: each task keeps its own");
            Param::number("cells", "512", 1, 1 << 20, "numbers in an array, 8 bytes each");
            Param::number("touched", "16", 1, 1 << 20, "random cells that are counted up before each hand-over");
            MS;
            CLOCK;
            STYLE;
        },
        variants: variants! {
            Variant::new("share", &[], "the array goes with the turn (the default)");
            Variant::new("noshare", &[("array", "noshare")], "each task keeps its own array");
            CLOCKED;
            FIBERS;
        },
        smoke: &[("tasks", "4"), ("ms", "20")],
        explored: WAITING,
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Parks;
    const SIMULATES: bool = true;
    const ALSO: &[&str] = &["go", "java"];

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        spots(&request.params, request.workers).map(|_| None)
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let workers = request.workers;
        Ok(Self {
            tasks: params.number("tasks") as usize * workers,
            spots: spots(params, workers)?,
            shared: params.word("array") == "share",
            cells: params.number("cells") as usize,
            touched: params.number("touched"),
            window: Window::new(params, workers),
        })
    }

    fn parks<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (plan, spots) = (*self, Arc::new(Spots::new(self.spots)));
        let array = || Apart((0..plan.cells).map(|_| AtomicU64::new(0)).collect());
        let arrays: Arc<[Array]> = (0..self.tasks).map(|_| array()).collect();
        let all = Arc::clone(&arrays);
        let counted = self.window.count(
            pool,
            self.tasks,
            |_| true,
            move |bench, slot| {
                let (spots, arrays) = (Arc::clone(&spots), Arc::clone(&arrays));
                async move {
                    let mut random = fastrand::Rng::with_seed(slot as u64);
                    let mut held = slot;
                    let own = bench.enter(slot).await;
                    let mut turns = 0;
                    while !bench.is_over() {
                        plan.work(&mut random, &arrays[held]);
                        turns += 1;
                        own.turn(turns, &bench);
                        spots.push_out(&mut random, slot, &bench, held);
                        if bench.is_over() {
                            spots.clear(&bench);
                        }
                        own.place.park().await;
                        if plan.shared {
                            // A task that was unparked because it is over has no array, and works no more.
                            held = own.gift.load(Ordering::Relaxed);
                        }
                    }
                    spots.clear(&bench);
                }
            },
        )?;
        let turns: u64 = counted.all.iter().sum();
        let sum = all
            .iter()
            .flat_map(|array| &array.0)
            .map(|cell| cell.load(Ordering::Relaxed));
        check("counts in the arrays", &sum.sum::<u64>(), &(turns * self.touched))?;
        Ok(counted.outcome(1))
    }
}

impl Plan {
    /// Counts up some cells of an array that no other task has.
    #[inline]
    fn work(&self, random: &mut fastrand::Rng, array: &Array) {
        for _ in 0..self.touched {
            let cell = &array.0[random.usize(..self.cells)];
            cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}
