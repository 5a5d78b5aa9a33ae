//! Workloads on simulated machines: a table, or a line of JSON for each run.
//!
//! The library must be built for the simulator: `cargo xtask simulate` does so, and runs this program.
#![forbid(unsafe_code)]

mod arguments;
#[cfg(warpweft_sim)]
mod call;
#[cfg(warpweft_sim)]
mod figures;
#[cfg(warpweft_sim)]
mod fork;
#[cfg(warpweft_sim)]
mod packet;
#[cfg(warpweft_sim)]
mod ring;
#[cfg(warpweft_sim)]
mod runs;

use arguments::Arguments;
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(warpweft_sim)]
fn run(arguments: &Arguments) -> Result<(), String> {
    runs::all(arguments)
}

#[cfg(not(warpweft_sim))]
fn run(arguments: &Arguments) -> Result<(), String> {
    Err(format!(
        "this program was built for this machine and not for the simulator, so it cannot run {:?}: use \
         `cargo xtask simulate`, or build with RUSTFLAGS=\"--cfg warpweft_sim\"",
        arguments.workload
    ))
}
