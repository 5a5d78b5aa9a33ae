//! The arguments of `compare`, and the sessions that they ask for.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Defaults, Job, Selection, Usual};
use crate::compare::plan::{self, Line};
use crate::error::LabError;
use crate::lab::Lab;

/// `compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Which comparisons: cycle, churn/few, transfer [default: all]
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

    /// Rounds at most; the first is not counted unless it is the only one [default: 16; with --quick 4]
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,

    /// Seconds after which a single run is ended [default: 120]
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,

    /// Where the report goes [default: reports/compare.html]
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Writes all runs as one JSON document
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// The lines of a comparison, with what each is to run.
type Jobs = Vec<(Line, Job)>;

impl CompareArgs {
    /// What to run, line by line, and how long it may take.
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
                workers: self.workers.clone(),
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
            let pace = selection.pace(self.repeat.unwrap_or(if self.quick { 4 } else { 16 }), None)?;
            let parts = selection.jobs(lab, line.workload, false, &defaults, &pace)?;
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
