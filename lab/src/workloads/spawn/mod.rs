//! *spawn*: what a task costs that does nothing. A batch with handles, one by one, fired and forgotten, or
//! piled up (`backlog`); from a task of the pool or from an external thread.
//!
//! A task with a handle returns 1, and the sum of what all have returned is checked. Runtimes without handles
//! count the tasks that ran instead; their rows say so. A scope has no handles by design.

use std::time::Duration;

use crate::kit::check::each;
use crate::kit::host;
use crate::kit::task_recorder::TaskRecorder;
use crate::prelude::*;
use crate::program::not_for;

mod backlog;

/// The kind of task, and the way in which it is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// All with handles, then all joined.
    Batch,
    /// Spawned and awaited one by one.
    One,
    /// No handles; a counter shows when all have run.
    Fire,
    /// The same with closures that carry something, and a look at the memory: see `backlog`.
    Backlog,
    /// Into a scope, which waits for all; counted in the warm-up only.
    Scope {
        /// True if the closures count that they ran.
        counts: bool,
    },
}

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
    mode: Mode,
    inside: bool,
}

impl Program for Plan {
    const ABOUT: About = About {
        name: "spawn",
        about: "empty tasks: created, run, joined",
        unit: "tasks",
        params: params! {
            count("1m", "tasks", 100_000_000);
            Param::word("mode", "batch", &["batch", "one", "fire", "backlog", "scope"],
                "batch: all with handles, then all joined; one: spawned and awaited one by one; fire: no \
                 handles, a counter; backlog: the same with 32 bytes each, and what they take; scope: no \
                 handles, into one scope that waits");
            Param::word("from", "inside", &["inside", "outside"],
                "who spawns: a task of the pool, or a foreign thread");
        },
        variants: variants! {
            Variant::new("batch", &[], "all with handles, then all joined (the default)");
            Variant::new("one", &[("mode", "one")], "spawned and awaited one by one");
            Variant::new("fire", &[("mode", "fire")], "without handles");
            Variant::new("backlog", &[("mode", "backlog")],
                "closures of 32 bytes, all outstanding at once: time and bytes for each");
            Variant::new("scope", &[("mode", "scope")], "closures into one scope, which waits for all");
            Variant::new("outside", &[("from", "outside")], "the batch, from a foreign thread");
            Variant::new("one-outside", &[("mode", "one"), ("from", "outside"), ("n", "100k")],
                "one by one, from a foreign thread");
            Variant::new("fire-outside", &[("mode", "fire"), ("from", "outside")],
                "without handles, from a foreign thread");
        },
        smoke: &[("n", "1000")],
        ..About::NEW
    };

    const ALSO: &[&str] = &["go"];
    const SIMULATES: bool = true;

    fn idiom(params: &Params) -> Idiom {
        if params.word("mode") == "scope" {
            Idiom::Scope
        } else {
            Idiom::Jobs
        }
    }

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        let outside = request.params.word("from") == "outside";
        Ok(match Self::idiom(&request.params) {
            _ if request.simulation.is_some() && request.params.word("mode") == "backlog" => {
                Some("what tasks take of memory is not simulated")
            }
            Idiom::Scope if outside => Some("a scope is opened by a task of the pool: from=inside"),
            Idiom::Jobs if outside && request.runtime == "go" => {
                Some("all its threads are its own: there is no outside")
            }
            _ => None,
        })
    }

    fn caveat(request: &Request) -> Option<Caveat> {
        let handles = matches!(request.params.word("mode"), "batch" | "one");
        let jobs = ["rayon", "rayon-fifo", "threads"].contains(&request.runtime.as_str());
        (handles && jobs).then_some(Caveat::other("no handles: a counter stands for them"))
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        Ok(Self {
            n: params.number("n"),
            mode: match params.word("mode") {
                "one" => Mode::One,
                "fire" => Mode::Fire,
                "backlog" => Mode::Backlog,
                "scope" => Mode::Scope { counts: false },
                _ => Mode::Batch,
            },
            inside: params.word("from") == "inside",
        })
    }

    fn warm_up(&self) -> Option<Self> {
        let (mode, most) = match self.mode {
            Mode::Backlog => (Mode::Backlog, backlog::WARM),
            Mode::Scope { .. } => (Mode::Scope { counts: true }, u64::MAX),
            mode => (mode, u64::MAX),
        };
        Some(Self {
            n: (self.n / 10).clamp(1, most),
            mode,
            ..*self
        })
    }

    fn tasks<P: TaskPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (tasks, n) = (pool.tasks(), self.n);
        let (elapsed, joined) = match (self.mode, self.inside) {
            (Mode::Batch, true) => inside(pool, async move {
                let start = host::now();
                let mut handles = Vec::with_capacity(n as usize);
                handles.extend((0..n).map(|_| tasks.spawn_job(one)));
                let mut joined = 0;
                for handle in handles {
                    joined += handle.await;
                }
                (host::since(start), joined)
            })?,
            (Mode::One, true) => inside(pool, async move {
                let start = host::now();
                let mut joined = 0;
                for _ in 0..n {
                    joined += tasks.spawn_job(one).await;
                }
                (host::since(start), joined)
            })?,
            (Mode::Fire, true) => {
                let recorder = TaskRecorder::leaked(base(), 0);
                inside(pool, async move {
                    let start = host::now();
                    for _ in 0..n {
                        tasks.launch_job(move || recorder.count());
                    }
                    while recorder.done() < n {
                        tasks.yield_now().await;
                    }
                    (host::since(start), recorder.done())
                })?
            }
            (Mode::Batch, false) => {
                let start = host::now();
                let mut handles = Vec::with_capacity(n as usize);
                handles.extend((0..n).map(|_| pool.submit(one)));
                let joined = pool.block_on(async {
                    let mut joined = 0;
                    for handle in handles {
                        joined += handle.await;
                    }
                    joined
                });
                (host::since(start), joined)
            }
            (Mode::One, false) => {
                let start = host::now();
                let joined = pool.block_on(async {
                    let mut joined = 0;
                    for _ in 0..n {
                        joined += pool.submit(one).await;
                    }
                    joined
                });
                (host::since(start), joined)
            }
            (Mode::Backlog, inside) => return backlog::tasks(pool, n, inside),
            (Mode::Scope { .. }, _) => return Err(not_for("tasks that outlive their scope")),
            (Mode::Fire, false) => {
                let recorder = TaskRecorder::leaked(base(), 0);
                let start = host::now();
                for _ in 0..n {
                    pool.submit_and_forget(move || recorder.count());
                }
                wait_for(recorder, n);
                (host::since(start), recorder.done())
            }
        };
        self.outcome(elapsed, joined)
    }

    fn jobs<P: JobPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        if self.mode == Mode::Backlog {
            return backlog::jobs(pool, self.n, self.inside);
        }
        let (jobs, n) = (pool.jobs(), self.n);
        let recorder = TaskRecorder::leaked(base(), 0);
        let one_by_one = self.mode == Mode::One;
        let (elapsed, joined) = if self.inside {
            inside_job(pool, move || {
                let start = host::now();
                for launched in 1..=n {
                    jobs.launch(move || recorder.count());
                    while one_by_one && recorder.done() < launched {
                        jobs.yield_now();
                    }
                }
                while recorder.done() < n {
                    jobs.yield_now();
                }
                (host::since(start), recorder.done())
            })?
        } else {
            let start = host::now();
            for launched in 1..=n {
                pool.start(move || recorder.count());
                if one_by_one {
                    wait_for(recorder, launched);
                }
            }
            wait_for(recorder, n);
            (host::since(start), recorder.done())
        };
        self.outcome(elapsed, joined)
    }

    /// Nothing shows that an empty closure has run. Those of the warm-up count, and so show that the scope
    /// waits for all of them; those that are measured are empty.
    fn scope<P: ScopePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        if self.mode == (Mode::Scope { counts: true }) {
            let recorder = TaskRecorder::leaked(base(), 0);
            let elapsed = pool.scope(self.n, || recorder.count());
            return self.outcome(elapsed, recorder.done());
        }
        self.outcome(pool.scope(self.n, || ()), self.n)
    }
}

impl Plan {
    fn outcome(&self, elapsed: Duration, joined: u64) -> Result<Outcome, LabError> {
        check("tasks", &joined, &self.n)?;
        Ok(each(self.n, elapsed, "ns_per_task"))
    }
}

/// The task with a handle: it counts itself.
fn one() -> u64 {
    1
}

/// An external thread waits until `n` tasks have run: it lets others run, then looks again.
fn wait_for(recorder: &TaskRecorder, n: u64) {
    while recorder.done() < n {
        host::yield_now();
    }
}
