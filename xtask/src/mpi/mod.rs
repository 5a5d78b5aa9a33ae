//! The tests of `compat/warpweft-mpi` and the measures of `lab/mpi`: at 1, 2 and 4 ranks, over shared memory
//! and TCP, with the MPI of Debian (through the shim) and one of the standard ABI.
//!
//! What the machine lacks is installed: OpenMPI by `apt-get`, MPICH by `pip` in an environment of Python
//! below the target folder. What cannot be installed is left out, and said so.

mod bench;
mod goals;
mod launchers;
mod table;

use crate::repo::Repo;
use crate::run::{self, End};
use anyhow::{Context as _, Result, bail, ensure};
use bench::Plan;
use launchers::{Launcher, Path};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Measure instead of testing: the workloads of `lab/mpi` that have this in their name, or all
    #[arg(long, value_name = "FILTER", num_args = 0..=1, default_missing_value = "")]
    bench: Option<String>,
    /// How often each job runs; the contestants take turns
    #[arg(long, default_value_t = 3, requires = "bench", value_parser = one_at_least)]
    rounds: usize,
    /// Who is measured, as in `warpweft,plain`; all by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "bench")]
    contestants: Vec<String>,
}

fn one_at_least(word: &str) -> Result<usize, String> {
    match word.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(String::from("a number from 1 is needed")),
    }
}

/// The numbers of ranks that the tests run with.
const RANKS: [usize; 3] = [1, 2, 4];
/// What builds the tests.
const TESTS: [&str; 6] = ["test", "--no-run", "-p", "warpweft-mpi", "--test", "ranks"];
/// A run of one rank takes 3 s here, one of four on two CPUs 40 s. A job that loses a rank must end within
/// 5 s.
const LIMIT: Duration = Duration::from_secs(300);
const LOST_LIMIT: Duration = Duration::from_secs(5);
const DUMPS_TAKE: Duration = Duration::from_secs(3);

pub(crate) fn run(repo: &Repo, options: &Options) -> Result<String> {
    let Some(filter) = &options.bench else {
        return tests(repo);
    };
    bench::run(
        repo,
        &Plan {
            filter,
            rounds: options.rounds,
            contestants: &options.contestants,
        },
    )
}

/// Runs the tests with each MPI that there is. Returns what ran.
pub(crate) fn tests(repo: &Repo) -> Result<String> {
    let mut passed = 0;
    let mut is_smoke_done = false;
    let (launchers, skipped) = launchers::all(repo);
    for launcher in launchers {
        run::heading(&launcher.name);
        let program = build(repo, &launcher, &TESTS)?;
        for path in &launcher.paths {
            for ranks in RANKS {
                passed += one(repo, &launcher, *path, &program, ranks)?;
            }
        }
        lost(repo, &launcher, &program)?;
        passed += 4;
        if !is_smoke_done {
            passed += bench::smoke(repo, &launcher)?;
            is_smoke_done = true;
        }
    }
    // The README and the chapter of the guide are compiled where nothing of MPI is.
    run::run(run::cargo(&repo.root).args(["test", "--doc", "-p", "warpweft-mpi"]))?;
    if passed == 0 {
        return Ok(format!("skipped: {}", skipped.join("; ")));
    }
    Ok(format!("{passed} passed, {} left out", skipped.len()))
}

/// Builds the program `ranks` of a package, with the shim if the launcher's MPI needs it. Returns its path.
fn build(repo: &Repo, launcher: &Launcher, arguments: &[&str]) -> Result<PathBuf> {
    let mut command = run::cargo(&repo.root);
    command.args(arguments).arg("--message-format=json");
    if launcher.shim {
        command.args(["--features", "mpicc"]);
    }
    let messages = run::capture(&mut command)?;
    let messages = String::from_utf8_lossy(&messages);
    let mut programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "ranks").then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    programs.next_back().context("cargo names no program")
}

/// Runs all checks. Returns how many passed.
fn one(repo: &Repo, launcher: &Launcher, path: Path, program: &PathBuf, ranks: usize) -> Result<usize> {
    let log = repo.target.join("mpi.log");
    let mut command = launcher.command(path, ranks);
    command.arg(program).env("WARPWEFT_MPI_REQUIRED", "1");
    let (end, took) = run::limited_or(&mut command, &log, LIMIT, ask_for_dumps)?;
    let text = run::read_log(&log)?;
    let count = text
        .lines()
        .filter(|line| line.starts_with("test ") && line.ends_with("... ok"))
        .count();
    let said = text.contains("test result: ok");
    if end != End::Success || !said || count == 0 {
        println!("{}", run::tail(&log, 200));
        bail!("{} over {path:?} with {ranks} ranks: {end:?}", launcher.name);
    }
    println!("{path:?}, {ranks} ranks: {count} passed ({})", run::seconds(took));
    Ok(count)
}

/// Makes every rank of a job write what its tasks wait for. Launchers hand the signal on.
fn ask_for_dumps(job: &Child) -> Result<()> {
    let asked = Command::new("kill")
        .args(["-USR2", &job.id().to_string()])
        .status()?;
    ensure!(asked.success(), "cannot send a signal to {}", job.id());
    thread::sleep(DUMPS_TAKE);
    Ok(())
}

/// A rank that ends early, is killed or cannot begin ends the job, with a word; a receive that is left is an
/// error.
fn lost(repo: &Repo, launcher: &Launcher, program: &PathBuf) -> Result<()> {
    let log = repo.target.join("mpi.log");
    let path = launcher.paths[0];
    for what in ["end-early", "be-killed"] {
        let mut command = launcher.command(path, 3);
        let (end, took) = run::limited(command.arg(program).arg(what), &log, LOST_LIMIT)?;
        let text = run::read_log(&log)?;
        // Some launchers end the other ranks before they can report, and may take the status of the one that
        // ended first for that of the job.
        let is_reported = !launcher.is_patient || text.contains("rank 1 is lost");
        let may_succeed = what == "end-early" && !launcher.is_patient;
        let has_failed = end == End::Failure || may_succeed && end == End::Success;
        ensure!(
            has_failed && is_reported,
            "{what}: {end:?}\n{}",
            run::tail(&log, 60)
        );
        println!("{what}: the job ended ({})", run::seconds(took));
    }
    let mut command = launcher.command(path, 2);
    let (end, _) = run::limited(command.arg(program).arg("cannot-meet"), &log, LOST_LIMIT)?;
    let why = "cannot begin: the ranks cannot meet";
    ensure!(
        end == End::Failure && run::read_log(&log)?.contains(why),
        "cannot-meet: {end:?}\n{}",
        run::tail(&log, 60)
    );
    let mut command = launcher.command(path, 2);
    let (end, _) = run::limited(command.arg(program).arg("leave-a-receive"), &log, LOST_LIMIT)?;
    ensure!(
        end == End::Success,
        "leave-a-receive: {end:?}\n{}",
        run::tail(&log, 60)
    );
    Ok(())
}
