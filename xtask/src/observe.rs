//! What it costs to see the scheduler: the recorder's rare events and its steps, a trace, a dump.
//!
//! Rare events are always recorded, so they are compared with a build that leaves them out, by
//! `--cfg warpweft_unrecorded`. Both programs run by turns, and instructions are counted by callgrind.

use crate::repo::Repo;
use crate::run;
use crate::turns::{self, Quartiles};
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
    /// Measure only the loads with this text in their names: spawn, cycle, http hello
    #[arg(long)]
    only: Option<String>,
    /// Fail if a goal is missed. Times need a machine on which nothing else runs
    #[arg(long)]
    strict: bool,
}

/// The build without rare events.
const CFG: &str = "warpweft_unrecorded";
/// Closures or turns of a timed run, and of one under callgrind.
const COUNT: u64 = 1_000_000;
const COUNTED: u64 = 50_000;
/// The same of requests. In the first few thousand of them a look at the sockets may find two.
const REQUESTS: u64 = 20_000;
const REQUESTS_COUNTED: u64 = 15_000;
/// The goals: parts in a hundred, nanoseconds, bytes and milliseconds.
const SPARSE_GOAL: f64 = 0.5;
const STEP_GOAL: f64 = 12.0;
const HTTP_STEPS_GOAL: f64 = 3.0;
const BYTES_GOAL: f64 = 20.0;
const DUMP_GOAL: f64 = 100.0;

/// What runs while its cost is measured.
struct Load {
    name: &'static str,
    /// The example, and what it is told before the count.
    program: &'static str,
    arguments: &'static [&'static str],
    /// Tasks or requests of a timed run, and of one under callgrind.
    count: u64,
    counted: u64,
    /// How often instructions are counted. The count of a server depends on how many requests each of its
    /// looks at the sockets finds, and a median does less so.
    counts: usize,
    /// The figures that the program prints.
    times: &'static [&'static str],
    /// How much more it may cost to record steps, in parts in a hundred, if there is a goal.
    steps_goal: Option<f64>,
}

impl Load {
    /// One of `observe_cost`.
    const fn of_tasks(arguments: &'static [&'static str; 1]) -> Self {
        Self {
            name: arguments[0],
            program: "observe_cost",
            arguments,
            count: COUNT,
            counted: COUNTED,
            counts: 1,
            times: &["time"],
            steps_goal: None,
        }
    }

    /// Adds what the program is told.
    fn tell<'a>(&self, command: &'a mut Command, count: u64, steps: &str) -> &'a mut Command {
        command
            .args(self.arguments)
            .args([count.to_string().as_str(), steps])
    }
}

const LOADS: &[Load] = &[
    Load::of_tasks(&["spawn"]),
    Load::of_tasks(&["cycle"]),
    Load {
        name: "http hello",
        program: "observe_http",
        arguments: &[],
        count: REQUESTS,
        counted: REQUESTS_COUNTED,
        counts: 7,
        times: &["time", "CPU time of the worker"],
        steps_goal: Some(HTTP_STEPS_GOAL),
    },
];

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

    /// How many more instructions there are for each task or request.
    fn more(what: String, with: f64, without: f64, goal: f64) -> Self {
        let rest = format!(" ({without:.1} to {with:.1} each)");
        Self::new(what, (with / without - 1.0) * 100.0, "%", goal, &rest)
    }

    /// How much longer it takes, by the quartiles of ratios.
    fn ratio(what: String, ratios: Quartiles, goal: f64) -> Self {
        let more = |ratio: f64| (ratio - 1.0) * 100.0;
        let rest = format!(" [{:.2} to {:.2}]", more(ratios.low), more(ratios.high));
        Self::new(what, more(ratios.median), "%", goal, &rest)
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
    let mut rows = Vec::new();
    let is_wanted = |load: &&Load| {
        options
            .only
            .as_deref()
            .is_none_or(|only| load.name.contains(only))
    };
    let ratio = |one, other| one / other;
    for load in LOADS.iter().filter(is_wanted) {
        let [with, without] = [&with, &without].map(|folder| folder.join(load.program));
        let name = format!("rare events, {}", load.name);
        let counts = instructions(load, &with, &without)?;
        match &counts {
            Some(counts) => {
                let what = format!("{name}: instructions");
                rows.push(Row::more(what, counts.off, counts.without, SPARSE_GOAL));
            }
            None => println!("no valgrind: instructions are not counted"),
        }
        let measured = by_turns(options.rounds, load, (&with, "off"), (&without, "off"), ratio)?;
        for (time_of, ratios) in load.times.iter().zip(measured) {
            rows.push(Row::ratio(format!("{name}: {time_of}"), ratios, SPARSE_GOAL));
        }
        let Some(goal) = load.steps_goal else {
            continue;
        };
        let name = format!("recorded steps, {}", load.name);
        if let Some(counts) = counts {
            let what = format!("{name}: instructions");
            rows.push(Row::more(what, counts.on, counts.off, goal));
        }
        let measured = by_turns(options.rounds, load, (&with, "on"), (&with, "off"), ratio)?;
        for (time_of, ratios) in load.times.iter().zip(measured) {
            rows.push(Row::ratio(format!("{name}: {time_of}"), ratios, goal));
        }
    }
    if options.only.is_none() {
        others(&with, options, &mut rows)?;
    }
    ensure!(!rows.is_empty(), "no load has that name");
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

/// Measures a step, a trace and a dump.
fn others(with: &Path, options: &Options, rows: &mut Vec<Row>) -> Result<()> {
    let with_cost = with.join("observe_cost");
    // A turn makes four records, a yield one.
    let turns = [
        (Load::of_tasks(&["yield"]), "a step", 1.0),
        (Load::of_tasks(&["turn"]), "a step with its push", 2.0),
    ];
    for (load, name, records) in turns {
        let (on, off) = ((&*with_cost, "on"), (&*with_cost, "off"));
        let more = by_turns(options.rounds, &load, on, off, |on, off| on - off)?[0];
        let each = |time: f64| time / COUNT as f64 / records;
        let rest = format!(" [{:.2} to {:.2}]", each(more.low), each(more.high));
        // The goal is of a stamp and its record: a push is another one.
        rows.push(Row::new(
            format!("recorded: {name}"),
            each(more.median),
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
    command.args(["build", "--release", "-p", "warpweft", "-p", "warpweft-tokio"]);
    for example in ["observe_cost", "observe_http", "dump_speed"] {
        command.args(["--example", example]);
    }
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

/// The times that a run prints, in nanoseconds.
fn times(program: &Path, load: &Load, steps: &str) -> Result<Vec<f64>> {
    let figures = figures(load.tell(&mut Command::new(program), load.count, steps))?;
    ensure!(
        figures.len() == load.times.len(),
        "`{}` prints {} figures",
        load.program,
        figures.len()
    );
    Ok(figures)
}

/// Runs two programs by turns, each with steps `on` or `off`. Returns the quartiles of what `combine` makes
/// of the two in a round, for each time that they print.
fn by_turns(
    rounds: usize,
    load: &Load,
    one: (&Path, &str),
    other: (&Path, &str),
    combine: fn(f64, f64) -> f64,
) -> Result<Vec<Quartiles>> {
    let rounds = turns::rounds(rounds + 1, &[one, other], |(program, steps)| {
        times(program, load, steps)
    })?;
    Ok(combined(&rounds, load.times.len(), combine))
}

/// The first round does not count.
fn combined(rounds: &[[Vec<f64>; 2]], times: usize, combine: fn(f64, f64) -> f64) -> Vec<Quartiles> {
    let quartiles = |time: usize| {
        let values = rounds.iter().map(|[one, other]| combine(one[time], other[time]));
        Quartiles::of(values.skip(1)).expect("there is a second round")
    };
    (0..times).map(quartiles).collect()
}

/// Instructions of a task or a request: without rare events, with them, and with steps.
struct Instructions {
    without: f64,
    off: f64,
    on: f64,
}

/// Counts the instructions of both programs by turns, or returns `None` without valgrind.
fn instructions(load: &Load, with: &Path, without: &Path) -> Result<Option<Instructions>> {
    let runs = [(without, "off"), (with, "off"), (with, "on")];
    let rounds = turns::rounds(load.counts, &runs, |(program, steps)| {
        instructions_once(program, load, steps)
    })?;
    let median = |which: usize| Some(Quartiles::of(rounds.iter().filter_map(|round| round[which]))?.median);
    let (Some(without), Some(off), Some(on)) = (median(0), median(1), median(2)) else {
        return Ok(None);
    };
    Ok(Some(Instructions { without, off, on }))
}

/// Instructions of a task or a request, or `None` without valgrind.
fn instructions_once(program: &Path, load: &Load, steps: &str) -> Result<Option<f64>> {
    let [few, many] = [load.counted, 3 * load.counted].map(|count| {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        load.tell(command.arg(program), count, steps).output().ok()
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
    Ok(Some((many? - few?) / (2 * load.counted) as f64))
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
    fn quartiles_leave_the_first_round_out() {
        let rounds = [100.0, 4.0, 1.0, 3.0, 5.0, 2.0].map(|time| [vec![time, 0.0], vec![0.0, time]]);
        let quartiles = combined(&rounds, 2, |one, other| one - other);
        let [first, second] = quartiles[..] else {
            panic!("{quartiles:?}");
        };
        assert_eq!([first.low, first.median, first.high], [2.0, 3.0, 4.0]);
        assert_eq!([second.low, second.median, second.high], [-4.0, -3.0, -2.0]);
    }
}
