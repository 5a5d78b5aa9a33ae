//! Unmodified crates of tokio's ecosystem on our workers: `compat/ecosystem`, a workspace of its own.

use crate::counts::Tests;
use crate::repo::Repo;
use crate::run;
use anyhow::{Result, ensure};

/// Checks the package, and runs its tests.
pub(crate) fn run(repo: &Repo) -> Result<String> {
    let folder = repo.root.join("compat/ecosystem");
    let target = repo.target.join("ecosystem");
    for arguments in [
        ["fmt", "--check"].as_slice(),
        &["clippy", "--all-targets", "--", "-D", "warnings"],
    ] {
        run::run(
            run::cargo(&folder)
                .args(arguments)
                .env("CARGO_TARGET_DIR", &target),
        )?;
    }
    let mut tests = Tests::default();
    let mut command = run::cargo(&folder);
    command
        .args(["test", "--no-fail-fast"])
        .env("CARGO_TARGET_DIR", &target);
    let success = run::tee(&mut command, |line| {
        tests.add(line);
    })?;
    ensure!(
        success && tests.passed > 0,
        "the tests of tokio's ecosystem failed"
    );
    Ok(format!("{} tests", tests.passed))
}
