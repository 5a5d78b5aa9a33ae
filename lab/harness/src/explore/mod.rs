//! `explore`: policies × worker counts, beside the peers; a table, a report, and one sentence of advice.

pub(crate) mod advice;
pub(crate) mod frontier;
pub(crate) mod table;

use std::io;

use serde_json::{Value, json};

use crate::cli::ExploreArgs;
use crate::error::LabError;
use crate::lab::Lab;
use crate::measured::{Measured, Papers, prepared};
use crate::report;
use crate::summary::Row;

/// Explores: measures, prints the table and the advice, writes the report.
pub(crate) fn run(lab: &Lab, arguments: &ExploreArgs) -> Result<(), LabError> {
    let jobs = arguments.jobs(lab)?;
    let name = jobs
        .first()
        .map_or_else(String::new, |job| job.chosen.name.replace('/', "-"));
    let usual = format!("reports/explore-{name}.html");
    let papers = Papers::open(arguments.report.as_ref(), &usual, arguments.json.as_ref())?;
    // The tables first: if a file cannot be written after all, nothing that was measured is lost. And the
    // files in any case: the reader of the tables may have gone (`| head`).
    let mut printed = Ok(());
    let mut explored = Vec::new();
    for job in prepared(lab, jobs)? {
        let mut one = Measured::of(lab, job, false)?;
        one.advice = advice::advise(&one.session, &one.rows, &one.job.chosen);
        printed = printed.and_then(|()| one.print(&mut io::stdout().lock()));
        explored.push(one);
    }
    let html = report::html(&explored);
    let written = papers.finish(&html, || match explored.as_slice() {
        [one] => document(one),
        several => several.iter().map(document).collect(),
    });
    printed.and(written)?;
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
