//! The defaults of a builder that the environment may replace.
//!
//! | variable | replaces the default of |
//! |---|---|
//! | `WARPWEFT_WORKERS` | [`Builder::workers`](crate::Builder::workers) |
//! | `WARPWEFT_POLICY` | [`Builder::policy`](crate::Builder::policy) and `policy_spec` |
//!
//! `WARPWEFT_STATS` and `WARPWEFT_MEASURE_STEPS` replace nothing: see `stats`.
//!
//! # Invariant
//!
//! A variable that replaces a value is read only for a pool for which the program has not set the value
//! itself. So what a program sets does not depend on its environment.

use super::build_error::{BuildError, EnvironmentError};
use super::config::{Config, Launch};
use crate::pool::info::SettingSource;
use crate::pool::size::MOST_WORKERS;
use std::fmt;
use std::fs::File;
use warpweft_policy::PolicySpec;

const WORKERS: &str = "WARPWEFT_WORKERS";
const POLICY: &str = "WARPWEFT_POLICY";
const STATS: &str = "WARPWEFT_STATS";
const MEASURE: &str = "WARPWEFT_MEASURE_STEPS";

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
    if config.sources.workers == SettingSource::Default
        && let Some(workers) = workers()?
    {
        config.workers = Some(workers);
        config.sources.workers = SettingSource::Environment(WORKERS);
    }
    Ok(())
}

/// Returns what starts the pool: as the program has set it, or with the policy that the environment names, or
/// with the program's default, or by `usual` with that of every pool.
///
/// # Errors
///
/// The variable has a text that means no policy.
pub(crate) fn complete_policy(
    config: &mut Config,
    launch: Option<Box<Launch>>,
    usual: impl FnOnce(PolicySpec) -> Box<Launch>,
) -> Result<Box<Launch>, BuildError> {
    if config.sources.policy == SettingSource::Default
        && let Some(spec) = policy()?
    {
        config.sources.policy = SettingSource::Environment(POLICY);
        return Ok(usual(spec));
    }
    Ok(launch.unwrap_or_else(|| usual(PolicySpec::default())))
}

/// Opens the file to which the figures of the runtime will be appended. `None` if none is wanted.
///
/// # Errors
///
/// The file cannot be made, or not be written.
pub(crate) fn stats_file() -> Result<Option<File>, BuildError> {
    let Some(text) = std::env::var_os(STATS) else {
        return Ok(None);
    };
    let file = File::options().append(true).create(true).open(&text);
    file.map(Some).map_err(|error| BuildError::Environment {
        variable: STATS,
        text,
        error: EnvironmentError::File(error.kind()),
    })
}

/// Returns true if the runtime is to measure its steps from the beginning.
///
/// # Errors
///
/// The variable has another text than `0` or `1`.
pub(crate) fn measures_steps() -> Result<bool, BuildError> {
    let measures = read(MEASURE, |text| match text.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(EnvironmentError::Switch),
    })?;
    Ok(measures.unwrap_or(false))
}

/// What a builder would use for a value that the environment may replace, as text.
pub(crate) struct Unset {
    variable: &'static str,
    /// The program's default, if it has set one.
    default: Option<String>,
}

impl Unset {
    pub(crate) fn workers(default: Option<usize>) -> Self {
        Self {
            variable: WORKERS,
            default: default.map(|workers| workers.to_string()),
        }
    }

    pub(crate) fn policy(default: Option<&str>) -> Self {
        Self {
            variable: POLICY,
            default: default.map(str::to_owned),
        }
    }
}

impl fmt::Display for Unset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = SettingSource::Default;
        match (std::env::var_os(self.variable), &self.default) {
            (Some(text), _) => write!(
                f,
                "{} ({})",
                text.display(),
                SettingSource::Environment(self.variable)
            ),
            (None, Some(text)) => write!(f, "{text} ({default})"),
            (None, None) => write!(f, "({default})"),
        }
    }
}
