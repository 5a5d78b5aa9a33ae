//! A workload in one file: a task squares each number.
//!
//! ```sh
//! cargo run --release -p warpweft-lab --example own_workload -- explore squares
//! ```
//!
//! In `lab/src/workloads` the same file needs neither `main` nor a line elsewhere: the build script lists the
//! folder.

use std::process::ExitCode;
use std::time::Instant;

use warpweft_lab::prelude::*;
use warpweft_lab::registered;

/// How many numbers.
pub(crate) struct Squares(u64);

impl Program for Squares {
    const ABOUT: About = About {
        name: "squares",
        about: "a task squares each number, and their sum is checked",
        params: params! {
            count("10k", "numbers", 1 << 20);
        },
        ..About::NEW
    };

    fn load(request: &Request) -> Result<Self, LabError> {
        Ok(Self(request.params.number("n")))
    }

    fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (tasks, n, start) = (pool.tasks(), self.0, Instant::now());
        let squares = (1..=n).map(move |x| tasks.spawn(async move { x * x }));
        let sum = inside(pool, async move { sum(squares).await })?;
        check("sum of the squares", &sum, &(n * (n + 1) * (2 * n + 1) / 6))?;
        Ok(Outcome::new(n, start.elapsed()))
    }
}

/// Awaits all, and adds up.
async fn sum<T: Future<Output = u64>>(tasks: impl Iterator<Item = T>) -> u64 {
    let mut sum = 0;
    for task in tasks.collect::<Vec<_>>() {
        sum += task.await;
    }
    sum
}

fn main() -> ExitCode {
    warpweft_lab::lab([registered::<Squares>()]).main()
}
