//! Unmodified crates of tokio's ecosystem on our workers: `compat/ecosystem`, a separate workspace.

mod load;

use crate::counts::Tests;
use crate::repo::Repo;
use crate::run;
use anyhow::{Result, ensure};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Option<EcosystemCommand>,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum EcosystemCommand {
    /// One axum router under load, by turns: on our server, on `axum::serve` in a pool, and on plain tokio
    Load(load::Load),
}

/// Runs what was asked for: the checks and the tests, if nothing was.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<String> {
    match &options.what {
        Some(EcosystemCommand::Load(load)) => load::compare(repo, load),
        None => all(repo),
    }
}

/// Checks the package, runs its tests, and each server under load for a moment.
pub(crate) fn all(repo: &Repo) -> Result<String> {
    let folder = repo.root.join("compat/ecosystem");
    let target = repo.target.join("ecosystem");
    run::run(run::cargo(&folder).args(["fmt", "--check"]))?;
    let mut tests = Tests::default();
    let mut command = run::cargo(&folder);
    // Clippy compiles them: by itself it would read all of these crates once more, for a minute.
    command
        .args(["test", "--no-fail-fast"])
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("RUSTFLAGS", run::rustflags(None) + " -D warnings")
        .env("CARGO_TARGET_DIR", &target);
    let success = run::tee(&mut command, |line| {
        tests.add(line);
    })?;
    ensure!(
        success && tests.passed > 0,
        "the tests of tokio's ecosystem failed"
    );
    // Neither the times nor the order count: only that each server answers rightly.
    load::compare_with(&target.join("debug").join("axum_contest"), &load::SMOKE)?;
    Ok(format!("{} tests, and each server under load", tests.passed))
}
