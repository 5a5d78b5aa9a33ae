//! Who competes. Each file has one contestant, which implements an idiom and [`Contestant`].

pub(crate) mod blocking;
pub(crate) mod plain;
pub(crate) mod rayon;
pub(crate) mod tokio;
pub(crate) mod warpweft;

use crate::workload::{Figure, Outcome, Report, Workload};
use warpweft_mpi::MpiError;
use warpweft_mpi::raw::RawMpi;

/// A way to use MPI.
pub(crate) trait Contestant {
    const NAME: &'static str;
    /// It computes on one thread only, so a rank has one worker.
    const HAS_ONE_THREAD: bool = false;

    /// Begins MPI, runs the workload, and ends MPI.
    ///
    /// # Errors
    ///
    /// There is no MPI, or it fails before or after the program.
    fn run<W: Workload>(workload: W, workers: usize) -> Result<Report, MpiError>;
}

/// Says why the contestant has no program for the workload, or not with so many ranks and workers.
pub(crate) fn lacks<C: Contestant>(
    workload: &impl Workload,
    ranks: usize,
    workers: usize,
) -> Option<&'static str> {
    // The reasons of the workload say more.
    let of_threads = "has no second worker: it computes on one thread by rank";
    workload
        .lacks(C::NAME, ranks, workers)
        .or((C::HAS_ONE_THREAD && workers > 1).then_some(of_threads))
}

/// What a rank reports whose contestant has no program.
fn refusal<C: Contestant>(
    workload: &impl Workload,
    (rank, ranks): (usize, usize),
    workers: usize,
) -> Option<Report> {
    let reason = lacks::<C>(workload, ranks, workers)?;
    Some(Report {
        rank,
        ranks,
        outcome: Outcome::Lacks(reason),
    })
}

/// Begins MPI on this thread, runs a program if the contestant has one, and ends MPI.
fn with_mpi<C: Contestant, W: Workload>(
    workload: W,
    workers: usize,
    program: impl FnOnce(W, RawMpi) -> (Vec<Figure>, RawMpi),
) -> Result<Report, MpiError> {
    let mpi = RawMpi::init()?;
    let (rank, ranks) = (mpi.rank(), mpi.size());
    if let Some(refusal) = refusal::<C>(&workload, (rank, ranks), workers) {
        mpi.finalize()?;
        return Ok(refusal);
    }
    let (figures, mpi) = program(workload, mpi);
    mpi.finalize()?;
    Ok(Report {
        rank,
        ranks,
        outcome: Outcome::Figures(figures),
    })
}
