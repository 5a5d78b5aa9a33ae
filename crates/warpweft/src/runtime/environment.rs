//! The defaults of a builder that the environment may replace.
//!
//! | variable | replaces the default of |
//! |---|---|
//! | `WARPWEFT_WORKERS` | [`Builder::workers`](crate::Builder::workers) |
//! | `WARPWEFT_POLICY` | [`Builder::policy`](crate::Builder::policy) and `policy_spec` |
//!
//! # Invariant
//!
//! A variable is read only for a pool for which the program has not set the value itself. So a program that
//! sets everything does not depend on its environment.

use super::build_error::{BuildError, EnvironmentError};
use super::config::{Config, Launch, MOST_WORKERS};
use crate::pool::info::Source;
use std::fmt;
use warpweft_policy::PolicySpec;

const WORKERS: &str = "WARPWEFT_WORKERS";
const POLICY: &str = "WARPWEFT_POLICY";

/// Reads a variable, by `parse`. `None` if it is not set.
fn read<T>(
    variable: &'static str,
    parse: impl FnOnce(&str) -> Result<T, EnvironmentError>,
) -> Result<Option<T>, BuildError> {
    let Some(text) = std::env::var_os(variable) else {
        return Ok(None);
    };
    let value = text.to_str().ok_or(EnvironmentError::NotUnicode).and_then(parse);
    value.map(Some).map_err(|error| BuildError::Environment {
        variable,
        text,
        error,
    })
}

fn workers() -> Result<Option<usize>, BuildError> {
    read(WORKERS, |text| {
        let workers = text.trim().parse().ok();
        workers
            .filter(|workers| (1..=MOST_WORKERS).contains(workers))
            .ok_or(EnvironmentError::Workers { most: MOST_WORKERS })
    })
}

fn policy() -> Result<Option<PolicySpec>, BuildError> {
    read(POLICY, |text| text.parse().map_err(EnvironmentError::Policy))
}

/// Sets the number of workers from the environment, unless the program has set it.
///
/// # Errors
///
/// The variable has a text that means no number of workers.
pub(crate) fn complete_workers(config: &mut Config) -> Result<(), BuildError> {
    if config.workers.is_some() {
        config.sources.workers = Source::Program;
    } else if let Some(workers) = workers()? {
        config.workers = Some(workers);
        config.sources.workers = Source::Environment(WORKERS);
    }
    Ok(())
}

/// Returns what starts the pool: as the program has set it, or with the policy that the environment names, or
/// by `usual` with the default policy.
///
/// # Errors
///
/// The variable has a text that means no policy.
pub(crate) fn complete_policy(
    config: &mut Config,
    launch: Option<Box<Launch>>,
    usual: impl FnOnce(PolicySpec) -> Box<Launch>,
) -> Result<Box<Launch>, BuildError> {
    if let Some(launch) = launch {
        config.sources.policy = Source::Program;
        return Ok(launch);
    }
    let spec = policy()?;
    if spec.is_some() {
        config.sources.policy = Source::Environment(POLICY);
    }
    Ok(usual(spec.unwrap_or_default()))
}

/// What a builder would use for a value that the program has not set, as text.
pub(crate) struct Unset(&'static str);

impl Unset {
    pub(crate) const WORKERS: Self = Self(WORKERS);
    pub(crate) const POLICY: Self = Self(POLICY);
}

impl fmt::Display for Unset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::env::var_os(self.0) {
            Some(text) => write!(f, "{} ({})", text.display(), Source::Environment(self.0)),
            None => write!(f, "({})", Source::Default),
        }
    }
}
