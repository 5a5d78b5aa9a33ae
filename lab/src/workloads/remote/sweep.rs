//! *sweep*: naive parallel fib(14) whose every leaf takes some milliseconds: a share of the leaves waits, and
//! that can be hidden; the others hold their worker, as if they computed.
//!
//! The measure is the ratio to the classic, where nothing can be hidden: leaves × work ÷ workers, which no
//! run of it goes below. At a share of 0 the two are the same program. Who hides latency must not be slower
//! at any point of the grid work × share.

use std::future::Future;
use std::pin::Pin;
use std::thread;
use std::time::{Duration, Instant};

use super::{chosen, fib};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::remote::{Remote, RemotePool};
use crate::workloads::check;
use crate::workloads::params::{Domain, Param, Params, Variant};
use crate::workloads::spec::{Kind, Workload};

/// The workload as users see it.
pub(in crate::workloads) const WORKLOAD: Workload = Workload {
    name: "sweep",
    kind: Kind::Sweep,
    about: "parallel fib(14) whose leaves take milliseconds, a share of them hideable; ratio to where nothing is hidden",
    unit: "leaves",
    latency: None,
    params: &[
        Param {
            name: "n",
            about: "which Fibonacci number; fib(14) has 610 leaves",
            domain: Domain::Number { least: 2, most: 25 },
            default: "14",
        },
        Param {
            name: "work",
            about: "milliseconds that each leaf takes",
            domain: Domain::Number {
                least: 1,
                most: 10_000,
            },
            default: "25",
        },
        Param {
            name: "share",
            about: "percent of the leaves that wait; the others hold their worker",
            domain: Domain::Number { least: 0, most: 100 },
            default: "50",
        },
    ],
    variants: &[
        Variant {
            name: "none",
            about: "nothing can be hidden",
            set: &[("share", "0")],
        },
        Variant {
            name: "all",
            about: "everything can be hidden",
            set: &[("share", "100")],
        },
    ],
    smoke: &[("n", "6"), ("work", "2")],
};

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
    leaves: Leaves,
    workers: u32,
}

#[derive(Clone, Copy)]
struct Leaves {
    work: Duration,
    hideable: &'static [bool],
}

/// The leaves of fib(n), with the base case 0: calls with an n below 2.
fn leaves(n: u64) -> u64 {
    fib(n + 1)
}

impl Leaves {
    /// fib(n), the first leaf of which is that one.
    fn fib<V: Remote>(self, verbs: V, n: u64, first: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(async move {
            if n >= 2 {
                let halves = (
                    self.fib(verbs, n - 1, first),
                    self.fib(verbs, n - 2, first + leaves(n - 1)),
                );
                let (left, right) = verbs.both(halves.0, halves.1).await;
                return left + right;
            }
            if self.hideable[first as usize] {
                verbs.wait(self.work).await;
            } else {
                thread::sleep(self.work);
            }
            n
        })
    }
}

impl Plan {
    /// Reads the parameters.
    pub(in crate::workloads) fn new(params: &Params, workers: usize) -> Self {
        let n = params.number("n");
        let all = leaves(n);
        Self {
            n,
            leaves: Leaves {
                work: Duration::from_millis(params.number("work")),
                hideable: chosen(all * params.number("share") / 100, all),
            },
            workers: workers as u32,
        }
    }

    /// Runs it.
    pub(in crate::workloads) fn run<P: RemotePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (verbs, n) = (pool.remote(), self.n);
        let short = Leaves {
            work: Duration::from_micros(1),
            ..self.leaves
        };
        pool.run(short.fib(verbs, n.min(8), 0));
        let before = pool.counters().unwrap_or_default();
        let leaves = self.leaves;
        let (result, elapsed) = pool.run(async move {
            let start = Instant::now();
            (leaves.fib(verbs, n, 0).await, start.elapsed())
        });
        check("fib", &result, &fib(n))?;
        let count = leaves.hideable.len() as u32;
        let classic = leaves.work * count / self.workers;
        let ratio = elapsed.as_secs_f64() / classic.as_secs_f64();
        let mut outcome = Outcome::new(count.into(), elapsed).with_measure("ratio_to_classic", ratio);
        outcome.counters = pool.counters().map(|after| after.since(&before));
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_counted_as_they_are_called() {
        fn count(n: u64) -> u64 {
            if n < 2 { 1 } else { count(n - 1) + count(n - 2) }
        }
        for n in 0..16 {
            assert_eq!(leaves(n), count(n));
        }
        assert_eq!(leaves(14), 610);
    }
}
