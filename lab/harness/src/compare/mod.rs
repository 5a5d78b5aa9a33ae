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
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::{CompareArgs, Job};
use crate::error::LabError;
use crate::explore::Watcher;
use crate::explore::table;
use crate::output::Pending;
use crate::progress::Progress;
use crate::report::compare as page;
use crate::session::{self, Session};
use crate::summary::{self, Row};
use crate::workload::{Chosen, Lab};
use plan::Line;

/// A line that was measured.
pub(crate) struct Compared {
    /// Which.
    pub(crate) line: Line,
    /// The workload with its parameters.
    pub(crate) chosen: Chosen,
    /// The runs.
    pub(crate) session: Session,
    /// What they came to.
    pub(crate) rows: Vec<Row>,
    /// Who was left out, and why.
    pub(crate) notes: Vec<String>,
}

/// Compares.
pub(crate) fn run(lab: &Lab, arguments: &CompareArgs) -> Result<(), LabError> {
    let (jobs, minutes) = arguments.jobs(lab)?;
    // Files that cannot be written are refused before an hour is spent on measuring.
    let default_path = || PathBuf::from("reports/compare.html");
    let report = Pending::open(
        "write the report",
        &arguments.report.clone().unwrap_or_else(default_path),
    )?;
    let document = arguments.json.as_ref();
    let document = document
        .map(|path| Pending::open("write the JSON document", path))
        .transpose()?;

    let (start, count) = (Instant::now(), jobs.len());
    let command = jobs
        .first()
        .map(|(_, job)| job.command.clone())
        .unwrap_or_default();
    let mut compared = Vec::new();
    let mut unmeasured = Vec::new();
    for (done, (line, job)) in jobs.into_iter().enumerate() {
        let left = minutes.map(|minutes| minutes.saturating_sub(start.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            unmeasured.push(line.name);
            continue;
        }
        let share = left.map(|left| left / (count - done) as u32);
        compared.push(measure(lab, line, job, share)?);
    }
    if !unmeasured.is_empty() {
        let names = unmeasured.join(", ");
        writeln!(io::stdout(), "\nThe time was up before: {names}")?;
    }
    let report = report.finish(page::html(&compared, &unmeasured, &command))?;
    let document = match document {
        Some(document) => Some(document.finish(&whole(&compared, &command)?)?),
        None => None,
    };
    let mut output = io::stdout().lock();
    writeln!(output, "\nReport: {}", report.display())?;
    if let Some(document) = document {
        writeln!(output, "JSON:   {}", document.display())?;
    }
    output.flush()?;
    drop(output);
    let failures: Vec<Row> = compared
        .into_iter()
        .filter(|one| !one.line.may_not_complete)
        .flat_map(|one| one.rows)
        .collect();
    table::failures(&failures)
}

/// Measures a line and prints its table.
fn measure(lab: &Lab, line: Line, job: Job, share: Option<Duration>) -> Result<Compared, LabError> {
    let Job {
        chosen,
        template,
        cells,
        mut pace,
        command: _,
    } = job;
    pace.budget = share;
    let (prepared, notes) = session::prepare(lab, &template, cells)?;
    let mut watcher = Watcher(Progress::new());
    for note in &notes {
        watcher.0.say(note);
    }
    let session = session::run(lab, prepared, &pace, &mut watcher)?;
    watcher.0.end();
    let rows = summary::rows(&session);
    let mut output = io::stdout().lock();
    table::print(&mut output, &chosen, &session, &rows)?;
    output.flush()?;
    Ok(Compared {
        line,
        chosen,
        session,
        rows,
        notes,
    })
}

/// All runs as one JSON document.
fn whole(compared: &[Compared], command: &str) -> Result<String, LabError> {
    let lines: Vec<_> = compared
        .iter()
        .map(|one| {
            json!({
                "name": one.line.name,
                "rounds": one.session.rounds,
                "seconds": one.session.elapsed.as_secs_f64(),
                "set_aside": one.session.set_aside(),
                "others_share_of_cpu": one.session.others,
                "rows": one.rows,
                "runs": one.session.records().collect::<Vec<_>>(),
            })
        })
        .collect();
    let document = json!({ "command": command, "lines": lines });
    Ok(serde_json::to_string_pretty(&document).map_err(io::Error::from)?)
}
