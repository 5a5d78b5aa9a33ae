//! A run on a simulated machine, as data: what is asked for, and what such a run tells besides its figures.

use serde::{Deserialize, Serialize};

/// The simulated machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulation {
    /// A machine that is built in, or a file.
    pub machine: String,
    /// Changed costs: `same_socket=60`.
    pub set: Vec<String>,
    /// The seed of the run.
    pub seed: u64,
    /// The number of contended lines that are told.
    pub lines: usize,
    /// True if the arrivals of these lines are told.
    pub owners: bool,
}

/// A simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedMachine {
    /// Its name.
    pub name: String,
    /// Its hardware threads.
    pub cpus: usize,
}

/// What a simulated run tells besides its figures. All of it is simulated, but `host_seconds`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// The name of the machine.
    pub machine: String,
    /// The changed costs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// The virtual time of the whole run.
    pub virtual_ms: f64,
    /// Accesses to memory that the model has seen.
    pub accesses: u64,
    /// Those that waited for another core or for memory.
    pub misses: u64,
    /// How long they waited, over all threads.
    pub wait_ms: f64,
    /// How often a thread woke another one.
    pub wakes: u64,
    /// The hash of all steps: equal runs have equal ones.
    pub log_hash: String,
    /// How long the simulation took on this machine.
    pub host_seconds: f64,
    /// The lines that were waited for the longest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<ContendedLine>,
    /// How long each hook of the policy waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookWait>,
    /// Which core had those lines when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<OwnedLine>,
}

/// A cache line that threads waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContendedLine {
    /// How long, over all threads.
    pub wait_us: f64,
    /// How often.
    pub misses: u64,
    /// The fields in it, the most contended first.
    pub fields: Vec<ContendedField>,
}

/// A field of a line, by a place in the source that accesses it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContendedField {
    /// Structure and field.
    pub name: String,
    /// The byte of the line.
    pub offset: usize,
    /// File and line of the access.
    pub place: String,
    /// How long it was waited for there.
    pub wait_us: f64,
    /// How often.
    pub misses: u64,
}

/// A hook of the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HookWait {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub calls: u64,
    /// How long it took over all threads.
    pub time_us: f64,
    /// How much of that its accesses waited for lines.
    pub wait_us: f64,
}

/// The arrivals of a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnedLine {
    /// Structure and field.
    pub name: String,
    /// Nanoseconds, the core, and if it has the line alone.
    pub arrivals: Vec<(u64, usize, bool)>,
}
