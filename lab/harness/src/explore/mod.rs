//! `explore`: policies × worker counts, beside the peers; a table, a report, and one sentence of advice.

pub(crate) mod advice;
pub(crate) mod frontier;
pub(crate) mod table;

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::{ExploreArgs, Job};
use crate::error::LabError;
use crate::output::Pending;
use crate::progress::Progress;
use crate::record::Record;
use crate::report::{self, Page};
use crate::session::{self, CellRuns, Observer, Session};
use crate::summary::{self, Row};
use crate::workload::{Lab, Request};

/// Shows how far it is.
pub(crate) struct Watcher(pub(crate) Progress);

impl Observer for Watcher {
    fn begins(&mut self, done: usize, total: usize, request: &Request) {
        self.0.begins(done, total, request);
    }

    fn ran(&mut self, _: &Record) -> Result<(), LabError> {
        Ok(())
    }

    fn failed(&mut self, _: &Request, reason: &str) {
        self.0.say(&format!("did not complete: {reason}"));
    }
}

/// Explores: measures, prints the table and the advice, writes the report.
pub(crate) fn run(lab: &Lab, arguments: &ExploreArgs) -> Result<(), LabError> {
    let jobs = arguments.jobs(lab)?;
    // Files that cannot be written are refused before a minute is spent on measuring.
    let name = jobs
        .first()
        .map_or_else(String::new, |job| job.chosen.name.replace('/', "-"));
    let default_path = || PathBuf::from(format!("reports/explore-{name}.html"));
    let page = Pending::open(
        "write the report",
        &arguments.report.clone().unwrap_or_else(default_path),
    )?;
    let document = arguments
        .json
        .as_ref()
        .map(|path| Pending::open("write the JSON document", path))
        .transpose()?;

    let prepared = jobs.into_iter().map(|job| {
        let prepared = session::prepare(lab, &job.template, job.cells.clone())?;
        Ok((job, prepared))
    });
    // The tables first: if a file cannot be written after all, nothing that was measured is lost. And the files in any
    // case: whoever reads the tables may have gone (`| head`).
    let mut printed = Ok(());
    let mut explored = Vec::new();
    for (job, (cells, notes)) in prepared.collect::<Result<Vec<_>, LabError>>()? {
        let one = Explored::measure(lab, job, cells, notes)?;
        printed = printed.and_then(|()| one.print());
        explored.push(one);
    }
    let pages: Vec<Page<'_>> = explored.iter().map(Explored::page).collect();
    let page = page.finish(report::html(&pages))?;
    let document = match document {
        Some(document) => Some(document.finish(whole(&explored)?)?),
        None => None,
    };
    printed?;
    let mut output = io::stdout().lock();
    writeln!(output, "\nReport: {}", page.display())?;
    if let Some(document) = document {
        writeln!(output, "JSON:   {}", document.display())?;
    }
    output.flush()?;
    drop(output);
    let rows: Vec<Row> = explored.into_iter().flat_map(|one| one.rows).collect();
    table::failures(&rows)
}

/// What was asked for, and what it came to.
struct Explored {
    job: Job,
    notes: Vec<String>,
    session: Session,
    rows: Vec<Row>,
    advice: String,
}

impl Explored {
    fn measure(lab: &Lab, job: Job, cells: Vec<CellRuns>, notes: Vec<String>) -> Result<Self, LabError> {
        let mut watcher = Watcher(Progress::new());
        for note in &notes {
            watcher.0.say(note);
        }
        let session = session::run(lab, cells, &job.pace, &mut watcher)?;
        watcher.0.end();
        let rows = summary::rows(&session);
        let advice = advice::advise(&session, &rows, &job.chosen);
        Ok(Self {
            job,
            notes,
            session,
            rows,
            advice,
        })
    }

    /// Prints the table and the advice.
    fn print(&self) -> Result<(), LabError> {
        let mut output = io::stdout().lock();
        table::print(&mut output, &self.job.chosen, &self.session, &self.rows)?;
        writeln!(output, "\n{}", self.advice)?;
        output.flush()?;
        Ok(())
    }

    fn page(&self) -> Page<'_> {
        Page {
            chosen: &self.job.chosen,
            template: &self.job.template,
            session: &self.session,
            rows: &self.rows,
            advice: &self.advice,
            notes: &self.notes,
            command: &self.job.command,
        }
    }

    /// All runs and conclusions.
    fn document(&self) -> Value {
        let Self {
            job,
            session,
            rows,
            advice,
            ..
        } = self;
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
}

/// One JSON document: an object, or an array of them if a setting has several values.
fn whole(explored: &[Explored]) -> Result<String, LabError> {
    let document = match explored {
        [one] => one.document(),
        several => several.iter().map(Explored::document).collect(),
    };
    Ok(serde_json::to_string_pretty(&document).map_err(io::Error::from)?)
}
