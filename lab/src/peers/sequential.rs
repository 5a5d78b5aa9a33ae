//! No runtime at all: a join is two calls. What a runtime's joins cost is the distance to this.

use harness::{Caveat, LabError, Outcome, Peer, PeerInfo, Request};

use super::Contestant;
use crate::idioms::Idiom;
use crate::idioms::forks::{Branch, Fork, ForkPool};
use crate::program::{Parts, Program, measured};

/// No runtime.
pub(crate) struct Sequential;

impl Peer for Sequential {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "sequential",
            about: "no runtime, for fork-join: a join is two calls; one worker",
            packages: &[],
        }
    }
}

impl Contestant for Sequential {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        (idiom != Idiom::Forks).then_some("plain calls are no tasks: see fork-join")
    }

    fn refusal(&self, request: &Request, idiom: Idiom, _: Parts) -> Result<Option<String>, LabError> {
        let several = idiom == Idiom::Forks && request.workers > 1;
        Ok(several.then(|| String::from("plain calls have no use for a second worker")))
    }

    fn caveat(&self, _: Idiom) -> Option<Caveat> {
        Some(Caveat::other("plain calls: nothing is forked"))
    }

    fn play<P: Program>(&self, _: &Request, program: &P) -> Result<Outcome, LabError> {
        measured(program, || None, |program| program.forks(&Pool))
    }
}

/// Both branches are called, one after the other.
pub(crate) struct Calls;

impl Fork for Calls {
    #[inline]
    fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out) {
        (a.run(Calls), b.run(Calls))
    }
}

/// There is no pool; this is where it would be.
struct Pool;

impl ForkPool for Pool {
    fn run<R: Branch>(&self, root: R) -> R::Out {
        root.run(Calls)
    }
}
