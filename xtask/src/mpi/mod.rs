//! The tests and measures of `compat/warpweft-mpi`: at 1, 2 and 4 ranks, over shared memory and TCP, with the
//! MPI of Debian (through the shim) and one of the standard ABI.
//!
//! What the machine lacks is installed: OpenMPI by `apt-get`, MPICH by `pip` in an environment of Python
//! below the target folder. What cannot be installed is left out, and said so.

mod launchers;

use crate::repo::Repo;
use crate::run::{self, End};
use anyhow::{Context as _, Result, bail, ensure};
use launchers::{Launcher, Path};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Measure instead of testing: latency, overlap, stealing between ranks, beside plain MPI
    #[arg(long)]
    bench: bool,
}

/// The numbers of ranks that the tests run with.
const RANKS: [usize; 3] = [1, 2, 4];
/// A run of one rank takes 3 s here, one of four on two CPUs 40 s. A job that loses a rank must end within
/// 5 s.
const LIMIT: Duration = Duration::from_secs(300);
const LOST_LIMIT: Duration = Duration::from_secs(5);
const DUMPS_TAKE: Duration = Duration::from_secs(3);

/// A measure: its words, the ranks, and the workers of each.
const MEASURES: [(&str, usize, usize); 15] = [
    ("ping-pong", 2, 1),
    ("outstanding", 2, 1),
    ("remote-data", 2, 1),
    ("overlap", 2, 1),
    ("stencil", 2, 1),
    ("calls", 2, 1),
    ("t1", 1, 2),
    ("t1", 2, 1),
    ("t1", 4, 1),
    ("t3", 1, 2),
    ("t3", 2, 1),
    ("t3", 4, 1),
    ("idle", 2, 1),
    ("idle", 4, 1),
    ("drops", 2, 1),
];

pub(crate) fn run(repo: &Repo, options: &Options) -> Result<String> {
    if options.bench { bench(repo) } else { tests(repo) }
}

/// Runs the tests with each MPI that there is. Returns what ran.
pub(crate) fn tests(repo: &Repo) -> Result<String> {
    let mut passed = 0;
    let mut skipped = Vec::new();
    for launcher in launchers::all(repo) {
        let launcher = match launcher {
            Ok(launcher) => launcher,
            Err(reason) => {
                println!("left out: {reason:#}");
                skipped.push(format!("{reason}"));
                continue;
            }
        };
        run::heading(&launcher.name);
        let program = build(repo, &launcher, "--test", false)?;
        for path in &launcher.paths {
            for ranks in RANKS {
                passed += one(repo, &launcher, *path, &program, ranks)?;
            }
        }
        lost(repo, &launcher, &program)?;
        passed += 3;
    }
    // The README and the chapter of the guide are compiled where nothing of MPI is.
    run::run(run::cargo(&repo.root).args(["test", "--doc", "-p", "warpweft-mpi"]))?;
    if passed == 0 {
        return Ok(format!("skipped: {}", skipped.join("; ")));
    }
    Ok(format!("{passed} passed, {} left out", skipped.len()))
}

/// Builds the tests or the measures of the package. Returns the program.
fn build(repo: &Repo, launcher: &Launcher, kind: &str, release: bool) -> Result<PathBuf> {
    let mut command = run::cargo(&repo.root);
    command.args([
        "test",
        "--no-run",
        "--message-format=json",
        "-p",
        "warpweft-mpi",
        kind,
        "ranks",
    ]);
    if release {
        command.arg("--release");
    }
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
    let text = std::fs::read_to_string(&log)?;
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

/// A rank that ends early or is killed ends the job, with a word; a receive that is left is an error.
fn lost(repo: &Repo, launcher: &Launcher, program: &PathBuf) -> Result<()> {
    let log = repo.target.join("mpi.log");
    let path = launcher.paths[0];
    for what in ["end-early", "be-killed"] {
        let mut command = launcher.command(path, 3);
        let (end, took) = run::limited(command.arg(program).arg(what), &log, LOST_LIMIT)?;
        let text = std::fs::read_to_string(&log)?;
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
    let (end, _) = run::limited(command.arg(program).arg("leave-a-receive"), &log, LOST_LIMIT)?;
    ensure!(
        end == End::Success,
        "leave-a-receive: {end:?}\n{}",
        run::tail(&log, 60)
    );
    Ok(())
}

fn bench(repo: &Repo) -> Result<String> {
    let mut count = 0;
    for launcher in launchers::all(repo) {
        let launcher = match launcher {
            Ok(launcher) => launcher,
            Err(reason) => {
                println!("left out: {reason:#}");
                continue;
            }
        };
        let program = build(repo, &launcher, "--bench", true)?;
        let plain = launcher
            .compiler
            .as_ref()
            .map(|compiler| plain(repo, compiler))
            .transpose()?;
        for path in &launcher.paths {
            run::heading(&format!("{}, {path:?}", launcher.name));
            if let Some(plain) = &plain {
                run::run(launcher.command(*path, 2).arg(plain))?;
            }
            for (measure, ranks, workers) in MEASURES {
                let mut command = launcher.command(*path, ranks);
                run::run(command.arg(&program).arg(measure).arg(workers.to_string()))?;
                count += 1;
            }
        }
    }
    ensure!(count > 0, "there is no MPI, and none could be installed");
    Ok(format!("{count} measures"))
}

/// Compiles the peers: plain MPI.
fn plain(repo: &Repo, compiler: &PathBuf) -> Result<PathBuf> {
    let program = repo.target.join("plain-mpi");
    let source = repo.root.join("compat/warpweft-mpi/benches/plain.c");
    run::run(
        Command::new(compiler)
            .arg("-O2")
            .arg("-o")
            .arg(&program)
            .arg(source),
    )?;
    Ok(program)
}
