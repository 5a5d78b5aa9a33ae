//! *lock*: tasks that lock, add one and unlock, over and over. Each its own lock, or all the same one.
//!
//! Under the lock there is nothing but the addition: what is measured is the lock, and which task gets it
//! next. The figure is per operation of the whole: with two workers and a lock each it can be half of what
//! one operation takes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::kit::task_bench::Apart;
use crate::prelude::*;

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Operations of each task.
    each: u64,
    tasks: u64,
    global: bool,
    std: bool,
}

/// Locks that share no cache line: tasks with a lock each must not meet.
type Locks<M> = Vec<Arc<Apart<M>>>;

impl Program for Plan {
    const ABOUT: About = About {
        name: "lock",
        about: "tasks that lock, add one and unlock: each its own lock, or one for all",
        unit: "operations",
        params: params! {
            Param::number("n", "10m", 1, 10_000_000_000, "operations of all tasks together, at least one each");
            Param::number("tasks", "100", 1, 100_000, "tasks that lock");
            Param::word("locks", "local", &["local", "global"],
                "local: a lock for each task; global: one for all");
            Param::word("mutex", "own", &["own", "std"],
                "own: that of the runtime, whose waiters suspend; std: that of the standard library, whose \
                 waiters block their worker");
            STYLE;
        },
        variants: variants! {
            Variant::new("local", &[], "a lock for each task (the default)");
            Variant::new("global", &[("locks", "global")], "one lock for all");
            Variant::new("std-local", &[("mutex", "std")], "the standard library's mutex, one for each task");
            Variant::new("std-global", &[("mutex", "std"), ("locks", "global")],
                "the standard library's mutex, one for all");
            FIBERS;
        },
        smoke: &[("n", "5000")],
        explored: WAITING,
        ..About::NEW
    };

    const IDIOM: Idiom = Idiom::Waits;
    const ALSO: &[&str] = &["go", "java"];

    fn refusal(request: &Request) -> Result<Option<&'static str>, LabError> {
        Ok(match request.runtime.as_str() {
            "rayon" | "rayon-fifo" => Some("it has no mutex of its own"),
            "go" | "java" if uses_std(&request.params) => Some("Rust's standard library is not its own"),
            _ => None,
        })
    }

    fn caveat(request: &Request) -> Option<Caveat> {
        let counts = request.runtime == "tokio" && !uses_std(&request.params);
        counts.then_some(Caveat::same("a task yields after 128 operations"))
    }

    fn load(request: &Request) -> Result<Self, LabError> {
        let params = &request.params;
        let tasks = params.number("tasks");
        Ok(Self {
            each: (params.number("n") / tasks).max(1),
            tasks,
            global: params.word("locks") == "global",
            std: uses_std(params),
        })
    }

    fn warm_up(&self) -> Option<Self> {
        Some(Self {
            each: (self.each / 10).max(1),
            ..*self
        })
    }

    fn waits<P: TaskPool<Tasks: Promises>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let (tasks, plan) = (pool.tasks(), *self);
        let (elapsed, counts) = if self.std {
            inside(pool, async move { plan.std(tasks).await })?
        } else {
            inside(pool, async move { plan.own(tasks).await })?
        };
        let locks = if self.global { 1 } else { self.tasks };
        let expected = vec![self.each * (self.tasks / locks); locks as usize];
        check("operations under each lock", &counts, &expected)?;
        let n = self.each * self.tasks;
        let nanos = elapsed.as_nanos() as f64 / n as f64;
        Ok(Outcome::new(n, elapsed).with_measure("ns_per_operation", nanos))
    }
}

impl Plan {
    /// The locks, and which of them each task takes.
    fn locks<M>(&self, new: impl Fn() -> M) -> (Locks<M>, Locks<M>) {
        let count = if self.global { 1 } else { self.tasks };
        let locks: Vec<_> = (0..count).map(|_| Arc::new(Apart(new()))).collect();
        let taken = locks.iter().cycle().take(self.tasks as usize).cloned().collect();
        (locks, taken)
    }

    async fn own<W: Promises>(self, tasks: W) -> (Duration, Vec<u64>) {
        let (locks, taken) = self.locks(|| W::lock(0));
        let start = Instant::now();
        let handles: Vec<_> = taken
            .into_iter()
            .map(|lock| {
                tasks.spawn(async move {
                    for _ in 0..self.each {
                        W::with(&lock.0, |count| *count += 1).await;
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.await;
        }
        let elapsed = start.elapsed();
        let mut counts = Vec::new();
        for lock in &locks {
            counts.push(W::with(&lock.0, |count| *count).await);
        }
        (elapsed, counts)
    }

    async fn std<T: SpawnApi>(self, tasks: T) -> (Duration, Vec<u64>) {
        let (locks, taken) = self.locks(|| Mutex::new(0_u64));
        let start = Instant::now();
        let handles: Vec<_> = taken
            .into_iter()
            .map(|lock| {
                tasks.spawn_job(move || {
                    for _ in 0..self.each {
                        *lock.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.await;
        }
        let elapsed = start.elapsed();
        let count = |lock: &Arc<Apart<Mutex<u64>>>| *lock.0.lock().unwrap_or_else(PoisonError::into_inner);
        (elapsed, locks.iter().map(count).collect())
    }
}

/// Returns true if the locks are the standard library's.
pub(super) fn uses_std(params: &Params) -> bool {
    params.word("mutex") == "std"
}
