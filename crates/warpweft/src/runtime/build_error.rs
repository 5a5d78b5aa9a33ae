//! The error of building a runtime.

use crate::admission::settings::QueueDelayError;
use crate::threads::affinity::PinError;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use warpweft_platform::thread::available_cpus;
use warpweft_policy::{ParsePolicyError, PolicyError};

/// The reason why a runtime was not built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of workers is out of range.
    Workers {
        /// The number that was requested.
        asked: usize,
        /// The largest number allowed.
        most: usize,
    },
    /// The size of the fibers' stacks is out of range.
    FiberStack {
        /// The size that was requested, in bytes.
        asked: usize,
        /// The smallest size allowed, in bytes.
        least: usize,
        /// The largest size allowed, in bytes.
        most: usize,
    },
    /// The pool begins with more workers than it may have.
    MaxWorkers {
        /// The number of workers.
        first: usize,
        /// The largest number that was requested.
        most: usize,
    },
    /// The size of the threads' stacks is too small.
    Stack {
        /// The size that was requested, in bytes.
        asked: usize,
        /// The smallest size allowed, in bytes.
        least: usize,
    },
    /// The quantum of cooperative code is out of range.
    Quantum {
        /// The number of statements that was requested.
        asked: u32,
        /// The largest number allowed.
        most: u32,
    },
    /// The policy cannot be built.
    Policy(PolicyError),
    /// The policy made a wrong number of local states.
    Locals {
        /// The number of local states that the policy made.
        made: usize,
        /// The number of workers.
        workers: usize,
        /// The number of compensating workers, each of which needs a local state, too.
        compensating: usize,
    },
    /// The system did not start a thread.
    Thread {
        /// The worker whose thread is missing, from 0.
        worker: usize,
        /// The number of workers that was requested.
        workers: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The system did not start the temporary thread on which a fiber's call builds the runtime.
    Build {
        /// The system's error.
        source: io::Error,
    },
    /// The workers cannot be pinned as requested.
    Pin(PinError),
    /// The system did not start the monitor's thread.
    Monitor {
        /// The system's error.
        source: io::Error,
    },
    /// The file of [`record_on_stall`](crate::Builder::record_on_stall) cannot be written.
    Record {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is a default runtime already.
    DefaultExists,
    /// The pool's capacity is 0.
    Capacity,
    /// The delay of [`admission`](crate::Builder::admission) cannot be kept.
    Admission(QueueDelayError),
    /// Two pools of a runtime, or two groups of silos, have the same name.
    SameName {
        /// The name.
        name: String,
    },
    /// A group of silos is empty.
    NoSilos {
        /// The name of the group.
        silos: String,
    },
    /// An environment variable that replaces a default has a text that means nothing. See
    /// [`Builder`](crate::Builder#environment).
    Environment {
        /// The name of the variable.
        variable: &'static str,
        /// Its text.
        text: OsString,
        /// What is wrong with it.
        error: EnvironmentError,
    },
    /// One of several pools was not built.
    Pool {
        /// The name of the pool.
        name: String,
        /// Its error.
        error: Box<BuildError>,
    },
}

/// What is wrong with the text of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// It is not Unicode.
    NotUnicode,
    /// It is not a number of workers.
    Workers {
        /// The largest number allowed.
        most: usize,
    },
    /// It is not a policy, or this build lacks the feature for it.
    Policy(ParsePolicyError),
    /// It is neither `0` nor `1`.
    Switch,
    /// It names no file that can be written.
    File(io::ErrorKind),
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnicode => f.write_str("which is not Unicode"),
            Self::Workers { most } => write!(
                f,
                "which is no number of workers: a pool may have 1 to {most} (this process may use {} CPUs)",
                available_cpus()
            ),
            Self::Policy(error) => write!(f, "which is no policy of this build: {error}"),
            Self::Switch => f.write_str("which is neither 0 nor 1"),
            Self::File(io::ErrorKind::NotFound) => {
                f.write_str("which is no file that can be written: its folder does not exist")
            }
            Self::File(kind) => write!(f, "which is no file that can be written: {kind}"),
        }
    }
}

impl std::error::Error for EnvironmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Policy(error) => Some(error),
            Self::NotUnicode | Self::Workers { .. } | Self::Switch | Self::File(_) => None,
        }
    }
}

impl BuildError {
    /// The same as the error of a socket operation. Its kind is never the system's: `WouldBlock` would ask
    /// the caller to try again later.
    pub(crate) fn into_io(self) -> io::Error {
        io::Error::other(format!("the default runtime: {self}"))
    }
}

/// Returns what helps where the system has no more threads.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        // The name is wrong.
        io::ErrorKind::InvalidInput => "",
        _ => "; ask for fewer workers or a smaller stack",
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxWorkers { first, most } => write!(
                f,
                "{first} workers and `max_workers({most})`: the largest number is {first} or more"
            ),
            Self::Workers { asked, most } => {
                write!(
                    f,
                    "a pool of {asked} workers: it may have 1 to {most} (this process may use {} CPUs)",
                    available_cpus()
                )
            }
            Self::FiberStack { asked, least, most } => {
                write!(
                    f,
                    "fibers with stacks of {asked} bytes: they may have {least} to {most}"
                )
            }
            Self::Stack { asked, least } => {
                write!(f, "threads with stacks of {asked} bytes: they may have {least} or more")
            }
            Self::Quantum { asked, most } => {
                write!(f, "a quantum of {asked} statements: it may have 1 to {most}")
            }
            Self::Policy(error) => error.fmt(f),
            Self::Locals {
                made,
                workers,
                compensating,
            } => {
                write!(
                    f,
                    "the policy made {made} local states for {workers} workers and {compensating} compensating workers: `build` makes one for each, \
                     `PoolEnv::workers` in all"
                )
            }
            Self::Thread {
                worker,
                workers,
                source,
            } => {
                write!(
                    f,
                    "no thread for worker {worker} of {workers}: {source}{}",
                    advice(source)
                )
            }
            Self::Build { source } => {
                write!(
                    f,
                    "no thread to build a runtime on: {source}; on a thread's own stack none is needed"
                )
            }
            Self::Pin(error) => error.fmt(f),
            Self::Monitor { source } => {
                write!(
                    f,
                    "no thread for the monitor: {source}; it may be switched off by `stuck_after(None)`"
                )
            }
            Self::Record { path, source } => write!(
                f,
                "the flight recorder cannot be written to `{}` when a stall is reported: {source}",
                path.display()
            ),
            Self::DefaultExists => {
                f.write_str("there is a default runtime already: build it before its first use, and once")
            }
            Self::Capacity => f.write_str(
                "a pool that is bounded to 0 tasks: nothing could enter it; it may have 1 or more, or no bound",
            ),
            Self::Admission(error) => error.fmt(f),
            Self::SameName { name } => write!(
                f,
                "two pools of one runtime are called `{name}`: each is found by its name, so give them different ones"
            ),
            Self::NoSilos { silos } => write!(f, "0 silos called `{silos}`: there must be 1 at least"),
            Self::Environment {
                variable,
                text,
                error,
            } => write!(
                f,
                "the environment variable {variable} is `{}`, {error}; without the variable it is the default",
                text.display()
            ),
            Self::Pool { name, error } => write!(f, "pool `{name}`: {error}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Policy(error) => Some(error),
            Self::Pin(error) => Some(error),
            Self::Admission(error) => Some(error),
            Self::Environment { error, .. } => Some(error),
            Self::Pool { error, .. } => Some(&**error),
            Self::Thread { source, .. }
            | Self::Build { source }
            | Self::Monitor { source }
            | Self::Record { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Checks that each pool of a runtime has a different name.
///
/// # Errors
///
/// Two names are equal.
pub(crate) fn unique<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), BuildError> {
    // No hash set: a simulated run is not to depend on a random state.
    let mut seen = Vec::new();
    for name in names {
        match seen.binary_search(&name) {
            Err(place) => seen.insert(place, name),
            Ok(_) => return Err(BuildError::SameName { name: name.clone() }),
        }
    }
    Ok(())
}
