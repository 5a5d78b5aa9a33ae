//! forte: rayon's interface over one shared queue that a heartbeat fills.
//!
//! As with chili the thread that comes from outside is one of the workers: a pool of N workers is N - 1
//! threads and the caller, and beside them the thread of the heartbeat. A pool lives as long as the process,
//! and its threads are left to it: to end them can hang (1.0.0-alpha.4: the heartbeat misses the wake-up that
//! is to end it).
//!
//! It is not the newest: those after it, to 1.0.0-beta.2, need Rust 1.96. They have the same calls.

use std::time::{Duration, Instant};

use ::forte::{ThreadPool, Worker};
use harness::{Caveat, LabError, Outcome, Peer, PeerInfo, Request};

use super::Contestant;
use crate::idioms::Idiom;
use crate::idioms::forks::{Branch, Fork, ForkPool, ScopePool};
use crate::program::{Program, measured};

/// forte.
pub(crate) struct Forte;

impl Peer for Forte {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "forte",
            about: "forte, for fork-join and scopes: shared on a heartbeat; the caller is one of the workers",
            packages: &["forte"],
        }
    }
}

impl Contestant for Forte {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        let has = matches!(idiom, Idiom::Forks | Idiom::Scope);
        (!has).then_some("measured where closures borrow: see fork-join and spawn/scope")
    }

    fn caveat(&self, _: Idiom) -> Option<Caveat> {
        Some(Caveat::same("the caller is one of the workers"))
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let pool = Pool::new(request.workers - 1)
            .ok_or_else(|| request.failed("the pool started fewer threads than it was asked for"))?;
        measured(
            program,
            || None,
            |program| match P::idiom(&request.params) {
                Idiom::Scope => program.scope(&pool),
                _ => program.forks(&pool),
            },
        )
    }
}

/// A branch's way to fork.
struct Context<'a>(&'a Worker);

impl Fork for Context<'_> {
    #[inline]
    fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
        self.0
            .join(|worker| a.run(Context(worker)), |worker| b.run(Context(worker)))
    }
}

/// The pool, seen from the thread that is one of its workers while it runs something.
struct Pool(&'static ThreadPool);

impl Pool {
    fn new(threads: usize) -> Option<Self> {
        let pool: &'static ThreadPool = Box::leak(Box::new(ThreadPool::new()));
        (pool.resize_to(threads) == threads).then_some(Self(pool))
    }
}

impl ForkPool for Pool {
    fn run<R: Branch>(&self, root: R) -> R::Out {
        self.0.with_worker(|worker| root.run(Context(worker)))
    }
}

impl ScopePool for Pool {
    fn scope(&self, n: u64, job: impl Fn() + Copy + Send + Sync) -> Duration {
        self.0.with_worker(|worker| {
            let start = Instant::now();
            worker.scope(|scope| {
                for _ in 0..n {
                    scope.spawn(move |_| job());
                }
            });
            start.elapsed()
        })
    }
}
