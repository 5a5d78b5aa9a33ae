//! A workload of this laboratory: written once for each idiom that can express it. A contestant runs it;
//! [`crate::registered()`] joins the two for the harness.

use std::net::SocketAddr;

use harness::{About, Asked, Caveat, Counters, LabError, Outcome, Params, Request};

use crate::idioms::channels::{Actors, Promises, Sleeps};
use crate::idioms::forks::{ForkPool, ScopePool};
use crate::idioms::loops::LoopPool;
use crate::idioms::mixed::MixedPool;
use crate::idioms::parks::Parks;
use crate::idioms::remote::RemotePool;
use crate::idioms::{HttpPool, Idiom, JobPool, JoinApi, TaskPool};

/// Parts of a workload that may have their own pools, where a policy describes several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// It has none.
    None,
    /// The part that takes long may be a stage behind the others.
    Stages,
    /// So may what comes last, or a pool takes whole keys; no stage has a bound.
    StagesAndSilos,
}

/// A program with its parameters, ready to run. The type is the workload; its methods are the idioms.
pub trait Program: Sized + 'static {
    /// Its description, with the parameters that can be set.
    const ABOUT: About;

    /// Reads the parameters and the files; computes reference results.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    fn load(request: &Request) -> Result<Self, LabError>;

    /// The idiom that it needs.
    const IDIOM: Idiom = Idiom::Tasks;

    /// The contestants that have not all programs of the idiom, but this one: those in other languages, and a
    /// few more.
    const ALSO: &[&str] = &[];

    /// Remarks that a reader of these contestants' figures must know.
    const CAVEATS: &[(&str, Caveat)] = &[];

    /// The contestants that cannot run it, besides those that lack the idiom, and why.
    const REFUSALS: &[(&str, &str)] = &[];

    /// The idiom that it needs with these parameters, where that depends on them.
    fn idiom(_params: &Params) -> Idiom {
        Self::IDIOM
    }

    /// True if it takes its time, its atomics and its ways to the outside from `kit/host.rs`, so that it can
    /// be simulated.
    const SIMULATES: bool = false;

    /// The parts that may have their own pools.
    const PARTS: Parts = Parts::None;

    /// The part of the work that is done beforehand and not measured, if any.
    fn warm_up(&self) -> Option<Self> {
        None
    }

    /// See [`harness::Workload::settle`].
    ///
    /// # Errors
    ///
    /// Parameters or files do not fit.
    fn settle(_asked: &mut Asked<'_>) -> Result<(), LabError> {
        Ok(())
    }

    /// See [`harness::Workload::fit`].
    fn fit(_request: &mut Request) {}

    /// Returns the reason if this contestant cannot run it, where that depends on more than its name; see
    /// [`harness::Workload::refusal`].
    ///
    /// # Errors
    ///
    /// No contestant can.
    fn refusal(_request: &Request) -> Result<Option<&'static str>, LabError> {
        Ok(None)
    }

    /// See [`harness::Workload::caveat`]; those of [`Program::CAVEATS`], unless it depends on more.
    fn caveat(request: &Request) -> Option<Caveat> {
        of(Self::CAVEATS, &request.runtime)
    }

    /// See [`harness::Workload::facts`].
    fn facts(_request: &Request) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Runs with tasks that are futures.
    ///
    /// # Errors
    ///
    /// The result is wrong, or it is not written for this idiom; so for all of the following.
    fn tasks<P: TaskPool>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("tasks that are futures"))
    }

    /// Runs with tasks that are closures.
    fn jobs<P: JobPool>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("jobs without handles"))
    }

    /// Runs with tasks that are closures and may wait for two.
    fn joining_jobs<P: JobPool<Jobs: JoinApi>>(&self, pool: &P) -> Result<Outcome, LabError> {
        self.jobs(pool)
    }

    /// Runs with tasks that wait for each other.
    fn waits<P: TaskPool<Tasks: Promises>>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("tasks that wait for each other"))
    }

    /// Runs with tasks that sleep.
    fn sleeps<P: TaskPool<Tasks: Sleeps>>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("tasks that sleep"))
    }

    /// Runs with tasks that park.
    fn parks<P: TaskPool<Tasks: Parks>>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("tasks that park"))
    }

    /// Runs with tasks that are actors.
    fn actors<P: TaskPool<Tasks: Actors>>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("actors"))
    }

    /// Runs on a pool that joins.
    fn forks<P: ForkPool>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("joins"))
    }

    /// Runs on a pool with scopes.
    fn scope<P: ScopePool>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("scopes"))
    }

    /// Runs on a pool that has loops.
    fn loops<P: LoopPool>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("loops"))
    }

    /// Runs on a pool that serves HTTP.
    fn http<P: HttpPool>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("servers"))
    }

    /// Runs on a pool whose work waits for what is remote.
    fn remote<P: RemotePool>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("work that waits and computes"))
    }

    /// Runs on what serves and computes.
    fn mixed<P: MixedPool>(&self, _pool: &P) -> Result<Outcome, LabError> {
        Err(not_for("sockets and joins together"))
    }

    /// Runs with a server of another process.
    fn at(&self, _address: SocketAddr) -> Result<Outcome, LabError> {
        Err(not_for("a server of another process"))
    }

    /// Judges what another process measured, as its own runs are.
    fn judged(&self, outcome: Outcome) -> Outcome {
        outcome
    }
}

/// Returns the entry of a contestant in a table.
pub(crate) fn of<T: Copy>(table: &[(&str, T)], runtime: &str) -> Option<T> {
    table
        .iter()
        .find(|(name, _)| *name == runtime)
        .map(|(_, entry)| *entry)
}

/// A program in an idiom in which it is not written. A refusal keeps it from coming to this.
pub(crate) fn not_for(idiom: &str) -> LabError {
    LabError::Usage(format!("this workload is not written for {idiom}"))
}

/// Warms up, then measures, and counts over the measured part.
pub(crate) fn measured<P: Program>(
    program: &P,
    counters: impl Fn() -> Option<Counters>,
    run: impl Fn(&P) -> Result<Outcome, LabError>,
) -> Result<Outcome, LabError> {
    let Some(warm_up) = program.warm_up() else {
        return run(program);
    };
    run(&warm_up)?;
    let before = counters().unwrap_or_default();
    let mut outcome = run(program)?;
    outcome.counters = counters().map(|after| after.since(&before));
    Ok(outcome)
}
