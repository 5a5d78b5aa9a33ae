//! No runtime at all: a join is two calls. What a runtime's joins cost is the distance to this.

use super::forks::{Branch, Fork, ForkPool};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::workloads::Program;

/// Both branches are called, one after the other.
pub(super) struct Calls;

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

/// Runs a program in this thread.
pub(super) fn run(program: &Program) -> Result<Outcome, LabError> {
    program.run_forks(&Pool)
}
