//! *calls*: a function of another rank is called, one call after the other and many at once.

use crate::idioms::WarpweftTasks;
use crate::workload::{Figure, OURS_ALONE, Setting, Workload};
use std::time::Instant;
use warpweft_mpi::Functions;

#[derive(Debug, Clone)]
pub(crate) struct RemoteCalls {
    rounds: usize,
}

const AT_ONCE: usize = 1000;

impl Workload for RemoteCalls {
    const SETTINGS: &'static [Setting] = &[Setting {
        name: "calls",
        about: "rank 0 calls a function of the last rank; the amount is the number of calls",
        amount: 20_000,
        smoke: 2000,
        jobs: &[(2, 1)],
    }];

    fn new(_: &'static Setting, amount: usize) -> Self {
        Self { rounds: amount }
    }

    fn lacks(&self, contestant: &str, _: usize, _: usize) -> Option<&'static str> {
        (contestant != "warpweft").then_some(OURS_ALONE)
    }

    async fn warpweft<W: WarpweftTasks>(self, on: W) -> Vec<Figure> {
        let mut functions = Functions::new();
        let next = functions.register("next", |number: u64| async move { number + 1 });
        let calls = on.comm().serve(functions).await.expect("all ranks have it");
        let (mut figures, other) = (Vec::new(), on.size() - 1);
        for (name, at_once) in [("one after the other", 1), ("1000 at once", AT_ONCE)] {
            on.barrier().await;
            if on.rank() == 0 {
                let (groups, begin) = (self.rounds.div_ceil(at_once), Instant::now());
                for _ in 0..groups {
                    let begun: Vec<_> = (0..at_once as u64)
                        .map(|number| calls.call(other, next, &number))
                        .collect();
                    for (number, call) in begun.into_iter().enumerate() {
                        assert_eq!(call.await, Ok(number as u64 + 1));
                    }
                }
                let us = begin.elapsed().as_secs_f64() * 1e6 / (groups * at_once) as f64;
                figures.push(Figure::less(name, us, "µs"));
            }
            on.barrier().await;
        }
        calls.close().await.expect("nothing is left");
        figures
    }
}
