//! *locality*: churn in which each task works on an array before it hands over. Who is woken is better off
//! where the array is.
//!
//! ```text
//!  share     the array goes to whoever is unparked: it should run where it was unparked
//!  noshare   each task keeps its own: it should run where it ran last
//! ```
//!
//! A policy that puts who is woken on the one side does well in the one and badly in the other.
//!
//! An array belongs to one task at a time, so its cells are counted up by a plain load and store; were one in
//! two hands, or left behind by who unparks, counts would be lost, and the sum would show it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::check;
use super::super::params::{Domain, Param, Params, Variant};
use super::super::spec::{Kind, Workload};
use super::churn::{SPOTS, Spots, spots};
use super::hall::{Apart, Window};
use super::per_worker;
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::TaskPool;
use crate::peers::parks::{Parks, Place};

/// The workload as users see it.
pub(in crate::workloads) const WORKLOAD: Workload = Workload {
    name: "locality",
    kind: Kind::Locality,
    about: "churn in which each task works on an array, which goes to whom it unparks or stays its own",
    unit: "hand-overs",
    latency: None,
    params: &[
        per_worker("tasks", "tasks for each worker"),
        SPOTS,
        Param {
            name: "array",
            about: "share: it goes to whoever is unparked; noshare: each task keeps its own",
            domain: Domain::Word(&["share", "noshare"]),
            default: "share",
        },
        Param {
            name: "cells",
            about: "numbers in an array, 8 bytes each",
            domain: Domain::Number {
                least: 1,
                most: 1 << 20,
            },
            default: "512",
        },
        Param {
            name: "touched",
            about: "random cells that are counted up before each hand-over",
            domain: Domain::Number {
                least: 1,
                most: 1 << 20,
            },
            default: "16",
        },
        super::MS,
        super::CLOCK,
        super::super::STYLE,
    ],
    variants: &[
        Variant {
            name: "share",
            about: "the array goes with the turn (the default)",
            set: &[],
        },
        Variant {
            name: "noshare",
            about: "each task keeps its own array",
            set: &[("array", "noshare")],
        },
        super::CLOCKED,
        super::super::FIBERS,
    ],
    smoke: &[("tasks", "4"), ("ms", "20")],
};

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

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params, workers: usize) -> Result<Self, LabError> {
        Ok(Self {
            tasks: params.number("tasks") as usize * workers,
            spots: spots(params, workers)?,
            shared: params.word("array") == "share",
            cells: params.number("cells") as usize,
            touched: params.number("touched"),
            window: Window::new(params, workers),
        })
    }

    /// Runs it.
    pub(super) fn run<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (plan, spots) = (*self, Arc::new(Spots::new(self.spots)));
        let array = || Apart((0..plan.cells).map(|_| AtomicU64::new(0)).collect());
        let arrays: Arc<[Array]> = (0..self.tasks).map(|_| array()).collect();
        let all = Arc::clone(&arrays);
        let counted = self.window.count(
            pool,
            self.tasks,
            |_| true,
            move |hall, seat| {
                let (spots, arrays) = (Arc::clone(&spots), Arc::clone(&arrays));
                async move {
                    let mut random = fastrand::Rng::with_seed(seat as u64);
                    let mut held = seat;
                    let own = hall.enter(seat).await;
                    let mut turns = 0;
                    while !hall.is_over() {
                        plan.work(&mut random, &arrays[held]);
                        turns += 1;
                        own.turn(turns, &hall);
                        spots.push_out(&mut random, seat, &hall, held);
                        if hall.is_over() {
                            spots.clear(&hall);
                        }
                        own.place.park().await;
                        if plan.shared {
                            // Who was unparked because it is over was given nothing, and works no more.
                            held = own.gift.load(Ordering::Relaxed);
                        }
                    }
                    spots.clear(&hall);
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

    /// Counts up some cells of an array that nobody else has.
    #[inline]
    fn work(&self, random: &mut fastrand::Rng, array: &Array) {
        for _ in 0..self.touched {
            let cell = &array.0[random.usize(..self.cells)];
            cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}
