//! One axum router under load on three servers, by turns: `compat/ecosystem/axum_contest.rs`.

use crate::repo::Repo;
use crate::run;
use crate::turns::{self, Quartiles};
use anyhow::{Context as _, Result, bail, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Settings of the comparison.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Load {
    /// How often each server runs
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// For how many milliseconds a server is asked
    #[arg(long, default_value_t = 3000)]
    milliseconds: u64,
    /// How many connections ask at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// The number of workers of each server
    #[arg(long, default_value_t = 2)]
    workers: usize,
}

/// Settings that show in seconds that all of it works.
pub(super) const SMOKE: Load = Load {
    rounds: 1,
    milliseconds: 300,
    connections: 8,
    workers: 2,
};

/// The servers, and what they are. The last one is the baseline.
const CONTESTANTS: [(&str, &str); 3] = [
    ("serve", "warpweft_tokio::serve"),
    ("axum", "axum::serve in a pool"),
    ("tokio", "axum::serve on tokio"),
];
const BASELINE: usize = CONTESTANTS.len() - 1;

/// What a round of one server came to.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    requests_per_second: f64,
    median: f64,
    percentile_99: f64,
}

/// The quantities of the table.
type Quantity = (&'static str, fn(&Outcome) -> f64);
const QUANTITIES: [Quantity; 3] = [
    ("requests/s", |outcome| outcome.requests_per_second),
    ("p50, µs", |outcome| outcome.median),
    ("p99, µs", |outcome| outcome.percentile_99),
];

/// Builds the program, optimised.
fn build(repo: &Repo) -> Result<PathBuf> {
    let target = repo.target.join("ecosystem");
    run::run(
        run::cargo(&repo.root.join("compat/ecosystem"))
            .args(["build", "--release", "--bin", "axum_contest"])
            .env("CARGO_TARGET_DIR", &target),
    )?;
    Ok(target.join("release").join("axum_contest"))
}

/// Runs all servers by turns, and prints the table.
pub(super) fn compare(repo: &Repo, options: &Load) -> Result<String> {
    compare_with(&build(repo)?, options)
}

pub(super) fn compare_with(program: &Path, options: &Load) -> Result<String> {
    ensure!(
        options.rounds > 0 && options.milliseconds > 0 && options.connections > 0 && options.workers > 0,
        "each of these is at least 1"
    );
    let rounds = turns::rounds(options.rounds, &CONTESTANTS, |(name, what)| {
        ask(program, name, options).with_context(|| format!("{what} failed"))
    })?;
    let cell = |of: &dyn Fn(&[Outcome; CONTESTANTS.len()]) -> f64, digits| {
        let values = Quartiles::of(rounds.iter().map(of));
        values.map_or_else(String::new, |values| values.text(digits))
    };
    println!("| server | {} |", QUANTITIES.map(|(name, _)| name).join(" | "));
    println!("|---|{}", "---|".repeat(QUANTITIES.len()));
    for (which, (_, what)) in CONTESTANTS.iter().enumerate() {
        let cells = QUANTITIES.map(|(_, of)| cell(&|round| of(&round[which]), 0));
        println!("| {what} | {} |", cells.join(" | "));
    }
    for (which, (_, what)) in CONTESTANTS.iter().enumerate().take(BASELINE) {
        let cells = QUANTITIES.map(|(_, of)| cell(&|round| of(&round[which]) / of(&round[BASELINE]), 2));
        println!("| {what} ÷ tokio | {} |", cells.join(" | "));
    }
    Ok(format!(
        "{} rounds of {} ms, {} connections, {} workers: medians and quartiles, ratios in the same round",
        options.rounds, options.milliseconds, options.connections, options.workers
    ))
}

/// A server, which is ended with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts a server, and asks it.
fn ask(program: &Path, contestant: &str, options: &Load) -> Result<Outcome> {
    let mut command = Command::new(program);
    command.args(["server", contestant, &options.workers.to_string()]);
    let mut server = Server(
        command
            .stdout(Stdio::piped())
            .spawn()
            .context("the server does not start")?,
    );
    let output = server.0.stdout.take().context("the server has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let address = line.trim().strip_prefix("listening at ");
    let address = address.with_context(|| format!("the server says {line:?}, and no address"))?;
    let output = run::capture(Command::new(program).args([
        "clients",
        address,
        &options.connections.to_string(),
        &options.milliseconds.to_string(),
    ]))?;
    parse(&String::from_utf8(output)?)
}

/// Reads what the clients print.
fn parse(text: &str) -> Result<Outcome> {
    let numbers = text.split_whitespace().map(str::parse);
    let numbers = numbers.collect::<Result<Vec<f64>, _>>();
    let Ok([requests, seconds, median, percentile_99]) = numbers.as_deref() else {
        bail!("these are not the four numbers of the clients: {text}");
    };
    Ok(Outcome {
        requests_per_second: requests / seconds,
        median: *median,
        percentile_99: *percentile_99,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn four_numbers_are_an_outcome() {
        let outcome = parse("3000 1.5 40 900\n").expect("four numbers");
        assert_eq!(
            [outcome.requests_per_second, outcome.median, outcome.percentile_99],
            [2000.0, 40.0, 900.0]
        );
        assert!(parse("3000 1.5 40").is_err() && parse("a b c d").is_err());
    }
}
