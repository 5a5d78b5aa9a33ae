//! *fork-join*: programs that split in two and continue when both halves have ended.
//!
//! | program | a join at | an operation is |
//! |---|---|---|
//! | `fib.rs` | every call | a join |
//! | `sorts.rs`: quicksort, mergesort | every range that is longer than the cut-off | an element |
//! | `matmul.rs` | every split of the product's rows or columns | a multiply-add |
//! | `nbody.rs` | every split of the bodies | a pair of bodies |
//! | `treesum.rs` | every node | a node |
//!
//! Ground rules
//! - Each program is written once, against [`Fork`]; a contestant brings its join and nothing else.
//! - What the programs do below their cut-offs is the same machine code for all contestants: it is not
//!   generic, and it is not inlined.
//! - The clock runs from when a worker begins the root to when the root ends, not over the way into the pool.
//!   Inputs are made before and checks are made after.

mod fib;
mod matmul;
mod nbody;
mod programs;
pub(super) mod sorts;
mod treesum;

use std::time::Duration;

use crate::kit::host;
use crate::prelude::*;

use programs::Which;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    which: Which,
    n: u64,
    sums: u64,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "fork-join",
        about: "programs that split in two and continue when both halves have ended; no tasks, no handles",
        unit: "joins",
        params: programs::PARAMS,
        variants: programs::VARIANTS,
        smoke: &[("sums", "5")],
        explored: &["warpweft", "rayon", "chili", "forte", "sequential"],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Forks;
    const SIMULATES: bool = true;

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        let declares = matches!(
            programs::named(&request.params).which,
            Which::Fib | Which::Treesum
        );
        if request.simulation.is_some() && !declares {
            return Err(LabError::Usage(String::from(
                "of fork-join, fib and treesum are simulated: the others do not declare what they compute",
            )));
        }
        Ok(None)
    }

    fn settle(asked: &mut Asked<'_>) -> Result<(), LabError> {
        *asked.unit = programs::settle(asked.params, asked.smoke)?;
        Ok(())
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(Self {
            which: programs::named(params).which,
            n: params.number("n"),
            sums: params.number("sums"),
        })
    }

    fn warm_up(&self) -> Option<Self> {
        let n = match self.which {
            // A step multiplies the calls by 1.6, and the work of a product grows with the third power.
            Which::Fib => self.n.saturating_sub(5).max(2),
            Which::Matmul => (self.n / 2).max(1),
            Which::Nbody => (self.n / 3).max(1),
            Which::Quicksort | Which::Mergesort => (self.n / 10).max(1),
            Which::Treesum => self.n,
        };
        Some(Self {
            n,
            sums: (self.sums / 10).max(1),
            ..*self
        })
    }

    fn forks<P: ForkPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let n = self.n as usize;
        match self.which {
            Which::Fib => fib::run(pool, self.n),
            Which::Quicksort => sorts::quicksort(pool, n),
            Which::Mergesort => sorts::mergesort(pool, n),
            Which::Matmul => matmul::run(pool, n),
            Which::Nbody => nbody::run(pool, n),
            Which::Treesum => treesum::run(pool, n, self.sums),
        }
    }
}

/// A root that says how long it took, by the clock of the worker that runs it.
struct Timed<R>(R);

impl<R: Branch> Branch for Timed<R> {
    type Out = (R::Out, Duration);

    fn run<F: Fork>(self, cx: F) -> Self::Out {
        let start = host::now();
        let out = self.0.run(cx);
        (out, host::since(start))
    }
}

/// Nanoseconds for each of `count`.
fn nanos_each(elapsed: Duration, count: u64) -> f64 {
    elapsed.as_nanos() as f64 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::programs::PROGRAMS;
    use super::*;
    use crate::kit::request;

    /// Runs a program on every runtime that joins, and says how many operations each counted.
    fn operations(workload: &str, settings: &str) -> Vec<u64> {
        let settings: Vec<&str> = settings.split_whitespace().collect();
        let contestants = ["warpweft", "rayon", "chili", "forte"];
        let both = contestants
            .into_iter()
            .flat_map(|runtime| [(runtime, 1), (runtime, 3)]);
        let run = |(runtime, workers): (&str, usize)| {
            let request = Request {
                runtime: runtime.to_owned(),
                workers,
                ..request(workload, &settings)
            };
            crate::lab([]).run(&request).unwrap().operations
        };
        [("sequential", 1)].into_iter().chain(both).map(run).collect()
    }

    #[test]
    fn programs_are_right_at_the_edges_of_their_sizes() {
        for n in [2, 3, 15] {
            let joins = [0, 0, 1, 2, 4, 7, 12, 20, 33, 54, 88, 143, 232, 376, 609, 986][n];
            assert_eq!(operations("fork-join", &format!("n={n}")), [joins; 9]);
        }
        for n in [1, 2, 1024, 1025, 2050, 5000] {
            for program in ["quicksort", "mergesort"] {
                assert_eq!(
                    operations(&format!("fork-join/{program}"), &format!("n={n}")),
                    [n; 9]
                );
            }
        }
        for n in [1, 64, 65, 129] {
            assert_eq!(operations("fork-join/matmul", &format!("n={n}")), [n * n * n; 9]);
        }
        for n in [1, 16, 17, 99] {
            assert_eq!(operations("fork-join/nbody", &format!("n={n}")), [n * n; 9]);
        }
        for n in (1..20).chain([1000]) {
            assert_eq!(
                operations("fork-join/treesum", &format!("n={n} sums=3")),
                [3 * n; 9]
            );
        }
    }

    #[test]
    fn warming_up_is_never_more_than_the_run_and_never_nothing() {
        for entry in &PROGRAMS {
            for n in [entry.least, entry.usual] {
                let plan = Plan {
                    which: entry.which,
                    n,
                    sums: 1,
                };
                let before = plan.warm_up().unwrap();
                assert!((entry.least..=n).contains(&before.n) && before.sums == 1);
            }
        }
    }
}
