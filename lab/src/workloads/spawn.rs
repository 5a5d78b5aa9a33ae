//! *spawn*: what a task costs that does nothing. A batch with handles, one by one, fired and forgotten, or
//! piled up (`backlog`); from a task of the pool or from a foreign thread.
//!
//! Runtimes without handles count the tasks that ran instead; their rows say so. A scope has no handles by
//! design and is a plan of its own: see `scope`.

use std::future::Future;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::lane::Lane;
use super::params::Params;
use super::{backlog, check};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::{JobPool, Jobs, TaskPool, Tasks};

/// What is spawned and how it is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// All with handles, then all joined.
    Batch,
    /// Spawned and awaited one by one.
    One,
    /// No handles; a counter tells when all have run.
    Fire,
    /// The same with closures that carry something, and a look at the memory: see `backlog`.
    Backlog,
}

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
    mode: Mode,
    inside: bool,
}

/// Whether this setting needs handles.
pub(super) fn has_handles(params: &Params) -> bool {
    matches!(params.word("mode"), "batch" | "one")
}

/// Whether this setting spawns into a scope.
pub(super) fn in_scope(params: &Params) -> bool {
    params.word("mode") == "scope"
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params) -> Self {
        let mode = match params.word("mode") {
            "one" => Mode::One,
            "fire" => Mode::Fire,
            "backlog" => Mode::Backlog,
            _ => Mode::Batch,
        };
        Self {
            n: params.number("n"),
            mode,
            inside: params.word("from") == "inside",
        }
    }

    /// The part that is not measured.
    pub(super) fn warm_up(&self) -> Self {
        let most = match self.mode {
            Mode::Backlog => backlog::WARM,
            _ => u64::MAX,
        };
        Self {
            n: (self.n / 10).clamp(1, most),
            ..*self
        }
    }

    /// Runs with tasks that are futures.
    pub(super) fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (tasks, n) = (pool.tasks(), self.n);
        let (elapsed, joined) = match (self.mode, self.inside) {
            (Mode::Batch, true) => inside(pool, async move {
                let start = Instant::now();
                let mut handles = Vec::with_capacity(n as usize);
                handles.extend((0..n).map(|_| tasks.spawn_job(|| ())));
                let mut joined = 0;
                for handle in handles {
                    handle.await;
                    joined += 1;
                }
                (start.elapsed(), joined)
            })?,
            (Mode::One, true) => inside(pool, async move {
                let start = Instant::now();
                let mut joined = 0;
                for _ in 0..n {
                    tasks.spawn_job(|| ()).await;
                    joined += 1;
                }
                (start.elapsed(), joined)
            })?,
            (Mode::Fire, true) => {
                let lane = Lane::leaked(super::base(), 0);
                inside(pool, async move {
                    let start = Instant::now();
                    for _ in 0..n {
                        tasks.launch_job(move || lane.count());
                    }
                    while lane.done() < n {
                        tasks.yield_now().await;
                    }
                    (start.elapsed(), lane.done())
                })?
            }
            (Mode::Batch, false) => {
                let start = Instant::now();
                let mut handles = Vec::with_capacity(n as usize);
                handles.extend((0..n).map(|_| pool.submit(|| ())));
                let joined = pool.block_on(async {
                    let mut joined = 0;
                    for handle in handles {
                        handle.await;
                        joined += 1;
                    }
                    joined
                });
                (start.elapsed(), joined)
            }
            (Mode::One, false) => {
                let start = Instant::now();
                let joined = pool.block_on(async {
                    let mut joined = 0;
                    for _ in 0..n {
                        pool.submit(|| ()).await;
                        joined += 1;
                    }
                    joined
                });
                (start.elapsed(), joined)
            }
            (Mode::Backlog, inside) => return backlog::tasks(pool, n, inside),
            (Mode::Fire, false) => {
                let lane = Lane::leaked(super::base(), 0);
                let start = Instant::now();
                for _ in 0..n {
                    pool.submit_and_forget(move || lane.count());
                }
                wait_for(lane, n);
                (start.elapsed(), lane.done())
            }
        };
        self.outcome(elapsed, joined)
    }

    /// Runs with tasks that are closures.
    pub(super) fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        if self.mode == Mode::Backlog {
            return backlog::jobs(pool, self.n, self.inside);
        }
        let (jobs, n) = (pool.jobs(), self.n);
        let lane = Lane::leaked(super::base(), 0);
        let one_by_one = self.mode == Mode::One;
        let (elapsed, joined) = if self.inside {
            inside_job(pool, move || {
                let start = Instant::now();
                for launched in 1..=n {
                    jobs.launch(move || lane.count());
                    while one_by_one && lane.done() < launched {
                        jobs.yield_now();
                    }
                }
                while lane.done() < n {
                    jobs.yield_now();
                }
                (start.elapsed(), lane.done())
            })?
        } else {
            let start = Instant::now();
            for launched in 1..=n {
                pool.start(move || lane.count());
                if one_by_one {
                    wait_for(lane, launched);
                }
            }
            wait_for(lane, n);
            (start.elapsed(), lane.done())
        };
        self.outcome(elapsed, joined)
    }

    fn outcome(&self, elapsed: Duration, joined: u64) -> Result<Outcome, LabError> {
        check("tasks", &joined, &self.n)?;
        let nanos = elapsed.as_nanos() as f64 / self.n as f64;
        Ok(Outcome::new(self.n, elapsed).with_measure("ns_per_task", nanos))
    }
}

/// A foreign thread waits until so many tasks have run: it lets others run, then looks again.
pub(super) fn wait_for(lane: &Lane, n: u64) {
    while lane.done() < n {
        std::thread::yield_now();
    }
}

/// Runs a future as a task of the pool and gives back what it says.
pub(super) fn inside<P: TaskPool, T: Send + 'static>(
    pool: &P,
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, LabError> {
    let (done, finished) = mpsc::channel();
    pool.start(async move {
        // The receiver is there: it waits for exactly this.
        done.send(future.await).ok();
    });
    finished.recv().map_err(|_| dropped())
}

/// Runs a closure as a task of the pool and gives back what it says.
pub(super) fn inside_job<P: JobPool, T: Send + 'static>(
    pool: &P,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LabError> {
    let (done, finished) = mpsc::channel();
    pool.start(move || {
        // The receiver is there: it waits for exactly this.
        done.send(job()).ok();
    });
    finished.recv().map_err(|_| dropped())
}

fn dropped() -> LabError {
    LabError::Wrong(String::from("the spawning task was dropped before its end"))
}
