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

use crate::prelude::*;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
}

/// A call of fib as a task.
enum Call<T: SpawnApi> {
    /// Not polled yet.
    Start(T, u64),
    /// Both halves are scheduled; the first is awaited, then the second.
    Halves {
        first: T::Handle<u64>,
        sum: Option<u64>,
        second: T::Handle<u64>,
    },
}

impl<T: SpawnApi> Future for Call<T> {
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

/// A call of fib as a job: `both` is for the two promises.
fn call<J: JoinApi>(jobs: J, n: u64) -> u64 {
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

/// The threads of fib double with each step of n; fib(15) starts 986 of them.
const MOST_THREAD_FIB: u64 = 15;

impl Program for Plan {
    const ABOUT: About = About {
        name: "fib-promise",
        about: "fib(n) awaits fib(n-1) and fib(n-2), each a task with a promise; no cut-off",
        unit: "tasks",
        params: params! {
            count("22", "which Fibonacci number", 32);
        },
        smoke: &[("n", "12")],
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Jobs;
    const ALSO: &[&str] = &["go"];
    const CAVEATS: &[(&str, Caveat)] = &[
        ("rayon", Caveat::other("no promises: join stands for them")),
        ("rayon-fifo", Caveat::other("no promises: join stands for them")),
    ];

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        let many = request.runtime == "threads" && request.params.number("n") > MOST_THREAD_FIB;
        Ok(many.then_some("a thread per call: n is 15 at most"))
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(Self {
            n: params.number("n"),
        })
    }

    fn warm_up(&self) -> Option<Self> {
        Some(Self {
            n: self.n.saturating_sub(5).clamp(1, 20),
        })
    }

    fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
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

    fn joining_jobs<P: JobPool<Jobs: JoinApi>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (jobs, n) = (pool.jobs(), self.n);
        self.time(|done| {
            pool.start(move || {
                let start = Instant::now();
                let result = call(jobs, n);
                done.send((result, start.elapsed())).ok();
            });
        })
    }
}

impl Plan {
    /// Calls of fib that fib(n) makes, itself included; each is a task.
    fn calls(&self) -> u64 {
        2 * fib(self.n + 1) - 1
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
