//! What it costs to see the scheduler: the recorder's rare events and its steps, a trace, a dump.
//!
//! Rare events are always recorded, so they are compared with a build that leaves them out, by
//! `--cfg warpweft_unrecorded`. Both programs run by turns, and instructions are counted by callgrind.

use crate::repo::Repo;
use crate::run;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// How often each program runs; the table has medians of ratios of runs that follow each other
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// How many tasks sleep while a dump is timed
    #[arg(long, default_value_t = 100_000)]
    tasks: u64,
    /// Fail if a goal is missed. Times need a machine on which nothing else runs
    #[arg(long)]
    strict: bool,
}

/// The build without rare events.
const CFG: &str = "warpweft_unrecorded";
/// Closures or turns of a timed run, and of one under callgrind.
const COUNT: u64 = 1_000_000;
const COUNTED: u64 = 50_000;
/// The goals: parts in a hundred, nanoseconds, bytes and milliseconds.
const SPARSE_GOAL: f64 = 0.5;
const STEP_GOAL: f64 = 12.0;
const BYTES_GOAL: f64 = 20.0;
const DUMP_GOAL: f64 = 100.0;

/// A line of the table.
struct Row {
    what: String,
    figure: String,
    goal: String,
    is_met: bool,
}

impl Row {
    fn new(what: impl Into<String>, value: f64, unit: &str, goal: f64, rest: &str) -> Self {
        Self {
            what: what.into(),
            figure: format!("{value:.2} {unit}{rest}"),
            goal: format!("≤ {goal} {unit}"),
            is_met: value <= goal,
        }
    }
}

/// Measures all, and prints a table.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<()> {
    ensure!(
        options.rounds > 0 && options.tasks > 0,
        "there has to be something to measure"
    );
    let with = build(repo, &repo.target, None)?;
    let without = build(repo, &repo.target.join("unrecorded"), Some(CFG))?;
    let [with_cost, without_cost] = [&with, &without].map(|folder| folder.join("observe_cost"));
    let mut rows = Vec::new();
    for what in ["spawn", "cycle"] {
        let name = format!("rare events, {what}");
        match instructions(&with_cost, what)?.zip(instructions(&without_cost, what)?) {
            Some((with, without)) => {
                let more = (with / without - 1.0) * 100.0;
                let rest = format!(" ({without:.1} to {with:.1} a task)");
                rows.push(Row::new(
                    format!("{name}: instructions"),
                    more,
                    "%",
                    SPARSE_GOAL,
                    &rest,
                ));
            }
            None => println!("no valgrind: instructions are not counted"),
        }
        let ratios = by_turns(options.rounds, || {
            Ok(time(&with_cost, what, "off")? / time(&without_cost, what, "off")?)
        })?;
        let [low, middle, high] = ratios.map(|ratio| (ratio - 1.0) * 100.0);
        let rest = format!(" [{low:.2} to {high:.2}]");
        rows.push(Row::new(format!("{name}: time"), middle, "%", SPARSE_GOAL, &rest));
    }
    // A turn makes four records, a yield one.
    for (what, name, records) in [("yield", "a step", 1.0), ("turn", "a step with its push", 2.0)] {
        let each = by_turns(options.rounds, || {
            let more = time(&with_cost, what, "on")? - time(&with_cost, what, "off")?;
            Ok(more / COUNT as f64 / records)
        })?;
        let rest = format!(" [{:.2} to {:.2}]", each[0], each[2]);
        // The goal is of a stamp and its record: a push is another one.
        rows.push(Row::new(
            format!("recorded: {name}"),
            each[1],
            "ns",
            STEP_GOAL * records,
            &rest,
        ));
    }
    let [bytes, events] = figures(Command::new(&with_cost).args(["export", "20000", "on"]))?[..] else {
        bail!("`observe_cost export` prints two figures");
    };
    ensure!(events > 0.0, "nothing was recorded");
    let rest = format!(" ({events} events)");
    rows.push(Row::new(
        "a trace, an event",
        bytes / events,
        "bytes",
        BYTES_GOAL,
        &rest,
    ));
    let mut command = Command::new(with.join("dump_speed"));
    let [median, slowest] = figures(command.arg(options.tasks.to_string()).arg("--plain"))?[..] else {
        bail!("`dump_speed --plain` prints two figures");
    };
    let what = format!("a dump of {} tasks beside 2 busy workers", options.tasks);
    let rest = format!(" (slowest {slowest:.1})");
    rows.push(Row::new(what, median, "ms", DUMP_GOAL, &rest));
    println!("\n{}", table(&rows));
    let missed: Vec<_> = rows
        .iter()
        .filter(|row| !row.is_met)
        .map(|row| row.what.clone())
        .collect();
    if options.strict {
        run::complain("of the goals are missed", &missed)?;
    }
    Ok(())
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from("| what | goal | measured |\n|---|---|---|");
    for Row {
        what,
        figure,
        goal,
        is_met,
    } in rows
    {
        // As in the tables of the documents, a figure that misses its goal is bold.
        let bold = if *is_met { "" } else { "**" };
        text += &format!("\n| {what} | {goal} | {bold}{figure}{bold} |");
    }
    text
}

/// Builds the programs. Returns their folder.
fn build(repo: &Repo, target: &Path, cfg: Option<&str>) -> Result<PathBuf> {
    let mut command = run::cargo(&repo.root);
    command.args(["build", "--release", "-p", "warpweft"]);
    command.args(["--example", "observe_cost", "--example", "dump_speed"]);
    if cfg.is_some() {
        command.env("RUSTFLAGS", run::rustflags(cfg));
    }
    run::run(command.env("CARGO_TARGET_DIR", target))?;
    Ok(target.join("release/examples"))
}

/// Runs a program that prints figures.
fn figures(command: &mut Command) -> Result<Vec<f64>> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("it cannot be run")?;
    ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let figure = |word: &str| word.parse().with_context(|| format!("no figure: {word}"));
    text.split_whitespace().map(figure).collect()
}

/// Nanoseconds of a run.
fn time(program: &Path, what: &str, steps: &str) -> Result<f64> {
    let figures = figures(Command::new(program).args([what, &COUNT.to_string(), steps]))?;
    figures.first().copied().context("it prints a time")
}

/// Instructions of a task, or `None` without valgrind.
fn instructions(program: &Path, what: &str) -> Result<Option<f64>> {
    let [few, many] = [COUNTED, 3 * COUNTED].map(|count| {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command.arg(program).args([what, &count.to_string(), "off"]);
        command.output().ok()
    });
    let Some((few, many)) = few.zip(many) else {
        return Ok(None);
    };
    let [few, many] = [few, many].map(|output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let figure = text.lines().find_map(|line| line.split_once("Collected : "));
        let figure = figure.and_then(|(_, figure)| figure.trim().parse::<f64>().ok());
        figure.with_context(|| format!("callgrind counts nothing:\n{text}"))
    });
    Ok(Some((many? - few?) / (2 * COUNTED) as f64))
}

/// Measures so many times. Returns the lower quartile, the median and the upper quartile. The first run does
/// not count.
fn by_turns(rounds: usize, mut measure: impl FnMut() -> Result<f64>) -> Result<[f64; 3]> {
    measure()?;
    let mut all = (0..rounds).map(|_| measure()).collect::<Result<Vec<_>>>()?;
    all.sort_by(f64::total_cmp);
    Ok([1, 2, 3].map(|quarter| all[(all.len() - 1) * quarter / 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_misses_its_goal_is_bold() {
        let rows = [
            Row::new("a", 1.0, "ns", 2.0, ""),
            Row::new("b", 3.0, "%", 2.5, " [1 to 4]"),
        ];
        let text = table(&rows);
        assert!(
            text.ends_with("| a | ≤ 2 ns | 1.00 ns |\n| b | ≤ 2.5 % | **3.00 % [1 to 4]** |"),
            "{text}"
        );
    }

    #[test]
    fn quartiles_leave_the_first_run_out() {
        let mut next = [100.0, 4.0, 1.0, 3.0, 5.0, 2.0].into_iter();
        let quartiles = by_turns(5, || next.next().context("five")).expect("there are six");
        assert_eq!(quartiles, [2.0, 3.0, 4.0]);
    }
}
