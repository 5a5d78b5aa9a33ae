//! Every check of the project as a command that a person can run: `cargo xtask --help`.
//!
//! ```text
//!  main       the commands              repo     where things are: packages, targets, files
//!  check      fmt, clippy, features     rules/   house rules: lengths, doors, imports, links
//!  models     loom, shuttle, simulator  run      child processes, logs, time limits
//!  mutants    bugs that must be found   source   Rust files as syntax trees
//!  anchors    places in the code, by the names of items
//!  asm        the worker loop, checks   size     the inventory of `unsafe`
//!  graph/     imports, circles          rooms    the import graph as text
//!  text       code, strings, comments   tests_index  the index of the tests
//!  adversary  hostile programs under sanitizers
//!  targets    the library on other systems, compiled
//!  rayon      rayon's tests and programs on our rayon-core
//!  tokio      crates of tokio's ecosystem on our workers
//!  trials     `warpweft try` with programs on rayon, axum and fibers
//!  mpi        ranks of MPI, launched by each MPI that there is
//!  perfetto   trace files, read by Perfetto's own schema
//!  observe    what the recorder, a trace and a dump cost
//!  publish    the packages, and the oldest compiler that builds them
//!  counts     tests that passed and failed
//!  turns      contestants that run by turns, and quartiles
//!  ci, deep   all of it, short and long
//! ```
#![forbid(unsafe_code)]

mod adversary;
mod anchors;
mod asm;
mod background;
mod check;
mod ci;
mod counts;
mod deep;
mod ecosystem;
mod graph;
mod models;
mod mpi;
mod mutants;
mod observe;
mod perfetto;
mod publish;
mod rayon;
mod repo;
mod rooms;
mod rules;
mod run;
mod size;
mod source;
mod targets;
mod tests_index;
mod text;
mod trials;
mod turns;

use clap::{Parser, Subcommand};
use models::Checker;
use repo::Repo;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Every check of the project as a command.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The tree to check; without it the one of the current folder.
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Format, clippy, each feature alone, documentation and house rules: seconds once all is compiled.
    Check,
    /// Explore the loom models (`tests/loom_*.rs`): all interleavings and weak-memory outcomes, within their
    /// bounds.
    ///
    /// `LOOM_MAX_PREEMPTIONS` overrides the bounds.
    Loom(models::Options),
    /// Run the shuttle models (`tests/shuttle_*.rs`): seeded random schedules.
    ///
    /// `WARPWEFT_SHUTTLE_ITERATIONS` overrides the number of schedules.
    Shuttle(models::Options),
    /// Run whole runtimes on a simulated machine (`tests/sim_*.rs`).
    Sim(models::Options),
    /// Run a workload on a simulated machine: builds `warpweft` for the simulator, and starts its `simulate`.
    #[command(disable_help_flag = true)]
    Simulate {
        /// Its arguments: `packet --machine epyc-7702x2 --workers 1,20,115 --policy fifo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Put each bug of `mutants/*.toml` into a copy of the tree and demand that its test finds it.
    #[command(after_long_help = mutants::HELP)]
    Mutants(mutants::Options),
    /// Count the instructions and the indirect calls of the worker loops, and of checks, in a release build.
    Asm(asm::Options),
    /// Check the house rules: lengths and widths, retired words, the one door to std and the checkers,
    /// directions and circles of imports, links, names of files in documents, mutants, the index of tests.
    Rules,
    /// Print the import graph of a crate: its rooms, its floors, its circles, and the arrows that close them.
    Rooms(rooms::Options),
    /// Print the inventory of `unsafe`: blocks, functions, impls and traits, by crate and file.
    Size,
    /// Build the package of each crate that may be published, and compile it from there.
    Package,
    /// Check the published crates with the oldest compiler that they promise; without that toolchain, say so.
    Msrv,
    /// Compile the library for other systems; a target that cannot be installed is named as skipped.
    Targets,
    /// Run rayon's own tests and rayon-core's on `compat/rayon-core`, the programs of its incidents, and
    /// compare programs with the original.
    Rayon(rayon::Options),
    /// Run unmodified crates of tokio's ecosystem on our workers, `compat/ecosystem`, or compare servers
    /// under load.
    Tokio(ecosystem::Options),
    /// Test `compat/warpweft-mpi` with 1, 2 and 4 ranks, or measure it beside its peers. Installs MPI if
    /// there is none.
    Mpi(mpi::Options),
    /// Read a trace of the flight recorder by Perfetto's own schema, which pip installs below the target
    /// folder; without a network, say so.
    Perfetto,
    /// Run `warpweft try` with programs that use rayon by our crate, axum and fibers: each gets a table and
    /// advice.
    Try(trials::Options),
    /// Measure what it costs to see the scheduler: rare events and steps of the flight recorder, a trace, a
    /// dump of many tasks.
    Observe(observe::Options),
    /// Write `docs/TESTS.md`: the tests by feature, what they test, and which mutants they find.
    TestsIndex,
    /// The long explorations: deeper loom and shuttle, stress with random delays, sanitizers, rayon's tests,
    /// all mutants.
    ///
    /// `--only asan` and the like run one of them.
    Deep(deep::Options),
    /// All checks of continuous integration, with real counts at the end.
    Ci,
}

fn main() -> ExitCode {
    let Cli { command, root } = Cli::parse();
    match start(command, root.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(command: Command, root: Option<&Path>) -> anyhow::Result<()> {
    let repo = Repo::open(root)?;
    match command {
        Command::Check => check::all(&repo),
        Command::Loom(options) => models::run(&repo, Checker::Loom, &options)?.verdict(),
        Command::Shuttle(options) => models::run(&repo, Checker::Shuttle, &options)?.verdict(),
        Command::Sim(options) => models::run(&repo, Checker::Sim, &options)?.verdict(),
        Command::Simulate { arguments } => models::simulate(&repo, &arguments),
        Command::Mutants(options) => mutants::run(&repo, &options)?.verdict(),
        Command::Asm(options) => asm::run(&repo, &options),
        Command::Rules => rules::run(&repo),
        Command::Rooms(options) => rooms::run(&repo, &options),
        Command::TestsIndex => tests_index::write(&repo),
        Command::Size => size::run(&repo),
        Command::Package => publish::package(&repo).map(|count| println!("{count}")),
        Command::Msrv => publish::msrv(&repo).map(|outcome| println!("{outcome}")),
        Command::Targets => targets::run(&repo).map(|outcome| println!("{outcome}")),
        Command::Rayon(options) => rayon::run(&repo, &options).map(|outcome| println!("{outcome}")),
        Command::Tokio(options) => ecosystem::run(&repo, &options).map(|outcome| println!("{outcome}")),
        Command::Mpi(options) => mpi::run(&repo, &options).map(|outcome| println!("{outcome}")),
        Command::Perfetto => perfetto::run(&repo).map(|outcome| println!("{outcome}")),
        Command::Try(options) => trials::run(&repo, &options).map(|outcome| println!("{outcome}")),
        Command::Observe(options) => observe::run(&repo, &options),
        Command::Deep(options) => deep::run(&repo, &options),
        Command::Ci => ci::run(&repo),
    }
}
