//! `compare --against`, `--baseline` and `--set`: rows of this program beside those of another build.
//!
//! | asked for | runs | verdicts |
//! |---|---|---|
//! | `--against PROGRAM` | both programs, in turns | from pairs |
//! | `--against FILE.json`, the copy beside it | the copy and this program, in turns | from pairs |
//! | `--against FILE.json`, no copy | this program | from recorded figures, or refused |
//! | `--baseline FILE.json` | this program, which is copied | none |
//! | `--set NAME` alone | this program | none |

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use super::CompareArgs;
use crate::against::baseline::{Baseline, Copied, Recorded};
use crate::against::bench::Processes;
use crate::against::lines::{Compared, Kind, lines};
use crate::against::program::{Build, ask, digest};
use crate::against::rounds::{JudgedRow, RoundLimits, Rounds, Side, measure};
use crate::against::verdict::Looks;
use crate::error::{LabError, choose};
use crate::isolate::own_program;
use crate::lab::Lab;
use crate::machine::{Machine, Usage};
use crate::measured::{Papers, prepared};
use crate::output::Pending;
use crate::plan::{Guard, GuardSet};
use crate::report::against as page;
use crate::session::ReadJobs;
use crate::table::warning;
use crate::text::workers;

/// A difference below this share does not matter unless `--fail-above` says otherwise.
const MARGIN: f64 = 0.03;
/// Pairs at most.
const PAIRS: usize = 64;
/// How long the machine is watched before the first run.
const WATCHED: Duration = Duration::from_millis(400);

/// What is compared with which baseline.
#[derive(Args, Debug, Default)]
pub(crate) struct AgainstArgs {
    /// Compare with a baseline, in turns: another build of this program, or a file of `--baseline`
    #[arg(long, value_name = "PROGRAM|FILE.json", conflicts_with_all = ["baseline", "runtimes", "policies", "workers", "minutes"])]
    against: Option<PathBuf>,

    /// Measure the rows of a set and write them as a baseline, with a copy of this program beside the file
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["runtimes", "policies", "workers", "minutes"])]
    baseline: Option<PathBuf>,

    /// The set of rows; NAME then chooses some of them [default with --against: the first; those of the file]
    #[arg(long, value_name = "SET", conflicts_with_all = ["runtimes", "policies", "workers", "minutes"])]
    set: Option<String>,

    /// Exit code 1 if a row loses more than this for certain: 3%
    #[arg(long, value_name = "PERCENT", value_parser = percent, requires = "against")]
    fail_above: Option<f64>,

    /// Seconds that it may take: undecided rows get more rounds until then [default: 1800; with --quick 600]
    #[arg(long, value_name = "SECONDS")]
    budget: Option<u64>,
}

impl AgainstArgs {
    /// Returns true if rows are asked for, and not comparisons between contestants.
    pub(crate) fn is_asked(&self) -> bool {
        self.against.is_some() || self.baseline.is_some() || self.set.is_some()
    }

    /// Refuses what only rows have.
    pub(crate) fn unused(&self) -> Result<(), LabError> {
        match self.budget {
            Some(_) => Err(LabError::Usage(String::from(
                "--budget is for --against, --baseline and --set; a comparison of contestants has --minutes",
            ))),
            None => Ok(()),
        }
    }
}

/// A share, written as a percentage.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=1000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(String::from("a percentage from 0 to 1000 is needed, such as 3%")),
    }
}

/// What is run.
struct RowsToRun {
    rows: Vec<JudgedRow>,
    kind: Kind,
    /// The baseline's program, if it is there.
    program: Option<PathBuf>,
    notes: Vec<String>,
}

/// Compares with a baseline, or records one.
pub(crate) fn run(lab: &Lab, arguments: &CompareArgs, plan: ReadJobs) -> Result<(), LabError> {
    let own = &arguments.against;
    if own.budget == Some(0) || arguments.repeat == Some(0) || arguments.limit == Some(0) {
        return Err(LabError::Usage(String::from(
            "--budget, --repeat and --limit: at least one second, or round, is needed",
        )));
    }
    let mut asked = match &own.against {
        Some(path) if !is_json(path)? => with_program(lab, arguments, plan, path)?,
        Some(path) => with_file(lab, arguments, path)?,
        None => RowsToRun {
            rows: of_set(lab, arguments, plan)?,
            kind: Kind::Alone,
            program: None,
            notes: Vec::new(),
        },
    };
    let file = own
        .baseline
        .as_ref()
        .map(|path| Pending::open("write the baseline", path));
    let file = file.transpose()?;
    let papers = Papers::open(
        &arguments.outputs,
        Some("reports/against.html"),
        arguments.json.as_ref(),
    )?;
    for name in asked.rows.iter().map(|row| &row.request.runtime) {
        lab.peer(name)?.prepare()?;
    }
    warn_ahead();
    let rows = std::mem::take(&mut asked.rows);
    let compared = compared(lab, arguments, asked, rows)?;
    compared.print(&mut io::stdout().lock())?;
    if let (Some(pending), Some(path)) = (file, &own.baseline) {
        record(lab, &compared, pending, path)?;
    }
    papers.finish(
        &mut io::stdout().lock(),
        || page::html(&compared),
        || compared.json(),
        || page::lines(&compared.rows),
    )?;
    judged(&compared, own.fail_above)
}

/// Warns before the first run if others use the machine just then.
fn warn_ahead() {
    let before = Usage::now();
    thread::sleep(WATCHED);
    let others = before
        .zip(Usage::now())
        .and_then(|(before, now)| now.others_since(&before));
    if let Some(warning) = warning(others) {
        let ahead = warning
            .replace("used", "use")
            .replace(" meanwhile", " before the first run");
        // Nothing can be done if standard error is closed.
        drop(writeln!(io::stderr(), "{ahead}"));
    }
}

/// Runs the rows.
fn compared(
    lab: &Lab,
    arguments: &CompareArgs,
    asked: RowsToRun,
    rows: Vec<JudgedRow>,
) -> Result<Compared, LabError> {
    let own = &arguments.against;
    let looks = Looks::at(rows.iter().map(|row| row.figures.len()).sum());
    let (sides, usual): (&[Side], usize) = match asked.kind {
        Kind::Paired { .. } => (&[Side::Baseline, Side::This], PAIRS),
        _ => (&[Side::This], looks.pairs(0)),
    };
    let budget = own.budget.unwrap_or(if arguments.quick { 600 } else { 1800 });
    let pace = RoundLimits {
        rounds: arguments.repeat.unwrap_or(usual),
        budget: Some(Duration::from_secs(budget)),
        margin: own.fail_above.unwrap_or(MARGIN),
    };
    let limit = Duration::from_secs(arguments.limit.unwrap_or(120));
    let turns = rows.len() * (pace.rounds + 1);
    let usage = Usage::now();
    let mut bench = Processes::new(asked.program, limit, pace.budget, turns)?;
    let Rounds {
        rows,
        rounds,
        time_was_up,
    } = measure(rows, sides, &pace, &mut bench)?;
    bench.end();
    let others = usage
        .zip(Usage::now())
        .and_then(|(before, now)| now.others_since(&before));
    let machine = Machine::here();
    let refusal = match &asked.kind {
        Kind::Recorded { baseline } => baseline.refusal(&machine, others),
        _ => None,
    };
    Ok(Compared {
        program: lab.name,
        command: std::iter::once(lab.name.to_owned())
            .chain(std::env::args().skip(1))
            .collect::<Vec<_>>()
            .join(" "),
        lines: lines(&rows, &asked.kind, refusal.is_some(), own.fail_above),
        kind: asked.kind,
        rows,
        refusal,
        notes: asked.notes,
        rounds,
        time_was_up,
        margin: pace.margin,
        machine,
        versions: lab.versions(),
        others,
        probe_usual_ns: bench.usual_probe(),
        elapsed: crate::against::rounds::Bench::elapsed(&bench),
    })
}

/// Returns true if the file begins as JSON does.
fn is_json(path: &Path) -> Result<bool, LabError> {
    let refused = |error: io::Error| LabError::file("read the baseline", path, &error);
    if path.is_dir() {
        let reason = "it is a folder; name a file of --baseline, or another build of this program";
        return Err(LabError::file("read the baseline", path, reason));
    }
    let mut start = Vec::new();
    let file = fs::File::open(path).map_err(refused)?;
    file.take(64).read_to_end(&mut start).map_err(refused)?;
    Ok(start.trim_ascii_start().first() == Some(&b'{'))
}

/// The rows of the set, against that program.
fn with_program(
    lab: &Lab,
    arguments: &CompareArgs,
    plan: ReadJobs,
    path: &Path,
) -> Result<RowsToRun, LabError> {
    // A bare name would be looked for in the folders of the shell.
    let path = &fs::canonicalize(path).map_err(|error| LabError::file("compare with", path, &error))?;
    let notes = acquaint(lab, path)?;
    Ok(RowsToRun {
        rows: of_set(lab, arguments, plan)?,
        kind: Kind::Paired {
            program: path.display().to_string(),
        },
        program: Some(path.clone()),
        notes,
    })
}

/// The rows of the file, against its program if that is there.
fn with_file(lab: &Lab, arguments: &CompareArgs, path: &Path) -> Result<RowsToRun, LabError> {
    if let Some(set) = &arguments.against.set {
        return Err(LabError::Usage(format!(
            "--set {set}: the rows are those of `{}`; name some of them to have fewer",
            path.display()
        )));
    }
    if arguments.quick {
        return Err(LabError::Usage(format!(
            "--quick: the rows have the sizes in which `{}` was measured",
            path.display()
        )));
    }
    let baseline = Baseline::read(path)?;
    let own = Build::of(lab);
    if let Some(reason) = own.refusal(&baseline.build) {
        return Err(LabError::file("compare with", path, &reason));
    }
    let mut rows: Vec<JudgedRow> = baseline
        .rows
        .iter()
        .map(|recorded| recorded.row.clone())
        .collect();
    let names: Vec<&str> = rows.iter().map(|row| family(&row.name)).collect();
    for name in &arguments.names {
        choose("rows of the baseline", name, &names)?;
    }
    let wanted = |row: &JudgedRow| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| name == family(&row.name))
    };
    rows.retain(wanted);
    for row in &rows {
        Baseline::check(lab, row)?;
    }
    let program = baseline.program(path)?;
    let (kind, notes) = match &program {
        Some(program) => {
            let kind = Kind::Paired {
                program: program.display().to_string(),
            };
            (kind, acquaint(lab, program)?)
        }
        None => {
            let notes = own.differences(&baseline.build);
            let baseline = Box::new(baseline);
            (Kind::Recorded { baseline }, notes)
        }
    };
    Ok(RowsToRun {
        rows,
        kind,
        program,
        notes,
    })
}

/// Asks the baseline's program what it is; notes on how it differs from this one.
fn acquaint(lab: &Lab, program: &Path) -> Result<Vec<String>, LabError> {
    let own = Build::of(lab);
    let mut notes = match ask(program)? {
        Some(build) => match own.refusal(&build) {
            Some(reason) => return Err(LabError::file("compare with", program, &reason)),
            None => own.differences(&build),
        },
        None => vec![String::from(
            "The baseline is an older build, which does not say how it was built.",
        )],
    };
    if digest(program)? == digest(&own_program()?)? {
        notes.push(String::from(
            "The baseline is this very program: each verdict but \"not told apart\" is an error of the method.",
        ));
    }
    Ok(notes)
}

/// The part of a row's name that is its line's.
fn family(name: &str) -> &str {
    name.split(',').next().unwrap_or(name)
}

/// The rows of the set that was asked for.
fn of_set(lab: &Lab, arguments: &CompareArgs, plan: ReadJobs) -> Result<Vec<JudgedRow>, LabError> {
    let names: Vec<&str> = lab.guards.iter().map(|set| set.name).collect();
    let at = match &arguments.against.set {
        Some(name) => choose("sets of rows", name, &names)?,
        None if names.is_empty() => {
            return Err(LabError::Usage(String::from("this program has no rows")));
        }
        None => 0,
    };
    let GuardSet { guards, .. } = &lab.guards[at];
    let valid: Vec<&str> = guards.iter().map(|guard| guard.name).collect();
    for name in &arguments.names {
        choose("rows", name, &valid)?;
    }
    let wanted =
        |guard: &&Guard| arguments.names.is_empty() || arguments.names.iter().any(|name| name == guard.name);
    let mut rows = Vec::new();
    for guard in guards.iter().filter(wanted) {
        rows.extend(of_guard(lab, guard, arguments.quick, plan)?);
    }
    Ok(rows)
}

/// The rows of a line.
pub(crate) fn of_guard(
    lab: &Lab,
    guard: &Guard,
    quick: bool,
    plan: ReadJobs,
) -> Result<Vec<JudgedRow>, LabError> {
    let further = if quick { guard.quick } else { "" };
    let jobs = prepared(lab, plan(lab, &format!("bench {} {further}", guard.line))?)?;
    let mut rows = Vec::new();
    for (_, (cells, _)) in jobs {
        let several = cells
            .iter()
            .any(|cell| cell.cell.contestant() != cells[0].cell.contestant());
        for cell in cells {
            let contestant = if several {
                format!("{}, ", cell.cell.contestant())
            } else {
                String::new()
            };
            rows.push(JudgedRow {
                name: format!("{}, {contestant}{}", guard.name, workers(cell.cell.workers)),
                request: cell.request,
                figures: guard.figures.to_vec(),
            });
        }
    }
    Ok(rows)
}

/// Writes the baseline, and copies this program beside it.
fn record(lab: &Lab, compared: &Compared, pending: Pending, path: &Path) -> Result<(), LabError> {
    let own = own_program()?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".program");
    let copy = path.with_file_name(&name);
    fs::copy(&own, &copy).map_err(|error| LabError::file("copy this program to", &copy, &error))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let complete = compared.rows.iter().filter(|runs| runs.failure.is_none());
    let recorded = complete.map(|runs| Recorded {
        row: runs.row.clone(),
        values: (0..runs.row.figures.len())
            .map(|at| runs.values(Side::This, at))
            .collect(),
    });
    let baseline = Baseline {
        baseline_form: Baseline::FORM,
        date: now.as_secs(),
        build: Build::of(lab),
        program: Copied {
            file: PathBuf::from(name),
            digest: digest(&copy)?,
        },
        machine: compared.machine.clone(),
        others: compared.others,
        rows: recorded.collect(),
    };
    let text = serde_json::to_string_pretty(&baseline).map_err(io::Error::from)?;
    let path = pending.finish(text)?;
    let mut output = io::stdout().lock();
    writeln!(
        output,
        "\nBaseline: {}\nProgram:  {}",
        path.display(),
        copy.display()
    )?;
    Ok(())
}

/// An error if a row did not complete, lost too much, or cannot be judged although that was asked for.
fn judged(compared: &Compared, fail_above: Option<f64>) -> Result<(), LabError> {
    let failures: Vec<&str> = compared
        .rows
        .iter()
        .filter_map(|runs| runs.failure.as_deref())
        .collect();
    if !failures.is_empty() {
        return Err(LabError::Incomplete(failures.join("\n  ")));
    }
    if compared.rows.iter().all(|runs| runs.absent.is_some()) {
        let reasons: Vec<&str> = compared
            .rows
            .iter()
            .filter_map(|runs| runs.absent.as_deref())
            .collect();
        return Err(LabError::Incomplete(format!(
            "the baseline's program runs none of the rows\n  {}",
            reasons.join("\n  ")
        )));
    }
    let Some(share) = fail_above else { return Ok(()) };
    if let Some(reason) = &compared.refusal {
        return Err(LabError::Loss(format!(
            "--fail-above: there is no verdict: {reason}"
        )));
    }
    let lost: Vec<String> = compared
        .lines
        .iter()
        .filter(|line| line.fails)
        .map(|line| format!("{}: {}", line.row, crate::against::print::title(&line.figure)))
        .collect();
    if lost.is_empty() {
        return Ok(());
    }
    Err(LabError::Loss(format!(
        "a loss of more than {:.1} %:\n  {}",
        share * 100.0,
        lost.join("\n  ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against::lines::tests::{compared, pairs};
    use crate::cli::plan;
    use crate::testing::lab;

    #[test]
    fn percentages_are_shares() {
        for (text, share) in [("3%", 0.03), ("3", 0.03), ("0.5 %", 0.005), ("0", 0.0)] {
            assert_eq!(percent(text), Ok(share), "{text}");
        }
        for text in ["", "%", "-1%", "three", "nan", "1e9"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_line_is_a_row_for_each_contestant_and_number_of_workers() {
        let names = |at: usize, quick| -> Vec<String> {
            let rows = of_guard(lab(), &lab().guards[0].guards[at], quick, plan).unwrap();
            rows.into_iter().map(|row| row.name).collect()
        };
        assert_eq!(names(0, false), ["churn, 1 worker", "churn, 2 workers"]);
        assert_eq!(names(1, false), ["wait, fifo, 1 worker", "wait, tokio, 1 worker"]);
        let quick = of_guard(lab(), &lab().guards[0].guards[0], true, plan).unwrap();
        assert_eq!(quick[0].request.params.number("n"), 5);
    }

    #[test]
    fn a_loss_fails_only_where_that_is_asked_for() {
        let lost = compared(pairs(), None);
        assert!(judged(&lost, None).is_ok());
        let text = judged(&lost, Some(0.03)).unwrap_err().to_string();
        assert!(
            text.contains("a loss of more than 3.0 %:\n  churn, 1 worker: rate"),
            "{text}"
        );
        assert!(!text.contains("spawn"), "{text}");
        assert_eq!(judged(&lost, Some(0.03)).unwrap_err().exit_code(), 1);
        let refused = compared(pairs(), Some("another processor"));
        assert!(judged(&refused, None).is_ok());
        let text = judged(&refused, Some(0.03)).unwrap_err().to_string();
        assert!(text.contains("there is no verdict: another processor"), "{text}");
    }

    #[test]
    fn files_are_told_from_programs_by_how_they_begin() {
        let file = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            is_json(file.path()).unwrap()
        };
        assert!(file(" \n{\"a\": 1}") && file("{"));
        assert!(!file("") && !file("\u{7f}ELF") && !file("#!/bin/sh\n{ }"));
        assert!(is_json(Path::new("/nowhere")).is_err() && is_json(Path::new("/")).is_err());
    }
}
