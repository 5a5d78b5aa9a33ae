//! *drops*: receives are dropped before a message comes. How long that takes, and what memory is left.

use crate::idioms::WarpweftTasks;
use crate::workload::{Figure, OURS_ALONE, Setting, Workload};
use std::time::Instant;

#[derive(Debug, Clone)]
pub(crate) struct Drops {
    count: usize,
}

/// Drops between two looks at MPI.
const GROUP: usize = 1000;
const PAGE: u64 = 4096;

impl Workload for Drops {
    const SETTINGS: &'static [Setting] = &[Setting {
        name: "drops",
        about: "receives are dropped before a message comes; the amount is their number",
        amount: 1_000_000,
        smoke: 2000,
        jobs: &[(2, 1)],
    }];

    fn new(_: &'static Setting, amount: usize) -> Self {
        Self { count: amount }
    }

    fn lacks(&self, contestant: &str, _: usize, _: usize) -> Option<&'static str> {
        (contestant != "warpweft").then_some(OURS_ALONE)
    }

    async fn warpweft<W: WarpweftTasks>(self, on: W) -> Vec<Figure> {
        let run = async |count: usize| {
            for number in 0..count {
                drop(on.comm().recv(on.rank(), 7, 100));
                // A task that computes for long keeps its worker from MPI.
                if number % GROUP == 0 {
                    on.yield_now().await;
                }
            }
        };
        run(GROUP).await;
        on.barrier().await;
        let (before, begin) = (memory(), Instant::now());
        run(self.count).await;
        on.barrier().await;
        let ns = begin.elapsed().as_secs_f64() * 1e9 / self.count as f64;
        let kib = memory().saturating_sub(before) / 1024;
        vec![
            Figure::less("drop", ns, "ns"),
            Figure::less("memory", kib as f64, "KiB").extra(format!("after {}", self.count)),
        ]
    }
}

/// The resident memory of this process.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    pages.map_or(0, |pages: u64| pages * PAGE)
}
