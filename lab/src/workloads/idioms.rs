//! The programs of the idioms that few workloads are written in: each is called by the peers that have the
//! idiom.

use std::net::SocketAddr;

use super::Program;
use super::measure::{measured, not_for};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::apps::Apps;
use crate::peers::forks::{ForkPool, ScopePool};
use crate::peers::mixed::MixedPool;
use crate::peers::parks::Parks;
use crate::peers::remote::RemotePool;
use crate::peers::waits::{Sleeps, Waits};
use crate::peers::{HttpPool, TaskPool};

impl Program {
    /// Runs it on a pool whose tasks wait for each other.
    pub(crate) fn run_waits<P: TaskPool<Tasks: Waits>>(&self, pool: &P) -> Result<Outcome, LabError> {
        let counters = || pool.counters();
        match self {
            Self::Pingpong(plan) => measured(counters, || plan.warm_up().run(pool), || plan.run(pool)),
            Self::Lock(plan) => measured(counters, || plan.warm_up().run(pool), || plan.run(pool)),
            _ => Err(not_for("tasks that wait for each other")),
        }
    }

    /// Runs it on a pool whose tasks are actors.
    pub(crate) fn run_apps<P: TaskPool<Tasks: Apps>>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::App(plan) => plan.run(pool),
            _ => Err(not_for("actors")),
        }
    }

    /// Runs it on a pool whose tasks sleep.
    pub(crate) fn run_timers<P: TaskPool<Tasks: Sleeps>>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Timers(plan) => plan.run(pool),
            Self::PacketBimodal(plan) => {
                let counters = || pool.counters();
                measured(counters, || plan.warm_up().timers(pool), || plan.timers(pool))
            }
            _ => Err(not_for("tasks that sleep")),
        }
    }

    /// Runs it on what serves and computes.
    pub(crate) fn run_mixed<P: MixedPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Mixed(plan) => plan.run(pool),
            _ => Err(not_for("sockets and joins together")),
        }
    }

    /// Runs it with a server of another process.
    pub(crate) fn run_at(&self, address: SocketAddr) -> Result<Outcome, LabError> {
        match self {
            Self::Mixed(plan) => plan.run_at(address),
            _ => Err(not_for("a server of another process")),
        }
    }

    /// Runs it on a pool that joins.
    pub(crate) fn run_forks<P: ForkPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::ForkJoin(plan) => {
                let counters = || pool.counters();
                measured(counters, || plan.warm_up().run(pool), || plan.run(pool))
            }
            _ => Err(not_for("joins")),
        }
    }

    /// Runs it on a pool with scopes.
    pub(crate) fn run_scope<P: ScopePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Scope(plan) => measured(|| pool.counters(), || plan.warm_up(pool), || plan.run(pool)),
            _ => Err(not_for("scopes")),
        }
    }

    /// Runs it on a pool whose work waits for what is remote.
    pub(crate) fn run_remote<P: RemotePool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::MapReduce(plan) => plan.run(pool),
            Self::Sweep(plan) => plan.run(pool),
            _ => Err(not_for("work that waits and computes")),
        }
    }

    /// Runs it on a pool whose tasks park.
    pub(crate) fn run_parks<P: TaskPool<Tasks: Parks>>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Micro(plan) => plan.run(pool),
            _ => Err(not_for("tasks that park")),
        }
    }

    /// Runs it on a pool that serves HTTP.
    pub(crate) fn run_http<P: HttpPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        match self {
            Self::Http(plan) => plan.run(pool),
            _ => Err(not_for("servers")),
        }
    }
}
