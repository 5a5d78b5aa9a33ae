//! What every plan needs around its run: time zero, the warm-up, the counters, the check of the result.

use std::time::Instant;

use crate::error::LabError;
use crate::harness::record::{Counters, Outcome};

/// A program in an idiom in which it is not written. `refusal` keeps it from coming to this.
pub(super) fn not_for(idiom: &str) -> LabError {
    LabError::Usage(format!("this workload is not written for {idiom}"))
}

/// Warms up, then measures, and counts over the measured part.
pub(super) fn measured(
    counters: impl Fn() -> Option<Counters>,
    warm_up: impl FnOnce() -> Result<Outcome, LabError>,
    run: impl FnOnce() -> Result<Outcome, LabError>,
) -> Result<Outcome, LabError> {
    warm_up()?;
    let before = counters().unwrap_or_default();
    let mut outcome = run()?;
    outcome.counters = counters().map(|after| after.since(&before));
    Ok(outcome)
}

/// Fails unless what was counted is what was expected.
pub(super) fn check<T: PartialEq + std::fmt::Debug>(
    what: &str,
    counted: &T,
    expected: &T,
) -> Result<(), LabError> {
    if counted == expected {
        return Ok(());
    }
    Err(LabError::Wrong(format!(
        "{what}: {counted:?} counted, {expected:?} expected"
    )))
}

/// The time zero of a run's lanes.
pub(super) fn base() -> Instant {
    Instant::now()
}
