//! *lock*: tasks that lock, add one and unlock, over and over. Each its own lock, or all the same one.
//!
//! Under the lock there is nothing but the addition: what is measured is the lock, and who gets it next. The
//! figure is per operation of the whole: with two workers and a lock each it can be half of what one
//! operation takes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::params::{Domain, Param, Params, Variant};
use super::spec::{Kind, Workload};
use super::{check, inside};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::waits::Waits;
use crate::peers::{TaskPool, Tasks};

/// The workload as users see it.
pub(super) const WORKLOAD: Workload = Workload {
    name: "lock",
    kind: Kind::Lock,
    about: "tasks that lock, add one and unlock: each its own lock, or one for all",
    unit: "operations",
    latency: None,
    params: &[
        Param {
            name: "n",
            about: "operations of all tasks together, at least one each",
            domain: Domain::Number {
                least: 1,
                most: 10_000_000_000,
            },
            default: "10m",
        },
        Param {
            name: "tasks",
            about: "tasks that lock",
            domain: Domain::Number {
                least: 1,
                most: 100_000,
            },
            default: "100",
        },
        Param {
            name: "locks",
            about: "local: a lock for each task; global: one for all",
            domain: Domain::Word(&["local", "global"]),
            default: "local",
        },
        Param {
            name: "mutex",
            about: "own: that of the runtime, whose waiters suspend; std: that of the standard library, whose waiters \
                    block their worker",
            domain: Domain::Word(&["own", "std"]),
            default: "own",
        },
        super::STYLE,
    ],
    variants: &[
        Variant {
            name: "local",
            about: "a lock for each task (the default)",
            set: &[],
        },
        Variant {
            name: "global",
            about: "one lock for all",
            set: &[("locks", "global")],
        },
        Variant {
            name: "std-local",
            about: "the standard library's mutex, one for each task",
            set: &[("mutex", "std")],
        },
        Variant {
            name: "std-global",
            about: "the standard library's mutex, one for all",
            set: &[("mutex", "std"), ("locks", "global")],
        },
        super::FIBERS,
    ],
    smoke: &[("n", "5000")],
};

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Operations of each task.
    each: u64,
    tasks: u64,
    global: bool,
    std: bool,
}

/// A lock on a line, and a neighbour line, of its own: tasks with a lock each must not meet.
#[repr(align(128))]
struct Apart<T>(T);

type Locks<M> = Vec<Arc<Apart<M>>>;

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params) -> Self {
        let tasks = params.number("tasks");
        Self {
            each: (params.number("n") / tasks).max(1),
            tasks,
            global: params.word("locks") == "global",
            std: uses_std(params),
        }
    }

    /// The part that is not measured.
    pub(super) fn warm_up(&self) -> Self {
        Self {
            each: (self.each / 10).max(1),
            ..*self
        }
    }

    /// Runs it.
    pub(super) fn run<P: TaskPool<Tasks: Waits>>(&self, pool: &P) -> Result<Outcome, LabError> {
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

    /// The locks, and which of them each task takes.
    fn locks<M>(&self, new: impl Fn() -> M) -> (Locks<M>, Locks<M>) {
        let count = if self.global { 1 } else { self.tasks };
        let locks: Vec<_> = (0..count).map(|_| Arc::new(Apart(new()))).collect();
        let taken = locks.iter().cycle().take(self.tasks as usize).cloned().collect();
        (locks, taken)
    }

    async fn own<W: Waits>(self, tasks: W) -> (Duration, Vec<u64>) {
        let (locks, taken) = self.locks(W::mutex);
        let start = Instant::now();
        let handles: Vec<_> = taken
            .into_iter()
            .map(|lock| {
                tasks.spawn(async move {
                    for _ in 0..self.each {
                        W::add(&lock.0).await;
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
            counts.push(W::total(&lock.0).await);
        }
        (elapsed, counts)
    }

    async fn std<T: Tasks>(self, tasks: T) -> (Duration, Vec<u64>) {
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

/// Whether the locks are the standard library's.
pub(super) fn uses_std(params: &Params) -> bool {
    params.word("mutex") == "std"
}
