//! `explore`: policies × worker counts, beside the peers; a table, a report, and one sentence of advice.

mod advice;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::args::{Defaults, Selection, Usual, seconds};
use crate::error::LabError;
use crate::frontier;
use crate::interrupt;
use crate::lab::Lab;
use crate::machine::cpus;
use crate::measured::{Measured, Outputs, Papers, lines, prepared};
use crate::report;
use crate::session::Job;
use crate::stats::pairs_needed;
use crate::summary::Row;
use crate::table;

/// `explore`.
#[derive(Args, Debug, Default)]
pub(crate) struct ExploreArgs {
    /// A workload, with a variant if you like: packet, packet/heavier [default: the usual one]
    #[arg(value_name = "WORKLOAD")]
    workload: Option<String>,

    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Rounds at most; the first is not counted unless it is the only one [default: 11, or more if advice
    /// needs more]
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,

    /// No round but the first is begun that would end later than this [default: 75]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    budget: Option<u64>,

    /// Everything once, in tiny sizes: shows that all works, and nothing else
    #[arg(long)]
    smoke: bool,

    /// Gives the advice even if other processes use the machine
    #[arg(long)]
    despite_load: bool,

    #[command(flatten)]
    outputs: Outputs,

    /// Writes all runs and conclusions as one JSON document
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl ExploreArgs {
    /// Returns the jobs, in their order.
    pub(crate) fn jobs(&self, lab: &Lab) -> Result<Vec<Job>, LabError> {
        let cpus = cpus();
        // `explore n=1000`: the first word is a setting already, the workload is the default.
        let mut selection = self.selection.clone();
        let workload = match self.workload.as_deref() {
            Some(setting) if setting.contains('=') => {
                selection.settings.insert(0, setting.to_owned());
                lab.usual
            }
            Some(workload) => workload,
            None => lab.usual,
        };
        let (repeat, budget) = if self.smoke { (1, None) } else { (11, Some(75)) };
        let budget = self.budget.or(budget).map(Duration::from_secs);
        let mut limits = self.selection.limits(self.repeat.unwrap_or(repeat), budget)?;
        limits.advises = true;
        let explored = lab.home().map(|(_, policies)| policies.explored());
        let defaults = Defaults {
            runtimes: if self.smoke { Usual::All } else { Usual::Explored },
            policies: explored.into_iter().flatten().map(ToString::to_string).collect(),
            workers: BTreeSet::from([1, cpus, 2 * cpus]).into_iter().collect(),
        };
        let mut jobs = selection.jobs(lab, workload, self.smoke, &defaults, &limits)?;
        for job in &mut jobs {
            let policies: BTreeSet<_> = job.cells.iter().filter_map(|cell| cell.policy.as_ref()).collect();
            let about = job.chosen.workload.about();
            job.limits.needed = pairs_needed(advice::comparisons(policies.len(), about));
            if self.repeat.is_none() && !self.smoke {
                // The first one does not count.
                job.limits.rounds = job.limits.rounds.max(job.limits.needed + 1);
            }
        }
        Ok(jobs)
    }
}

/// Explores: measures, prints the table and the advice, writes the report.
pub(crate) fn run(lab: &Lab, arguments: &ExploreArgs) -> Result<(), LabError> {
    let jobs = arguments.jobs(lab)?;
    let name = jobs
        .first()
        .map_or_else(String::new, |job| job.chosen.name.replace('/', "-"));
    let usual = format!("reports/explore-{name}.html");
    let papers = Papers::open(&arguments.outputs, Some(&usual), arguments.json.as_ref())?;
    let most_load = if arguments.despite_load {
        1.0
    } else {
        table::LOADED
    };
    let default = lab.home().map(|(_, policies)| policies.usual());
    // The tables first: if a file cannot be written after all, nothing that was measured is lost. And the
    // files in any case: the reader of the tables may have gone (`| head`).
    let mut printed = Ok(());
    let mut explored = Vec::new();
    interrupt::watch();
    for job in prepared(lab, jobs)? {
        let mut one = match Measured::of(lab, job, false) {
            // What was finished before is printed.
            Err(LabError::Interrupted(_)) if !explored.is_empty() => break,
            one => one?,
        };
        one.advice = advice::advise(&one.session, &one.rows, &one.job.chosen, default, most_load);
        printed = printed.and_then(|()| one.print(&mut io::stdout().lock()));
        explored.push(one);
        if interrupt::is_asked() {
            break;
        }
    }
    let written = papers.finish(
        &mut io::stdout().lock(),
        || report::explore::html("explore", &explored),
        || match explored.as_slice() {
            [one] => document(one),
            several => several.iter().map(document).collect(),
        },
        || lines(explored.iter().map(|one| &one.session)),
    );
    printed.and(written)?;
    if interrupt::is_asked() {
        return Err(LabError::Interrupted(String::from(
            "the figures are those of the rounds before",
        )));
    }
    let rows: Vec<Row> = explored.into_iter().flat_map(|one| one.rows).collect();
    table::failures(&rows)
}

/// All runs and conclusions.
fn document(explored: &Measured) -> Value {
    let Measured {
        job,
        session,
        rows,
        advice,
        ..
    } = explored;
    let frontier: Vec<_> = frontier::of_rows(rows)
        .into_iter()
        .map(|at| json!({ "contestant": rows[at].contestant, "workers": rows[at].workers }))
        .collect();
    json!({
        "command": job.command,
        "parameters": job.chosen.params,
        "machine": session.machine,
        "versions": session.versions,
        "rounds": session.rounds,
        "seconds": session.elapsed.as_secs_f64(),
        "set_aside": session.set_aside(),
        "others_share_of_cpu": session.others,
        "advice": advice,
        "frontier": frontier,
        "rows": rows,
        "runs": session.records().collect::<Vec<_>>(),
    })
}
