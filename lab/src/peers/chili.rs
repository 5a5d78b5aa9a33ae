//! chili: joins that cost next to nothing until a heartbeat finds an idle worker.
//!
//! It has no way in from outside: a scope makes the thread that opens it one of the workers. A pool of N
//! workers is therefore N - 1 threads and the caller, and beside them the thread of the heartbeat, which
//! sleeps in between.

use std::num::NonZero;

use ::chili::{Config, Scope, ThreadPool};
use harness::{Caveat, LabError, Outcome, Peer, PeerInfo, Request};

use super::Contestant;
use crate::idioms::Idiom;
use crate::idioms::forks::{Branch, Fork, ForkPool};
use crate::program::{Program, measured};

/// chili.
pub(crate) struct Chili;

impl Peer for Chili {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "chili",
            about: "chili, for fork-join: joins shared on a heartbeat; the caller is one of the workers",
            packages: &["chili"],
        }
    }
}

impl Contestant for Chili {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        (idiom != Idiom::Forks).then_some("it can only join: see fork-join")
    }

    fn caveat(&self, _: Idiom) -> Option<Caveat> {
        Some(Caveat::same("the caller is one of the workers"))
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        // chili counts the caller, too: of this number it starts one thread less.
        let workers = NonZero::new(request.workers).ok_or_else(|| request.failed("no workers"))?;
        let pool = Pool(ThreadPool::with_config(Config {
            thread_count: Some(workers),
            ..Config::default()
        }));
        measured(program, || None, |program| program.forks(&pool))
    }
}

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
