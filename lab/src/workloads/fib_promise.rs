//! *fib-promise*: `fib n = await (schedule fib(n-1)) + await (schedule fib(n-2))`, with promises and no
//! cut-off.
//!
//! The future is written by hand, not as an `async` block: a recursive `async` function has to box itself,
//! and then every contestant would be charged a second allocation per task.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::check;
use super::params::Params;
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::{JobPool, JoiningJobs, TaskPool, Tasks};

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
}

/// A call of fib as a task.
enum Call<T: Tasks> {
    /// Not polled yet.
    Start(T, u64),
    /// Both halves are scheduled; the first is awaited, then the second.
    Halves {
        first: T::Handle<u64>,
        sum: Option<u64>,
        second: T::Handle<u64>,
    },
}

impl<T: Tasks> Future for Call<T> {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        if let Self::Start(tasks, n) = *self {
            if n < 2 {
                return Poll::Ready(n);
            }
            let first = tasks.spawn(Self::Start(tasks, n - 1));
            let second = tasks.spawn(Self::Start(tasks, n - 2));
            *self = Self::Halves {
                first,
                sum: None,
                second,
            };
        }
        let Self::Halves { first, sum, second } = &mut *self else {
            unreachable!("set above")
        };
        let left = match sum {
            Some(left) => *left,
            None => *sum.insert(ready!(Pin::new(first).poll(context))),
        };
        Poll::Ready(left + ready!(Pin::new(second).poll(context)))
    }
}

/// A call of fib as a job: `both` stands for the two promises.
fn call<J: JoiningJobs>(jobs: J, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (left, right) = jobs.both(move || call(jobs, n - 1), move || call(jobs, n - 2));
    left + right
}

/// fib(n) in a loop.
fn fib(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params) -> Self {
        Self {
            n: params.number("n"),
        }
    }

    /// The part that is not measured: a twelfth of the calls or so.
    pub(super) fn warm_up(&self) -> Self {
        Self {
            n: self.n.saturating_sub(5).clamp(1, 20),
        }
    }

    /// Calls of fib that fib(n) makes, itself included; each is a task.
    fn calls(&self) -> u64 {
        2 * fib(self.n + 1) - 1
    }

    /// Runs with tasks that are futures.
    pub(super) fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (tasks, n) = (pool.tasks(), self.n);
        self.time(|done| {
            pool.start(async move {
                let start = Instant::now();
                let result = Call::Start(tasks, n).await;
                // The receiver is there: it waits for exactly this.
                done.send((result, start.elapsed())).ok();
            });
        })
    }

    /// Runs with tasks that are closures.
    pub(super) fn jobs<P: JobPool<Jobs: JoiningJobs>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (jobs, n) = (pool.jobs(), self.n);
        self.time(|done| {
            pool.start(move || {
                let start = Instant::now();
                let result = call(jobs, n);
                done.send((result, start.elapsed())).ok();
            });
        })
    }

    fn time(
        &self,
        start: impl FnOnce(mpsc::Sender<(u64, std::time::Duration)>),
    ) -> Result<Outcome, LabError> {
        let (done, finished) = mpsc::channel();
        start(done);
        let (result, elapsed) = finished
            .recv()
            .map_err(|_| LabError::Wrong(String::from("the first call of fib was dropped")))?;
        check("fib", &result, &fib(self.n))?;
        let calls = self.calls();
        Ok(
            Outcome::new(calls, elapsed)
                .with_measure("ns_per_task", elapsed.as_nanos() as f64 / calls as f64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fib_and_its_calls() {
        assert_eq!(
            (0..11).map(fib).collect::<Vec<_>>(),
            [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
        );
        fn count(n: u64) -> u64 {
            if n < 2 { 1 } else { 1 + count(n - 1) + count(n - 2) }
        }
        for n in 1..15 {
            assert_eq!(Plan { n }.calls(), count(n));
        }
    }
}
