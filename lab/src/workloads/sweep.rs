//! *sweep*: naive parallel fib(14) whose every leaf takes some milliseconds: a share of the leaves waits, and
//! that can be hidden; the others hold their worker, as if they computed.
//!
//! The measure is the ratio to the classic, where nothing can be hidden: leaves × work ÷ workers, which no
//! run of it goes below. At a share of 0 the two are the same program. A contestant that hides latency must
//! not be slower at any point of the grid work × share.

use std::future::Future;
use std::pin::Pin;
use std::thread;
use std::time::{Duration, Instant};

use crate::kit::fib::{chosen, fib};
use crate::prelude::*;

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
    fn fib<V: Remote>(self, api: V, n: u64, first: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(async move {
            if n >= 2 {
                let halves = (
                    self.fib(api, n - 1, first),
                    self.fib(api, n - 2, first + leaves(n - 1)),
                );
                let (left, right) = api.both(halves.0, halves.1).await;
                return left + right;
            }
            if self.hideable[first as usize] {
                api.wait(self.work).await;
            } else {
                thread::sleep(self.work);
            }
            n
        })
    }
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "sweep",
        about: "parallel fib(14) whose leaves take milliseconds, a share of them hideable; ratio to where nothing is hidden",
        unit: "leaves",
        params: params! {
            Param::number("n", "14", 2, 25, "which Fibonacci number; fib(14) has 610 leaves");
            Param::number("work", "25", 1, 10_000, "milliseconds that each leaf takes");
            Param::number("share", "50", 0, 100, "percent of the leaves that wait; the others hold their worker");
        },
        variants: variants! {
            Variant::new("none", &[("share", "0")], "nothing can be hidden");
            Variant::new("all", &[("share", "100")], "everything can be hidden");
        },
        smoke: &[("n", "6"), ("work", "2")],
        explored: REMOTE,
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Remote;
    const ALSO: &[&str] = &["go"];
    const CAVEATS: &[(&str, Caveat)] = &[
        (
            "go",
            Caveat::other("a goroutine that sleeps holds no worker: it spins"),
        ),
        (
            "rayon",
            Caveat::same("the classic: a worker is held by what it waits for"),
        ),
    ];

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let workers = request.workers;
        let n = params.number("n");
        let all = leaves(n);
        Ok(Self {
            n,
            leaves: Leaves {
                work: Duration::from_millis(params.number("work")),
                hideable: chosen(all * params.number("share") / 100, all),
            },
            workers: workers as u32,
        })
    }

    fn remote<P: RemotePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (api, n) = (pool.remote(), self.n);
        let short = Leaves {
            work: Duration::from_micros(1),
            ..self.leaves
        };
        pool.run(short.fib(api, n.min(8), 0));
        let before = pool.counters().unwrap_or_default();
        let leaves = self.leaves;
        let (result, elapsed) = pool.run(async move {
            let start = Instant::now();
            (leaves.fib(api, n, 0).await, start.elapsed())
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
