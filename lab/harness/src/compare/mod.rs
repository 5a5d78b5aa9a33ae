//! `compare`: measures the lines of a comparison, and writes one page with what was published beside it.
//!
//! Each line is a session of interleaved rounds, within the time that is left. At the end it says what each
//! policy loses in its worst line.
//!
//! # Invariants
//! - A line is measured whole or not at all: contestants are compared within its rounds.
//! - A contestant that does not complete is a figure where the line says so, and an error elsewhere.

pub(crate) mod against;
mod worst;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use self::against::AgainstArgs;
use crate::args::{Defaults, Selection, Usual, WorkerCounts};
use crate::error::LabError;
use crate::lab::Lab;
use crate::measured::{Measured, Outputs, Papers, lines, prepared};
use crate::plan::{self, Comparison};
use crate::report::compare::{self as page, MeasuredLine};
use crate::session::{Job, ReadJobs};
use crate::summary::Row;
use crate::table;

/// `compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Which comparisons: cycle, churn/few, transfer; with --against or --set, which rows [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// A runtime that takes part; may be repeated, or a list with commas [default: all that can]
    #[arg(short, long = "runtime", value_name = "NAME", value_delimiter = ',')]
    runtimes: Vec<String>,

    /// A policy, for the runtime that has policies; may be repeated, or a list with commas [default: those of
    /// the comparison]
    #[arg(short, long = "policy", value_name = "POLICY", value_delimiter = ',')]
    policies: Vec<String>,

    /// Worker threads: a number, or a list with commas [default: one, the processors, for transfer also four
    /// times those]
    #[arg(short, long, value_name = "N", value_delimiter = ',')]
    workers: Vec<usize>,

    /// Shorter runs, fewer rounds, fewer policies, no single worker
    #[arg(long)]
    quick: bool,

    /// How long it may take: each comparison has its share, and those for which no time is left are named
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,

    /// Rounds at most; the first is not counted unless it is the only one [default: 16; with --quick 4]. With
    /// --against: pairs at most, beside the first, which is not counted [default: 64]
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,

    /// Seconds after which a single run is ended [default: 120]
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,

    #[command(flatten)]
    against: AgainstArgs,

    #[command(flatten)]
    outputs: Outputs,

    /// Writes all runs as one JSON document
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The lines of a comparison, with what each is to run.
type Jobs = Vec<(Comparison, Job)>;

impl CompareArgs {
    /// Returns the jobs line by line, and the time that they may take.
    pub(crate) fn jobs(&self, lab: &Lab) -> Result<(Jobs, Option<Duration>), LabError> {
        if self.minutes == Some(0) {
            return Err(LabError::Usage(String::from(
                "--minutes 0: a comparison needs some time",
            )));
        }
        let asked: Vec<&str> = self
            .runtimes
            .iter()
            .map(|name| Ok(lab.peer(name)?.info().name))
            .collect::<Result<_, LabError>>()?;
        let mut jobs = Vec::new();
        for line in plan::chosen(lab.comparisons, &self.names)? {
            let takes_part = |runtime: &&&str| asked.is_empty() || asked.contains(runtime);
            let runtimes: Vec<&&str> = line.runtimes.iter().filter(takes_part).collect();
            if runtimes.is_empty() {
                continue;
            }
            let selection = Selection {
                settings: line.settings(self.quick),
                runtimes: runtimes.iter().map(|runtime| (*runtime).to_string()).collect(),
                policies: self.policies.clone(),
                workers: vec![WorkerCounts(self.workers.clone())],
                limit: self.limit,
                ..Selection::default()
            };
            let usual = lab.home().map(|(_, policies)| policies.compared(self.quick));
            let usual = usual.into_iter().flatten();
            let defaults = Defaults {
                runtimes: Usual::All,
                policies: usual.chain(line.policies).map(ToString::to_string).collect(),
                workers: line.workers(self.quick),
            };
            let limits = selection.limits(self.repeat.unwrap_or(if self.quick { 4 } else { 16 }), None)?;
            let parts = selection.jobs(lab, line.workload, false, &defaults, &limits)?;
            jobs.extend(parts.into_iter().map(|job| (line, job)));
        }
        if jobs.is_empty() {
            return Err(LabError::Usage(format!(
                "no comparison is left: {} takes part in none that was asked for",
                self.runtimes.join(", ")
            )));
        }
        Ok((
            jobs,
            self.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
        ))
    }
}

/// Compares contestants; or, with `--against` and its like, this program with a baseline.
pub(crate) fn run(lab: &Lab, arguments: &CompareArgs, plan: ReadJobs) -> Result<(), LabError> {
    if arguments.against.is_asked() {
        return against::run(lab, arguments, plan);
    }
    arguments.against.unused()?;
    let (jobs, minutes) = arguments.jobs(lab)?;
    let papers = Papers::open(
        &arguments.outputs,
        Some("reports/compare.html"),
        arguments.json.as_ref(),
    )?;
    let (start, count) = (Instant::now(), jobs.len());
    let command = jobs
        .first()
        .map(|(_, job)| job.command.clone())
        .unwrap_or_default();
    let mut compared = Vec::new();
    let mut unmeasured = Vec::new();
    for (done, (line, mut job)) in jobs.into_iter().enumerate() {
        let left = minutes.map(|minutes| minutes.saturating_sub(start.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            unmeasured.push(line.name);
            continue;
        }
        job.limits.budget = left.map(|left| left / (count - done) as u32);
        for job in prepared(lab, vec![job])? {
            let measured = Measured::of(lab, job, false)?;
            measured.print(&mut io::stdout().lock())?;
            compared.push(MeasuredLine { line, measured });
        }
    }
    if !unmeasured.is_empty() {
        let names = unmeasured.join(", ");
        writeln!(io::stdout(), "\nThe time was up before: {names}")?;
    }
    let rows_of = compared
        .iter()
        .map(|one| (one.line.name, one.measured.rows.as_slice()));
    worst::print(&mut io::stdout().lock(), &rows_of.collect::<Vec<_>>())?;
    papers.finish(
        &mut io::stdout().lock(),
        || page::html(&compared, &unmeasured, &command),
        || whole(&compared, &command),
        || lines(compared.iter().map(|one| &one.measured.session)),
    )?;
    let counted = compared.into_iter().filter(|one| !one.line.may_not_complete);
    let rows: Vec<Row> = counted.flat_map(|one| one.measured.rows).collect();
    table::failures(&rows)
}

/// All runs as one JSON document.
fn whole(compared: &[MeasuredLine], command: &str) -> Value {
    let line = |MeasuredLine { line, measured }: &MeasuredLine| {
        json!({
            "name": line.name,
            "rounds": measured.session.rounds,
            "seconds": measured.session.elapsed.as_secs_f64(),
            "set_aside": measured.session.set_aside(),
            "others_share_of_cpu": measured.session.others,
            "rows": measured.rows,
            "runs": measured.session.records().collect::<Vec<_>>(),
        })
    };
    let lines: Vec<_> = compared.iter().map(line).collect();
    json!({ "command": command, "lines": lines })
}
