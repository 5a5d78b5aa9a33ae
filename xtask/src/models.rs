//! The model checkers and the simulator: every `tests/loom_*.rs`, `tests/shuttle_*.rs` and `tests/sim_*.rs`,
//! one process per model.
//!
//! Each checker has its own target folder, because its `--cfg` changes every crate.

use crate::repo::{self, Repo};
use crate::run::{self, End};
use anyhow::{Context as _, Result, anyhow, ensure};
use cargo_metadata::diagnostic::{Diagnostic, DiagnosticLevel};
use cargo_metadata::{Artifact, Message, Package};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Which world a test is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Checker {
    Loom,
    Shuttle,
    /// The simulated machine of `warpweft-sim`.
    Sim,
    Std,
}

impl Checker {
    /// Those that explore models.
    pub(crate) const OF_MODELS: [Self; 3] = [Self::Loom, Self::Shuttle, Self::Sim];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Checker::Loom => "loom",
            Checker::Shuttle => "shuttle",
            Checker::Sim => "sim",
            Checker::Std => "std",
        }
    }

    /// The `--cfg` that selects it in `warpweft-platform`.
    pub(crate) fn cfg(self) -> Option<&'static str> {
        match self {
            Checker::Loom => Some("warpweft_loom"),
            Checker::Shuttle => Some("warpweft_shuttle"),
            Checker::Sim => Some("warpweft_sim"),
            Checker::Std => None,
        }
    }
}

#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct Options {
    /// Only models with this text in `package::file::test`.
    pub(crate) filter: Option<String>,
    /// How many models at a time [default: number of CPUs].
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// Seconds after which a model is stopped and counts as failed.
    #[arg(long, default_value_t = 600)]
    pub(crate) limit: u64,
    /// Look at them, and at the library as they see it, with clippy first.
    #[arg(long)]
    pub(crate) clippy: bool,
}

/// A test executable.
#[derive(Debug, Clone)]
pub(crate) struct Binary {
    pub(crate) package: String,
    /// The integration test, or `lib`.
    pub(crate) target: String,
    pub(crate) path: PathBuf,
    /// Where cargo would run it.
    pub(crate) folder: PathBuf,
}

/// How many models passed, and what became of the others: name, verdict, the end of the log.
#[derive(Debug, Default)]
pub(crate) struct ModelTally {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<String>,
}

impl ModelTally {
    pub(crate) fn verdict(&self) -> Result<()> {
        ensure!(
            self.failures.is_empty(),
            "{} of {} models failed\n{}",
            self.failures.len(),
            self.passed + self.failures.len(),
            self.failures.concat()
        );
        Ok(())
    }
}

/// Explores all models that match, and prints the wall time of each.
pub(crate) fn run(repo: &Repo, checker: Checker, options: &Options) -> Result<ModelTally> {
    run_with(repo, checker, options, &[])
}

/// The same with more variables in the environment of the models.
pub(crate) fn run_with(
    repo: &Repo,
    checker: Checker,
    options: &Options,
    variables: &[(&str, String)],
) -> Result<ModelTally> {
    let filter = options.filter.as_deref().unwrap_or("");
    let prefix = format!("{}_", checker.name());
    let all: Vec<(&Package, &str)> = repo
        .library()
        .flat_map(|package| repo::integration_tests(package).map(move |test| (package, test)))
        .filter(|(_, test)| test.starts_with(&prefix))
        .collect();
    // A filter that names files spares the others' compilation; otherwise it names tests, which only they can
    // list.
    let mut wanted: Vec<_> = all
        .iter()
        .copied()
        .filter(|(package, test)| format!("{}::{test}", package.name).contains(filter))
        .collect();
    if wanted.is_empty() {
        wanted = all;
    }
    ensure!(!wanted.is_empty(), "there is no {prefix}*.rs in crates/*/tests");
    let before = run::children_seconds();
    if options.clippy {
        clippy(repo, checker)?;
    }
    let start = Instant::now();
    let wanted: Vec<_> = wanted
        .into_iter()
        .map(|(package, test)| (package.name.as_str(), test))
        .collect();
    let workshop = Workshop::new(repo, checker);
    let binaries = build(&workshop, &wanted)?;
    println!(
        "built {} files of models in {}",
        binaries.len(),
        run::seconds(start.elapsed())
    );

    let mut models = Vec::new();
    for binary in &binaries {
        for test in list(binary)? {
            let name = format!("{}::{}::{test}", binary.package, binary.target);
            if name.contains(filter) {
                models.push((binary, test, name));
            }
        }
    }
    ensure!(!models.is_empty(), "no model matches {filter:?}");

    let (start, limit) = (Instant::now(), Duration::from_secs(options.limit));
    let logs = repo.target.join("xtask").join(checker.name());
    let width = models.iter().map(|(.., name)| name.len()).max().unwrap_or(0);
    let ends = run::parallel(models, run::jobs(options.jobs), |(binary, test, name)| {
        let log = logs.join(format!("{}.log", name.replace("::", ".")));
        let (end, time) = run::limited(one(binary, &test).envs(variables.iter().cloned()), &log, limit)?;
        let verdict = match end {
            End::Success => "ok",
            End::Failure => "FAILED",
            End::Limit => "STOPPED at the limit",
        };
        println!("{name:width$} {:>10}  {verdict}", run::seconds(time));
        if end == End::Success {
            return Ok(None);
        }
        let tail = run::tail(&log, 40);
        print!("{tail}");
        Ok(Some(format!("{name}  {verdict}\n{tail}")))
    })?;
    let models = ends.len();
    let failures: Vec<_> = ends.into_iter().flatten().collect();
    let tally = ModelTally {
        passed: models - failures.len(),
        failures,
    };
    let time = run::seconds(start.elapsed());
    // `background` reads this line.
    println!(
        "{}: {} models passed, {} failed, in {time}{}",
        checker.name(),
        tally.passed,
        tally.failures.len(),
        run::cpu_since(before, 0.0).map_or_else(String::new, |cpu| format!(", {cpu:.0} s of CPU"))
    );
    Ok(tally)
}

/// The library and its models, as they are compiled for a checker.
pub(crate) fn clippy(repo: &Repo, checker: Checker) -> Result<()> {
    let mut command = run::cargo(&repo.root);
    command
        .args(["clippy", "--lib", "--test", &format!("{}_*", checker.name())])
        .args(repo.library().flat_map(|package| ["-p", &package.name]));
    // The checkers' atomics and locks are large; that says nothing of the product.
    let sizes = "-A clippy::result_large_err -A clippy::large_enum_variant";
    command.args(["--", "-D", "warnings"]).args(sizes.split(' '));
    command.args("-D clippy::disallowed_methods -D clippy::disallowed_types".split(' '));
    command
        .env("RUSTFLAGS", run::rustflags(checker.cfg()))
        .env("CARGO_TARGET_DIR", repo.target.join(checker.name()));
    run::run(&mut command)
}

/// The compiler's flags for a program that reports its basic blocks to the simulator.
const SIMULATOR_FLAGS: &str = include_str!("../../lab/simulator-flags.txt");

/// All flags for such a program. They are for the target alone: build scripts do not have what the compiler
/// calls.
fn simulator_flags() -> String {
    let flags = run::rustflags(None) + " " + &SIMULATOR_FLAGS.replace('\n', " ");
    flags.trim().to_owned()
}

/// Builds the laboratory's program for the simulator, and runs its `simulate` with these arguments.
pub(crate) fn simulate(repo: &Repo, arguments: &[String]) -> Result<()> {
    let products = repo.target.join("simulate");
    let target = run::host()?;
    let mut command = run::cargo(&repo.root);
    command.args("build --release -p warpweft-lab --bin warpweft --target".split(' '));
    command.arg(&target);
    command
        .env("RUSTFLAGS", simulator_flags())
        .env("CARGO_TARGET_DIR", &products);
    fast_to_build(&mut command);
    run::run(&mut command)?;
    let program = products.join(target).join("release").join("warpweft");
    let mut simulate = Command::new(program);
    simulate.arg("simulate").args(arguments);
    // In the workspace, so that reports find the sources.
    run::run(simulate.current_dir(&repo.root))
}

/// Leaves out what the release profile spends on the last few per cent.
fn fast_to_build(command: &mut Command) {
    command
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
}

/// Where test executables are built, and for which world.
#[derive(Clone)]
pub(crate) struct Workshop {
    pub(crate) sources: PathBuf,
    pub(crate) products: PathBuf,
    /// What cargo makes on the way. All trees of a checker share it, so that what other people's crates come
    /// to is there once.
    pub(crate) intermediates: PathBuf,
    pub(crate) checker: Checker,
    /// Sources that are broken on purpose: no progress, and no warnings of what is unused now.
    pub(crate) broken: bool,
    /// Tests without a checker are optimised, too.
    pub(crate) optimised: bool,
}

impl Workshop {
    /// The sources as they are.
    pub(crate) fn new(repo: &Repo, checker: Checker) -> Self {
        let products = match checker {
            Checker::Std => repo.target.clone(),
            checker => repo.target.join(checker.name()),
        };
        Self {
            sources: repo.root.clone(),
            intermediates: products.clone(),
            products,
            checker,
            broken: false,
            optimised: false,
        }
    }
}

/// Builds test executables: `(package, integration test)`, or `lib` for the unit tests of the package. Those
/// of the checkers are optimised, and have debug assertions.
pub(crate) fn build(workshop: &Workshop, wanted: &[(&str, &str)]) -> Result<Vec<Binary>> {
    try_build(workshop, wanted)?.map_err(|errors| {
        let texts: String = errors.into_iter().map(|error| error.text).collect();
        anyhow!("the tests do not compile\n{texts}")
    })
}

/// An error of the compiler: the first place that it names, and how it is shown.
pub(crate) struct CompileError {
    /// Relative to the root of the workspace.
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl CompileError {
    fn of(diagnostic: Diagnostic) -> Self {
        let place = diagnostic.spans.iter().find(|span| span.is_primary);
        Self {
            file: place.map_or_else(PathBuf::new, |span| PathBuf::from(&span.file_name)),
            line: place.map_or(0, |span| span.line_start),
            text: diagnostic.rendered.unwrap_or(diagnostic.message),
        }
    }
}

/// The same; what the compiler objects to is no failure of the call.
pub(crate) fn try_build(
    workshop: &Workshop,
    wanted: &[(&str, &str)],
) -> Result<Result<Vec<Binary>, Vec<CompileError>>> {
    let mut command = run::cargo(&workshop.sources);
    command.args(["test", "--no-run", "--message-format=json"]);
    // What runs without a checker computes little. Some bugs show only where registers are used well.
    if workshop.checker != Checker::Std || workshop.optimised {
        command.arg("--release");
    }
    if workshop.checker == Checker::Std {
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    }
    if workshop.broken {
        command.arg("--quiet");
        // From one mutant to the next, little of a crate changes.
        command.env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true");
    }
    for package in wanted.iter().map(|(package, _)| package).collect::<BTreeSet<_>>() {
        command.args(["-p", package]);
    }
    for target in wanted.iter().map(|(_, target)| *target).collect::<BTreeSet<_>>() {
        match target {
            "lib" => command.arg("--lib"),
            test => command.args(["--test", test]),
        };
    }
    if workshop.checker == Checker::Sim {
        command
            .args(["--target", &run::host()?])
            .env("RUSTFLAGS", simulator_flags());
    } else {
        command.env("RUSTFLAGS", run::rustflags(workshop.checker.cfg()));
    }
    command
        .env("CARGO_TARGET_DIR", &workshop.products)
        .env("CARGO_BUILD_BUILD_DIR", &workshop.intermediates);
    // It would be paid for each file of models.
    fast_to_build(&mut command);
    command.env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    let output = command.stderr(Stdio::inherit()).output()?;
    let (mut binaries, mut errors) = (Vec::new(), Vec::new());
    for message in Message::parse_stream(output.stdout.as_slice()) {
        match message? {
            Message::CompilerArtifact(artifact) => {
                let binary = test_binary(&artifact);
                binaries
                    .extend(binary.filter(|binary| {
                        wanted.contains(&(binary.package.as_str(), binary.target.as_str()))
                    }));
            }
            Message::CompilerMessage(message) if message.message.level == DiagnosticLevel::Error => {
                errors.push(CompileError::of(message.message));
            }
            Message::CompilerMessage(message) if !workshop.broken => {
                eprint!("{}", message.message.rendered.unwrap_or_default());
            }
            _ => {}
        }
    }
    if !output.status.success() {
        ensure!(!errors.is_empty(), "cargo failed ({})", output.status);
        return Ok(Err(errors));
    }
    binaries.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok(Ok(binaries))
}

fn test_binary(artifact: &Artifact) -> Option<Binary> {
    let path = artifact.executable.as_ref().filter(|_| artifact.profile.test)?;
    let folder = artifact.manifest_path.parent()?;
    let target = if artifact.target.is_lib() || artifact.target.is_proc_macro() {
        "lib"
    } else {
        artifact.target.name.as_str()
    };
    Some(Binary {
        package: package_name(&artifact.package_id.repr)?.to_owned(),
        target: target.to_owned(),
        path: path.clone().into_std_path_buf(),
        folder: folder.to_owned().into_std_path_buf(),
    })
}

/// The package in an identifier: `path+file:///a/name#0.1.0` or `path+file:///a/folder#name@0.1.0`.
fn package_name(id: &str) -> Option<&str> {
    let (url, rest) = id.split_once('#')?;
    rest.split_once('@')
        .map(|(name, _)| name)
        .or_else(|| url.rsplit('/').next())
}

/// The tests in an executable.
pub(crate) fn list(binary: &Binary) -> Result<Vec<String>> {
    let mut command = Command::new(&binary.path);
    command
        .args(["--list", "--format", "terse"])
        .current_dir(&binary.folder)
        .stderr(Stdio::null());
    let text = String::from_utf8(run::capture(&mut command)?).context("test names are text")?;
    Ok(text
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect())
}

/// One test of an executable, as cargo would run it.
pub(crate) fn one(binary: &Binary, test: &str) -> Command {
    let mut command = Command::new(&binary.path);
    command
        .args(["--exact", test, "--nocapture"])
        .current_dir(&binary.folder)
        .env("CARGO_MANIFEST_DIR", &binary.folder)
        .env("RUST_BACKTRACE", "0");
    command
}

#[cfg(test)]
mod tests {
    use super::package_name;

    #[test]
    fn names_of_packages() {
        assert_eq!(
            package_name("path+file:///w/crates/warpweft-queue#0.1.0"),
            Some("warpweft-queue")
        );
        assert_eq!(
            package_name("path+file:///w/lab#warpweft-lab@0.1.0"),
            Some("warpweft-lab")
        );
        assert_eq!(package_name("nonsense"), None);
    }
}
