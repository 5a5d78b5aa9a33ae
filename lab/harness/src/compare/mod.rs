//! `compare`: the whole set of comparisons, in one go and on one page, with what was published beside it.
//!
//! ```text
//!  plan.rs       what is compared: the lines
//!  published.rs  what others found
//!  mod.rs        runs line after line, each a session of interleaved rounds, within the time that is left
//!                                                                       ──▶ report::compare, the page
//! ```
//!
//! Invariants
//! - A line is measured whole or not at all: contestants are compared within its rounds.
//! - What does not complete is a figure where that is what is asked; anywhere else it is an error in the end.

pub(crate) mod plan;

use std::io::{self, Write};
use std::time::Instant;

use serde_json::{Value, json};

use crate::cli::CompareArgs;
use crate::error::LabError;
use crate::explore::table;
use crate::lab::Lab;
use crate::measured::{Measured, Papers, prepared};
use crate::report::compare as page;
use crate::summary::Row;
use plan::Line;

/// A line that was measured.
pub(crate) struct Compared {
    /// Which.
    pub(crate) line: Line,
    /// What it came to.
    pub(crate) measured: Measured,
}

/// Compares.
pub(crate) fn run(lab: &Lab, arguments: &CompareArgs) -> Result<(), LabError> {
    let (jobs, minutes) = arguments.jobs(lab)?;
    let papers = Papers::open(
        arguments.report.as_ref(),
        "reports/compare.html",
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
        job.pace.budget = left.map(|left| left / (count - done) as u32);
        for job in prepared(lab, vec![job])? {
            let measured = Measured::of(lab, job, false)?;
            measured.print(&mut io::stdout().lock())?;
            compared.push(Compared { line, measured });
        }
    }
    if !unmeasured.is_empty() {
        let names = unmeasured.join(", ");
        writeln!(io::stdout(), "\nThe time was up before: {names}")?;
    }
    let html = page::html(&compared, &unmeasured, &command);
    papers.finish(&html, || whole(&compared, &command))?;
    let counted = compared.into_iter().filter(|one| !one.line.may_not_complete);
    let rows: Vec<Row> = counted.flat_map(|one| one.measured.rows).collect();
    table::failures(&rows)
}

/// All runs as one JSON document.
fn whole(compared: &[Compared], command: &str) -> Value {
    let line = |Compared { line, measured }: &Compared| {
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
