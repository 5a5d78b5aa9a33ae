//! chili: joins that cost next to nothing until a heartbeat finds somebody idle.
//!
//! It has no way in from outside: a scope makes the thread that opens it one of the workers. A pool of N
//! workers is therefore N - 1 threads and the caller, and beside them the thread of the heartbeat, which
//! sleeps in between.

use std::num::NonZero;

use ::chili::{Config, Scope, ThreadPool};

use super::forks::{Branch, Fork, ForkPool};
use super::not_built;
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::workloads::{Program, Request};

/// A branch's way to fork.
struct Context<'a, 's>(&'a mut Scope<'s>);

impl Fork for Context<'_, '_> {
    #[inline]
    fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
        self.0
            .join(|scope| a.run(Context(scope)), |scope| b.run(Context(scope)))
    }
}

/// The pool, seen from the thread that is one of its workers while it runs something.
struct Pool(ThreadPool);

impl ForkPool for Pool {
    fn run<R: Branch>(&self, root: R) -> R::Out {
        root.run(Context(&mut self.0.scope()))
    }
}

/// Runs a request on a fresh pool.
pub(super) fn run(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    // chili counts the caller, too: of this number it starts one thread less.
    let workers = NonZero::new(request.workers).ok_or_else(|| not_built(request, "no workers"))?;
    program.run_forks(&Pool(ThreadPool::with_config(Config {
        thread_count: Some(workers),
        ..Config::default()
    })))
}
