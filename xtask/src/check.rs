//! What takes seconds once everything is compiled: format, clippy, features, documentation, house rules.

use std::fs;

use crate::models::{self, Checker};
use crate::repo::Repo;
use crate::{rules, run};
use anyhow::Result;

/// A check and its name.
type Step = (&'static str, fn(&Repo) -> Result<()>);

/// All of them, each also when one before it failed.
pub(crate) fn all(repo: &Repo) -> Result<()> {
    let steps: [Step; 5] = [
        ("format", format),
        ("clippy", clippy_everywhere),
        ("features", features),
        ("documentation", documentation),
        ("rules", rules::run),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        run::heading(name);
        if let Err(error) = step(repo) {
            println!("{error:#}");
            failed.push(name.to_owned());
        }
    }
    run::complain("of the checks failed", &failed)
}

/// Every file is as rustfmt would write it. The lab lists two folders by its build script, and no `mod` line
/// names their files.
pub(crate) fn format(repo: &Repo) -> Result<()> {
    let mut command = run::cargo(&repo.root);
    command.args(["fmt", "--all", "--check", "--"]);
    for folder in ["lab/src/workloads", "lab/src/peers"] {
        for entry in fs::read_dir(repo.root.join(folder))? {
            let path = entry?.path();
            command.arg(if path.is_dir() { path.join("mod.rs") } else { path });
        }
    }
    run::run(&mut command)
}

/// No warning in any target, nor in what is compiled for the checkers only.
fn clippy_everywhere(repo: &Repo) -> Result<()> {
    clippy(repo)?;
    Checker::OF_MODELS
        .into_iter()
        .try_for_each(|checker| models::clippy(repo, checker))
}

/// No warning in any target.
pub(crate) fn clippy(repo: &Repo) -> Result<()> {
    let all = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run::run(run::cargo(&repo.root).args(all))?;
    Ok(())
}

/// Each published crate compiles without a warning with none of its features, and with each of them alone.
///
/// A crate is checked by itself: in the workspace, the features that one member asks for are there for all.
pub(crate) fn features(repo: &Repo) -> Result<()> {
    for package in repo.library().filter(|package| !package.features.is_empty()) {
        let bare = ["clippy", "-p", &package.name, "--no-default-features"];
        let strict = ["--", "-D", "warnings"];
        run::run(
            run::cargo(&repo.root)
                .args(bare)
                .arg("--all-targets")
                .args(strict),
        )?;
        // Each target once more is not needed: tests say which features they want.
        for feature in package.features.keys().filter(|&feature| feature != "default") {
            run::run(
                run::cargo(&repo.root)
                    .args(bare)
                    .args(["--features", feature])
                    .args(strict),
            )?;
        }
    }
    Ok(())
}

/// A policy written with what is public and nothing else passes the conformance kit: a package outside of the
/// workspace.
pub(crate) fn own_policy(repo: &Repo) -> Result<()> {
    run::run(
        run::cargo(&repo.root.join("examples").join("own-policy"))
            .args(["test", "--locked", "--all-targets"])
            .env("CARGO_TARGET_DIR", repo.target.join("own-policy")),
    )
}

/// The documentation builds without a warning.
pub(crate) fn documentation(repo: &Repo) -> Result<()> {
    run::run(
        run::cargo(&repo.root)
            .args(["doc", "--no-deps", "--workspace"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}
