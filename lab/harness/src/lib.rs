#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

// The floors, from the top; a file imports from lower ones only. `xtask/rooms.toml` holds the whole list.
//
//  cli        reads the command line
//  commands   bench, compare, explore, list, results, simulate, try_command: each with its arguments
//  pages      report; args, which turns shared arguments into jobs
//  figures    against, measured, table, frontier, summary
//  runs       trial, session, isolate, progress
//  traits     lab, workload
//  data       record, simulation, params, plan, machine, stats, latency, text, output, probe, error

mod against;
mod args;
mod bench;
mod budget;
mod cli;
mod compare;
mod error;
mod explore;
mod frontier;
mod interrupt;
mod isolate;
mod lab;
mod latency;
mod list;
mod machine;
mod measured;
mod output;
mod params;
mod plan;
mod probe;
mod progress;
mod record;
mod report;
mod results;
mod session;
mod simulate;
mod simulation;
mod stats;
mod summary;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod trace;
mod trial;
mod try_command;
mod workload;

use std::process::ExitCode;

pub use error::{LabError, corrected};
pub use lab::{Chosen, Lab, MOST_WORKERS, Simulator};
pub use latency::{BUCKETS, Latency, add_bucket, bucket_of, empty_histogram, middle_of};
pub use machine::{Usage, cpus, process_cpu, resident_bytes};
pub use output::Pending;
pub use params::{Domain, Param, Params, Value, Variant};
pub use plan::{Better, Comparison, Figure, Guard, GuardSet, Measurement, Published};
pub use probe::line_round_trip;
pub use record::{Counters, Outcome};
pub use session::{Cell, Job, SessionLimits};
pub use simulation::{
    ContendedField, ContendedLine, HookWait, OwnedLine, Simulated, SimulatedMachine, Simulation,
};
pub use trace::{Begins, RecordedPush, RecordedStep, RecordedTask, recorded_tasks};
pub use trial::{BucketCounts, Delays, Plan, Quantiles, Ran, Setting, Trial, Tried, usual_workers};
pub use workload::{
    About, Asked, Caveat, FileFlag, Files, Peer, PeerInfo, Policies, Request, Variables, Workload,
};

impl Lab {
    /// Runs the command line of this process: explores, benchmarks, compares, measures results or lists.
    pub fn main(&self) -> ExitCode {
        match cli::run(self) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
            Err(error) => {
                // Nothing can be done if standard error is closed too.
                drop(std::io::Write::write_fmt(
                    &mut std::io::stderr(),
                    format_args!("error: {error}\n"),
                ));
                ExitCode::from(error.exit_code())
            }
        }
    }

    /// Returns the jobs of a command line without running them: `lab.plan("bench packet n=10")`.
    ///
    /// # Errors
    ///
    /// The line is wrong, or names nothing that can run.
    pub fn plan(&self, line: &str) -> Result<Vec<Job>, LabError> {
        cli::plan(self, line)
    }
}
