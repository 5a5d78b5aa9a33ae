//! `warpweft try` with three programs: one on rayon by our crate, one on axum, one with fibers. Each must get
//! a table and advice. With `--full`, the advice of a short trial must not be contradicted by a long one.

use crate::rayon;
use crate::repo::Repo;
use crate::run;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Only programs with this text in their name
    name: Option<String>,
    /// A long trial of each as well, with which the advice is compared
    #[arg(long)]
    full: bool,
}

/// A program: its name, its file, and its arguments.
type Program = (&'static str, PathBuf, &'static [&'static str]);

/// Rounds and seconds of a trial, short and long.
const SHORT: [&str; 2] = ["8", "60"];
const LONG: [&str; 2] = ["31", "240"];

/// Builds the command and the programs, and tries them.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<String> {
    // What is measured are the programs: the command itself need not be fast.
    run::run(run::cargo(&repo.root).args(["build", "-p", "warpweft-lab", "--bin", "warpweft"]))?;
    let wanted = |name: &str| options.name.as_deref().is_none_or(|text| name.contains(text));
    let mut outcomes = Vec::new();
    for (name, build) in PROGRAMS.into_iter().filter(|(name, _)| wanted(name)) {
        let program = build(repo)?;
        let advice = trial(repo, &program, SHORT)?;
        if options.full {
            agree(name, &advice, &trial(repo, &program, LONG)?)?;
        }
        outcomes.push(format!(
            "{name}: {}",
            advice["advice"].as_str().unwrap_or_default()
        ));
    }
    ensure!(!outcomes.is_empty(), "no program has that name");
    Ok(outcomes.join("\n"))
}

/// Tries all programs, for a short time and for a long one.
pub(crate) fn full(repo: &Repo) -> Result<String> {
    let name = None;
    run(repo, &Options { name, full: true })
}

/// Builds a program.
type Build = fn(&Repo) -> Result<Program>;

const PROGRAMS: [(&str, Build); 3] = [
    ("rayon", |repo| {
        Ok(("rayon", rayon::programs_on_ours(repo)?, &["threads"]))
    }),
    ("axum", |repo| {
        let (folder, target) = (repo.root.join("compat/ecosystem"), repo.target.join("ecosystem"));
        let mut command = run::cargo(&folder);
        command.args(["build", "--release", "--bin", "axum_load"]);
        run::run(command.env("CARGO_TARGET_DIR", &target))?;
        Ok(("axum", target.join("release/axum_load"), &[]))
    }),
    ("fibers", |repo| {
        let arguments = "build --release -p warpweft-examples --bin fibers";
        run::run(run::cargo(&repo.root).args(arguments.split(' ')))?;
        Ok(("fibers", repo.target.join("release/fibers"), &["20000"]))
    }),
];

/// Tries a program, checks its document, and returns it.
fn trial(repo: &Repo, (name, program, arguments): &Program, [rounds, seconds]: [&str; 2]) -> Result<Value> {
    let folder = repo.target.join("trials");
    fs::create_dir_all(&folder)?;
    let [json, html] = ["json", "html"].map(|ending| folder.join(format!("{name}.{ending}")));
    let mut command = Command::new(repo.target.join("debug/warpweft"));
    command
        .args([
            "try",
            "--policies",
            "fifo,lifo,lifo+steal=one",
            "--despite-load",
            "--timeout",
            "60",
        ])
        .args(["--repeat", rounds, "--budget", seconds, "--json"])
        .arg(&json)
        .arg("--report")
        .arg(&html)
        .arg("--")
        .arg(program)
        .args(*arguments);
    run::run(&mut command)?;
    let document: Value = serde_json::from_slice(&fs::read(&json)?)?;
    let settings = document["settings"].as_array().context("there are settings")?;
    ensure!(settings.len() >= 3, "{name}: only {} settings", settings.len());
    for setting in settings {
        let has = |figure: &str| setting[figure]["median"].as_f64() > Some(0.0);
        ensure!(
            has("wall_seconds") && has("cpu_seconds"),
            "{name} has no times: {setting}"
        );
        ensure!(
            setting["counters"]["ran"].as_f64() > Some(0.0),
            "{name} has no counters: {setting}"
        );
    }
    let advice = document["advice"].as_str().unwrap_or_default();
    let known = ["Take ", "Leave it as it is", "Nothing can be told apart"];
    ensure!(
        known.iter().any(|begin| advice.starts_with(begin)),
        "{name}: {advice}"
    );
    Ok(document)
}

/// What the short trial advises must not be slower than the program as it is in the long one.
fn agree(name: &str, short: &Value, long: &Value) -> Result<()> {
    let advice = short["advice"].as_str().unwrap_or_default();
    let settings = long["settings"].as_array().context("there are settings")?;
    for setting in settings {
        let policy = setting["setting"]["policy"].as_str().unwrap_or_default();
        let on = match setting["setting"]["workers"].as_u64() {
            Some(1) => String::from(" on 1 worker"),
            Some(count) => format!(" on {count} workers"),
            None => String::new(),
        };
        let taken = !policy.is_empty() && advice.starts_with(&format!("Take `{policy}`{on} ("));
        let most = setting["speed_up"]["interval"][1].as_f64();
        ensure!(
            !(taken && most.is_some_and(|most| most < 1.0)),
            "{name}: `{advice}`, but a long trial shows that `{policy}` is slower: {}",
            setting["speed_up"]
        );
    }
    Ok(())
}
