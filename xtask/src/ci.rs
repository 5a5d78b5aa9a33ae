//! All checks of continuous integration, each also when one before it failed, and real counts at the end.
//!
//! ```text
//!   tests ────────────────────────────────▶ models ─▶ mutants ─▶ smoke ─▶ asm ─▶ summary
//!   checks, at the lowest priority ────────▶┘
//! ```
//!
//! Tests wait a lot. What only compiles takes the CPUs meanwhile: a second process of this program, with its
//! output in a file.

use crate::counts::Tests;
use crate::models::{self, Checker};
use crate::repo::Repo;
use crate::{asm, check, ecosystem, mpi, mutants, perfetto, publish, rayon, rules, run, targets};
use anyhow::{Context as _, Result, ensure};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// How many of the mutants are tried each time.
const MUTANTS: usize = 4;

/// The number of the checks that run no tests.
const CHECKS: usize = 8;
/// Begins the list of the checks that failed.
const FAILED: &str = "what failed";
/// Begins the list of all checks.
const SUMMARY: &str = "summary";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Only the checks that run no tests. Without it they run beside the tests.
    #[arg(long)]
    only_checks: bool,
}

/// What the checks came to so far.
#[derive(Default)]
struct Report {
    summary: Vec<String>,
    failed: Vec<String>,
    /// The output is long and may be read in part: so its end says all of it again that matters.
    again: Vec<String>,
}

impl Report {
    /// Runs a check, which returns its count and its result.
    fn step(&mut self, name: &str, work: impl FnOnce() -> (String, Result<()>)) {
        run::heading(name);
        let (start, used) = (Instant::now(), run::children_seconds());
        let (count, result) = work();
        if let Err(error) = &result {
            println!("{error:#}");
            self.failed.push(name.to_owned());
            self.again.push(format!("{name}: {error:#}"));
        }
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        let used = run::children_seconds()
            .zip(used)
            .map_or_else(String::new, |(after, before)| {
                format!("{:.0} s of CPU", after - before)
            });
        self.summary.push(format!(
            "{name:14} {verdict:7} {:>10} {used:>14}  {count}",
            run::seconds(start.elapsed())
        ));
    }

    /// The same for checks that return their count.
    fn counted(&mut self, name: &str, work: impl FnOnce() -> Result<String>) {
        self.step(name, || match work() {
            Ok(count) => (count, Ok(())),
            Err(error) => (String::new(), Err(error)),
        });
    }

    /// Prints what each check came to.
    fn end(self) -> Result<()> {
        if !self.again.is_empty() {
            run::heading(FAILED);
            self.again.iter().for_each(|text| println!("{text}"));
        }
        run::heading(SUMMARY);
        self.summary.iter().for_each(|line| println!("{line}"));
        run::complain("of the checks failed", &self.failed)
    }
}

/// Runs the checks and prints what each came to.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<()> {
    let mut report = Report::default();
    if options.only_checks {
        checks(repo, &mut report);
        return report.end();
    }
    let beside = Beside::start(repo);
    report.step("tests", || {
        let mut tests = Tests::default();
        let result = test(repo, &mut tests);
        (
            format!(
                "{} passed, {} failed, {} ignored",
                tests.passed, tests.failed, tests.ignored
            ),
            result,
        )
    });
    let mut checks = Vec::new();
    report.step("checks", || match beside.and_then(Beside::finish) {
        Ok((summary, result)) => {
            checks = summary;
            ("beside the tests:".to_owned(), result)
        }
        Err(error) => (String::new(), Err(error)),
    });
    report
        .summary
        .extend(checks.iter().map(|line| format!("  {line}")));
    report.step("own policy", || (String::new(), check::own_policy(repo)));
    for (name, work) in [
        ("rayon-core", rayon::ours as fn(&Repo) -> Result<String>),
        ("tokio crates", ecosystem::all),
        ("mpi", mpi::tests),
        ("perfetto", perfetto::run),
    ] {
        report.counted(name, || work(repo));
    }
    let models = models::Options {
        filter: None,
        jobs: None,
        limit: 600,
    };
    for checker in [Checker::Loom, Checker::Shuttle, Checker::Sim] {
        report.step(checker.name(), || match models::run(repo, checker, &models) {
            Ok(tally) => (
                format!("{} models passed, {} failed", tally.passed, tally.failures.len()),
                tally.verdict(),
            ),
            Err(error) => (String::new(), Err(error)),
        });
    }
    // All of them take hours: that is `cargo xtask deep`.
    let mutants = mutants::Options {
        name: None,
        structure: None,
        checker: None,
        limit: 300,
        sample: Some(MUTANTS),
    };
    report.step("mutants", || match mutants::run(repo, &mutants) {
        Ok(tally) => (
            format!("{} bugs found, {} survived", tally.found, tally.survivors.len()),
            tally.verdict(),
        ),
        Err(error) => (String::new(), Err(error)),
    });
    report.step("smoke", || (String::new(), smoke(repo)));
    report.step("asm", || {
        (String::new(), asm::run(repo, &asm::Options::default()))
    });
    report.end()
}

/// The checks that run no tests of the library.
fn checks(repo: &Repo, report: &mut Report) {
    for (name, work) in [
        ("format", check::format as fn(&Repo) -> Result<()>),
        ("rules", rules::run),
        ("clippy", check::clippy),
        ("features", check::features),
        ("documentation", check::documentation),
    ] {
        report.step(name, || (String::new(), work(repo)));
    }
    for (name, work) in [
        ("packages", publish::package as fn(&Repo) -> Result<String>),
        ("oldest rustc", publish::msrv),
        ("targets", targets::run),
    ] {
        report.counted(name, || work(repo));
    }
}

/// A second process of this program, which runs [`checks`].
struct Beside {
    child: Child,
    log: PathBuf,
}

impl Beside {
    fn start(repo: &Repo) -> Result<Self> {
        let log = repo.target.join("ci-checks.log");
        fs::create_dir_all(&repo.target)?;
        // Not truncated: a process that another run has left may still write to the one that was there.
        if log.exists() {
            fs::remove_file(&log).with_context(|| format!("cannot remove {}", log.display()))?;
        }
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let own = std::env::current_exe()?;
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(&own);
        let child = [nice, Command::new(&own)].into_iter().find_map(|mut command| {
            let child = command
                .args(["ci", "--only-checks", "--root"])
                .arg(&repo.root)
                .stdin(Stdio::null())
                .stdout(file.try_clone().ok()?)
                .stderr(file.try_clone().ok()?)
                .spawn();
            child.ok()
        });
        let child = child.context("cannot start a second process of this program")?;
        Ok(Self { child, log })
    }

    /// Waits for its end, and prints its output. Returns the lines of its summary, and what failed.
    fn finish(mut self) -> Result<(Vec<String>, Result<()>)> {
        let status = self.child.wait()?;
        let log = run::read_log(&self.log)?;
        run::print(&log)?;
        let (before, summary) = log.split_once(&format!("\n== {SUMMARY}\n")).unwrap_or((&log, ""));
        let lines: Vec<_> = summary.lines().take(CHECKS).map(str::to_owned).collect();
        let failed = before.split_once(&format!("\n== {FAILED}\n"));
        let result = if status.success() && lines.len() == CHECKS {
            Ok(())
        } else {
            let failed = failed.map_or("it ended early", |(_, failed)| failed);
            Err(anyhow::anyhow!("{status}\n{failed}"))
        };
        Ok((lines, result))
    }
}

impl Drop for Beside {
    /// It has ended, or nobody waits for it any more. What it has started ends by itself.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the README says, `cargo test`; the tests of the lab and of the checks; those of features that are
/// off.
fn test(repo: &Repo, tests: &mut Tests) -> Result<()> {
    let mut success = true;
    let mut others = vec!["test", "--no-fail-fast"];
    for package in repo.not_by_default() {
        others.extend(["--package", &package.name]);
    }
    for arguments in [
        ["test", "--no-fail-fast"].as_slice(),
        &others,
        // By itself it is without its features, which the lab switches on for the whole workspace.
        &["test", "--package", "warpweft-policy", "--lib", "spec::"],
        &[
            "test",
            "--no-fail-fast",
            "--package",
            "warpweft-conformance",
            "--test",
            "presets_wide",
        ],
        &["test", "--package", "warpweft-mpi", "--features", "raw", "--lib"],
        // Features that nothing in the workspace switches on, because the lab measures without them; and a
        // test that is for this place alone.
        &[
            "test",
            "--no-fail-fast",
            "--package",
            "warpweft",
            "--features",
            "stacks,tracing",
            "--lib",
            "--test",
            "adversary",
            "--test",
            "spans",
            "--test",
            "fibers",
            "--test",
            "effects",
            "--test",
            "stalls",
            "--test",
            "stalls_in_time",
            "--test",
            "dump_stacks",
            "--test",
            "threads",
        ],
        &[
            "test",
            "--package",
            "warpweft",
            "--features",
            "stacks,tracing",
            "--doc",
            "src/lib.rs",
        ],
    ] {
        let mut command = run::cargo(&repo.root);
        // The hostile programs with each number of workers; without it they are run with 2.
        command.args(arguments).env("WARPWEFT_ADVERSARY_ALL", "1");
        success &= run::tee(&mut command, |line| {
            tests.add(line);
        })?;
    }
    ensure!(success, "`cargo test` failed\n{}", tests.failures.join("\n"));
    ensure!(tests.passed > 0, "no test ran");
    Ok(())
}

/// The main job of the lab, small, and the one that waits and computes: `cargo lab explore`, but with the
/// program that the tests have built.
fn smoke(repo: &Repo) -> Result<()> {
    for workload in ["pcap", "mapreducefib"] {
        let arguments = [
            "run",
            "--package",
            "warpweft-lab",
            "--",
            "explore",
            workload,
            "--smoke",
        ];
        run::run(run::cargo(&repo.root).args(arguments))?;
    }
    Ok(())
}
