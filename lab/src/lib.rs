#![forbid(unsafe_code)]
// The build for the simulator has one contestant only.
#![cfg_attr(warpweft_sim, allow(dead_code, unused_imports, unused_macros))]
//! The laboratory: workloads × runtimes × policies, behind the command `warpweft`.
//!
//! ```text
//!  workloads/  a file each: what it is, which idioms it is written in, how its result is checked
//!  idioms/     what a workload asks of a runtime
//!  peers/      a file each: a runtime, and what the idioms are called there
//!  kit/        what several workloads share
//!  program     a workload's trait; `registered` joins it with the contestants for the harness
//!  harness/    a crate that knows neither: processes, rounds, statistics, tables, pages, the command line
//! ```
//!
//! A workload registers itself by being a file in its folder; so does a runtime. The build script lists both.

#[cfg(not(warpweft_sim))]
mod calibrate;
pub mod comparisons;
pub mod guards;
pub mod idioms;
pub mod kit;
pub mod peers;
pub mod program;
pub mod published;
mod registered;
pub mod results;
mod simulator;
pub mod workloads;

use harness::{Lab, Workload};

pub use harness;
pub use registered::registered;

/// The names that the file of a workload needs: `use warpweft_lab::prelude::*`.
pub mod prelude {
    pub use harness::{
        About, Asked, Caveat, FileFlag, Files, LabError, Outcome, Param, Params, Request, Variant, params,
        variants,
    };

    pub use crate::idioms::channels::{Actors, Channels, Promises, Sleeps, Store, Unit};
    pub use crate::idioms::forks::{Branch, Fork, ForkPool, ScopePool};
    pub use crate::idioms::loops::{LoopPool, Loops, Piece};
    pub use crate::idioms::mixed::{Mixed, MixedPool, Wire};
    pub use crate::idioms::parks::{ParkSlot, Parks};
    pub use crate::idioms::remote::{Remote, RemotePool};
    pub use crate::idioms::{HttpPool, Idiom, JobApi, JobPool, JoinApi, Part, SpawnApi, TaskPool};
    pub use crate::kit::check::{base, check, inside, inside_job};
    pub use crate::kit::choices::*;
    pub use crate::program::{Parts, Program};
}

/// The laboratory, with further workloads if there are any.
pub fn lab(further: impl IntoIterator<Item = &'static dyn Workload>) -> Lab {
    let mut workloads = workloads::all();
    workloads.extend(further);
    let lab = Lab {
        name: "warpweft",
        workloads,
        peers: peers::all(),
        usual: "pcap",
        comparisons: comparisons::LINES,
        guards: guards::SETS,
        results: results::MEASUREMENTS,
        allocator: ALLOCATED_BY,
        lock: include_str!(concat!(env!("OUT_DIR"), "/Cargo.lock")),
        simulator: simulator::SIMULATOR,
    };
    lab.sorted()
}

/// One allocator for every Rust contestant: it is as large an effect as the runtime.
#[cfg(all(feature = "mimalloc", not(feature = "system-alloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The package of the allocator; none if it is the system's.
const ALLOCATED_BY: Option<&str> = if cfg!(all(feature = "mimalloc", not(feature = "system-alloc"))) {
    Some("mimalloc")
} else {
    None
};
