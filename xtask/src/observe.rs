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
    fn ratio(what: String, ratios: [f64; 3], goal: f64) -> Self {
        let [low, middle, high] = ratios.map(|ratio| (ratio - 1.0) * 100.0);
        let rest = format!(" [{low:.2} to {high:.2}]");
        Self::new(what, middle, "%", goal, &rest)
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
        let measured = ratios(options.rounds, load, (&with, "off"), (&without, "off"))?;
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
        let measured = ratios(options.rounds, load, (&with, "on"), (&with, "off"))?;
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
        let load = &load;
        let each = by_turns(options.rounds, || {
            let [on, off] = ["on", "off"].map(|steps| times(&with_cost, load, steps));
            Ok(vec![(on?[0] - off?[0]) / COUNT as f64 / records])
        })?;
        let each = each[0];
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

/// Runs two programs by turns, each with steps `on` or `off`. Returns the quartiles of each time's ratio.
fn ratios(rounds: usize, load: &Load, one: (&Path, &str), other: (&Path, &str)) -> Result<Vec<[f64; 3]>> {
    by_turns(rounds, || {
        let [one, other] = [one, other].map(|(program, steps)| times(program, load, steps));
        Ok(one?.iter().zip(other?).map(|(one, other)| one / other).collect())
    })
}

/// Instructions of a task or a request: without rare events, with them, and with steps.
struct Instructions {
    without: f64,
    off: f64,
    on: f64,
}

/// Counts the instructions of both programs by turns, or returns `None` without valgrind.
fn instructions(load: &Load, with: &Path, without: &Path) -> Result<Option<Instructions>> {
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..load.counts {
        for (all, (program, steps)) in all
            .iter_mut()
            .zip([(without, "off"), (with, "off"), (with, "on")])
        {
            match instructions_once(program, load, steps)? {
                Some(each) => all.push(each),
                None => return Ok(None),
            }
        }
    }
    let [without, off, on] = all.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
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

/// Measures so many times. Returns the lower quartile, the median and the upper quartile of each figure. The
/// first run does not count.
fn by_turns(rounds: usize, mut measure: impl FnMut() -> Result<Vec<f64>>) -> Result<Vec<[f64; 3]>> {
    let mut all = vec![Vec::new(); measure()?.len()];
    for _ in 0..rounds {
        for (all, figure) in all.iter_mut().zip(measure()?) {
            all.push(figure);
        }
    }
    let quartiles = all.into_iter().map(|mut all| {
        all.sort_by(f64::total_cmp);
        [1, 2, 3].map(|quarter| all[(all.len() - 1) * quarter / 4])
    });
    Ok(quartiles.collect())
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
        let measure = || {
            let figure = next.next().context("five")?;
            Ok(vec![figure, -figure])
        };
        let quartiles = by_turns(5, measure).expect("there are six");
        assert_eq!(quartiles, [[2.0, 3.0, 4.0], [-4.0, -3.0, -2.0]]);
    }
}
