//! rayon's pool, with `spawn` (newest first) and with `spawn_fifo` (oldest first); `join` is the same in
//! both.

use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::forks::{Branch, Fork, ForkPool, ScopePool};
use super::remote::rayon::Classic;
use super::{JobPool, Jobs, JoiningJobs, not_built, waits_and_computes};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::workloads::{Program, Request};

/// Which of the two spawns.
pub(super) trait Order: JoiningJobs + Default {
    /// Starts a job from outside.
    fn start_in(pool: &ThreadPool, job: impl FnOnce() + Send + 'static);
}

/// `spawn`: a worker takes its newest job.
#[derive(Clone, Copy, Default)]
pub(super) struct Lifo;

/// `spawn_fifo`: a worker takes its oldest job.
#[derive(Clone, Copy, Default)]
pub(super) struct Fifo;

/// Lets a worker run another job; from a worker only.
fn yield_now() {
    rayon::yield_now();
}

impl Jobs for Lifo {
    #[inline]
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        rayon::spawn(job);
    }

    #[inline]
    fn yield_now(self) {
        yield_now();
    }
}

impl JoiningJobs for Lifo {
    #[inline]
    fn both<A: Send, B: Send>(
        self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        rayon::join(first, second)
    }
}

impl Order for Lifo {
    fn start_in(pool: &ThreadPool, job: impl FnOnce() + Send + 'static) {
        pool.spawn(job);
    }
}

impl Jobs for Fifo {
    #[inline]
    fn launch(self, job: impl FnOnce() + Send + 'static) {
        rayon::spawn_fifo(job);
    }

    #[inline]
    fn yield_now(self) {
        yield_now();
    }
}

impl JoiningJobs for Fifo {
    #[inline]
    fn both<A: Send, B: Send>(
        self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        rayon::join(first, second)
    }
}

impl Order for Fifo {
    fn start_in(pool: &ThreadPool, job: impl FnOnce() + Send + 'static) {
        pool.spawn_fifo(job);
    }
}

/// The pool, seen from outside.
struct Pool<O> {
    pool: ThreadPool,
    order: O,
}

impl<O: Order> JobPool for Pool<O> {
    type Jobs = O;

    fn jobs(&self) -> O {
        self.order
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) {
        O::start_in(&self.pool, job);
    }
}

/// A branch's way to fork: rayon finds the worker by itself.
pub(super) struct Context;

impl Fork for Context {
    #[inline]
    fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
        rayon::join(|| a.run(Context), || b.run(Context))
    }
}

impl<O> ForkPool for Pool<O> {
    fn run<R: Branch>(&self, root: R) -> R::Out {
        self.pool.install(|| root.run(Context))
    }
}

impl<O: Order> ScopePool for Pool<O> {
    fn scope(&self, n: u64, job: impl Fn() + Copy + Send + Sync) -> Duration {
        self.pool.install(|| {
            let start = Instant::now();
            rayon::scope(|scope| {
                for _ in 0..n {
                    scope.spawn(move |_| job());
                }
            });
            start.elapsed()
        })
    }
}

/// Runs a request on a fresh pool.
pub(super) fn run<O: Order>(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(request.workers)
        .build()
        .map_err(|error| not_built(request, &error))?;
    if waits_and_computes(program) {
        return program.run_remote(&Classic(pool));
    }
    let pool = Pool {
        pool,
        order: O::default(),
    };
    match program {
        Program::ForkJoin(_) => program.run_forks(&pool),
        Program::Scope(_) => program.run_scope(&pool),
        _ => program.run_joining_jobs(&pool),
    }
}
