//! No runtime at all: a join is two calls, and a loop is a loop. What a runtime's joins and loops cost is the
//! distance to this.

use harness::{Caveat, LabError, Outcome, Peer, PeerInfo, Request};

use super::Contestant;
use crate::idioms::Idiom;
use crate::idioms::forks::{Branch, Fork, ForkPool};
use crate::idioms::loops::{LoopPool, Loops, Piece};
use crate::program::{Parts, Program, measured};

/// No runtime.
pub(crate) struct Sequential;

impl Peer for Sequential {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "sequential",
            about: "no runtime, for fork-join and loops: a join is two calls; one worker",
            packages: &[],
        }
    }
}

impl Contestant for Sequential {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        let has = matches!(idiom, Idiom::Forks | Idiom::Loops);
        (!has).then_some("plain calls are no tasks: see fork-join and loops")
    }

    fn refusal(&self, request: &Request, idiom: Idiom, _: Parts) -> Result<Option<String>, LabError> {
        let several = matches!(idiom, Idiom::Forks | Idiom::Loops) && request.workers > 1;
        Ok(several.then(|| String::from("plain calls have no use for a second worker")))
    }

    fn caveat(&self, _: Idiom) -> Option<Caveat> {
        Some(Caveat::other("plain calls: nothing is forked"))
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        measured(
            program,
            || None,
            |program| match P::idiom(&request.params) {
                Idiom::Loops => program.loops(&Pool),
                _ => program.forks(&Pool),
            },
        )
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

/// Plain loops.
#[derive(Clone, Copy)]
struct PlainLoops;

impl Loops for PlainLoops {
    fn sum<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> u64 {
        over.iter().map(make).sum()
    }

    fn map<T: Sync>(self, over: &[T], make: impl Fn(&T) -> u64 + Send + Sync) -> Vec<u64> {
        over.iter().map(make).collect()
    }

    fn each<T: Send>(self, over: &mut [T], change: impl Fn(&mut T) + Send + Sync) {
        over.iter_mut().for_each(change);
    }
}

impl LoopPool for Pool {
    type Loops = PlainLoops;

    fn run<T: Send>(&self, _: Piece, root: impl FnOnce(PlainLoops) -> T + Send) -> T {
        root(PlainLoops)
    }
}

/// There is no pool; this is where it would be.
struct Pool;

impl ForkPool for Pool {
    fn run<R: Branch>(&self, root: R) -> R::Out {
        root.run(Calls)
    }
}
