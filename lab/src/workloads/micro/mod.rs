//! The micro-benchmarks of a scheduler: tasks that do nothing but switch, and who gets his turn.
//!
//! Their sizes are per worker, so that a figure divides by the workers: `workers_over_throughput_ns` is flat
//! where a runtime scales perfectly, and `least` is what the least served had, over the mean: 1 is perfectly
//! fair, 0 is starved.
//!
//! After the micro-benchmarks with which the scheduler of Cforall was measured beside libfibre, Go and tokio.

use super::Request;
use super::params::{Domain, Param, Params, Variant};
use super::spec::Kind;
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::parks::Parks;
use crate::peers::{Runtime, TaskPool};

mod churn;
mod cycle;
mod hall;
mod locality;
mod transfer;
mod yields;

pub(super) use churn::WORKLOAD as CHURN;
pub(super) use cycle::WORKLOAD as CYCLE;
pub(super) use locality::WORKLOAD as LOCALITY;
pub(super) use transfer::WORKLOAD as TRANSFER;
pub(super) use yields::WORKLOAD as YIELD;

/// How long a run is measured.
const MS: Param = Param {
    name: "ms",
    about: "milliseconds that are measured, after an eighth of that which is not",
    domain: Domain::Number {
        least: 1,
        most: 100_000,
    },
    default: "400",
};

/// Whether waits are timed.
const CLOCK: Param = Param {
    name: "clock",
    about: "off: turns are counted; on: each task reads the clock at each turn as well, and the longest wait is told",
    domain: Domain::Word(&["off", "on"]),
    default: "off",
};

const CLOCKED: Variant = Variant {
    name: "waits",
    about: "each task reads the clock at each turn: how long the longest wait was",
    set: &[("clock", "on")],
};

/// A number of tasks, or of rings, that each worker brings.
const fn per_worker(name: &'static str, about: &'static str) -> Param {
    Param {
        name,
        about,
        domain: Domain::Number {
            least: 1,
            most: 10_000,
        },
        default: "100",
    }
}

/// One of them, ready to run.
pub(crate) enum Plan {
    /// See `cycle`.
    Cycle(cycle::Plan),
    /// See `yields`.
    Yield(yields::Plan),
    /// See `churn`.
    Churn(churn::Plan),
    /// See `locality`.
    Locality(locality::Plan),
    /// See `transfer`.
    Transfer(transfer::Plan),
}

impl Plan {
    /// Reads the parameters of `cycle`.
    pub(super) fn cycle(params: &Params, workers: usize) -> Self {
        Self::Cycle(cycle::Plan::new(params, workers))
    }

    /// Reads the parameters of `yield`.
    pub(super) fn yields(params: &Params, workers: usize) -> Self {
        Self::Yield(yields::Plan::new(params, workers))
    }

    /// Reads the parameters of `churn`.
    pub(super) fn churn(params: &Params, workers: usize) -> Result<Self, LabError> {
        Ok(Self::Churn(churn::Plan::new(params, workers)?))
    }

    /// Reads the parameters of `locality`.
    pub(super) fn locality(params: &Params, workers: usize) -> Result<Self, LabError> {
        Ok(Self::Locality(locality::Plan::new(params, workers)?))
    }

    /// Reads the parameters of `transfer`.
    pub(super) fn transfer(params: &Params, workers: usize) -> Result<Self, LabError> {
        Ok(Self::Transfer(transfer::Plan::new(params, workers)?))
    }

    /// Runs it.
    pub(super) fn run<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Cycle(plan) => plan.run(pool),
            Self::Yield(plan) => plan.run(pool),
            Self::Churn(plan) => plan.run(pool),
            Self::Locality(plan) => plan.run(pool),
            Self::Transfer(plan) => plan.run(pool),
        }
    }
}

/// Whether it is one of these.
pub(crate) fn is_micro(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Cycle | Kind::Yield | Kind::Churn | Kind::Locality | Kind::Transfer
    )
}

/// Why this runtime cannot run it, if so.
///
/// # Errors
///
/// Nobody can: its tasks could not make progress.
pub(super) fn refusal(request: &Request) -> Result<Option<String>, LabError> {
    match request.kind {
        Kind::Churn | Kind::Locality => churn::spots(&request.params, request.workers).map(drop)?,
        Kind::Transfer => transfer::tasks(&request.params, request.workers).map(drop)?,
        _ => {}
    }
    let runtime = request.runtime()?;
    let reason = match runtime {
        Runtime::Warpweft | Runtime::Tokio | Runtime::Smol | Runtime::May | Runtime::Threads => {
            return Ok(None);
        }
        Runtime::Rayon | Runtime::RayonFifo | Runtime::StealOne => {
            "its jobs cannot wait without holding a worker"
        }
        Runtime::Chili | Runtime::Forte => "it can only join: see fork-join",
        Runtime::Sequential => "plain calls are no tasks: see fork-join",
        Runtime::TokioRayon => "two pools, one that waits and one that joins: see mixed and http",
        Runtime::Go | Runtime::Java => return Ok(runtime.missing()),
    };
    Ok(Some(reason.to_owned()))
}
