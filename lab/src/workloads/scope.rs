//! *spawn/scope*: what a closure costs that does nothing, spawned into a scope by the frame that waits for
//! it.
//!
//! Nothing tells that an empty closure has run. The closures of the warm-up count, and so show that the scope
//! waits for all of them; those that are measured are empty.

use super::check;
use super::lane::Lane;
use super::params::Params;
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::forks::ScopePool;
use crate::peers::{Runtime, java};

/// The workload, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    n: u64,
}

/// Why this runtime cannot run it, if so.
pub(super) fn refusal(params: &Params, runtime: Runtime) -> Option<String> {
    let reason = match runtime {
        _ if params.word("from") == "outside" => "a scope is opened by a task of the pool: from=inside",
        Runtime::Warpweft | Runtime::Rayon | Runtime::Forte => return None,
        Runtime::RayonFifo => "rayon's scope is measured newest first: see rayon",
        Runtime::Tokio | Runtime::TokioRayon | Runtime::Smol => {
            "its tasks cannot borrow from the one that waits for them: there is no scope"
        }
        Runtime::May => "measured where tasks wait for each other or sleep: see pingpong, lock and timers",
        Runtime::StealOne => "its jobs have nobody to wait for them: see packet",
        Runtime::Threads => "the scope of std::thread is one of threads, not of tasks",
        Runtime::Go => "it has no scope, only goroutines and channels",
        Runtime::Java => java::NO_PROGRAM,
        Runtime::Chili => "it can only join: see fork-join",
        Runtime::Sequential => "plain calls are no tasks: see fork-join",
    };
    Some(reason.to_owned())
}

impl Plan {
    /// Reads the parameters.
    pub(super) fn new(params: &Params) -> Self {
        Self {
            n: params.number("n"),
        }
    }

    /// A tenth of the work, not measured but counted.
    pub(super) fn warm_up<P: ScopePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let n = (self.n / 10).max(1);
        let lane = Lane::leaked(super::base(), 0);
        let elapsed = pool.scope(n, || lane.count());
        check("tasks", &lane.done(), &n)?;
        Ok(Outcome::new(n, elapsed))
    }

    /// Spawns and waits.
    pub(super) fn run<P: ScopePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let elapsed = pool.scope(self.n, || ());
        let nanos = elapsed.as_nanos() as f64 / self.n as f64;
        Ok(Outcome::new(self.n, elapsed).with_measure("ns_per_task", nanos))
    }
}
