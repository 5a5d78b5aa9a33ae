#![forbid(unsafe_code)]
//! The `warpweft` command: workloads × runtimes × policies.
//!
//! ```text
//!  cli        what was asked            ──▶ bench, explore, compare, list
//!  workloads  programs, written once per idiom, that check their results
//!  peers      the runtimes behind one narrow boundary
//!  harness    one run in a process of its own; rounds, probes, statistics
//!  explore    frontier and advice       report  the HTML page
//! ```

mod bench;
mod cli;
mod compare;
mod error;
mod explore;
mod harness;
mod list;
mod output;
mod peers;
mod progress;
mod report;
mod text;
mod workloads;

use std::process::ExitCode;

/// One allocator for every Rust contestant: it is as large an effect as the runtime.
#[cfg(all(feature = "mimalloc", not(feature = "system-alloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::run() {
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
