//! `warpweft explore`: policies × worker counts, beside the peers; a table, a report, and one sentence of advice.

pub(crate) mod advice;
pub(crate) mod frontier;
pub(crate) mod table;

use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::json;

use crate::cli::{ExploreArgs, Job};
use crate::error::LabError;
use crate::harness::record::Record;
use crate::harness::session::{self, Observer, Session};
use crate::harness::summary::{self, Row};
use crate::output::Pending;
use crate::progress::Progress;
use crate::report::{self, Page};
use crate::workloads::Request;
use crate::workloads::spec::Chosen;

/// Shows how far it is.
struct Watcher(Progress);

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
pub(crate) fn run(arguments: &ExploreArgs) -> Result<(), LabError> {
    let Job {
        chosen,
        template,
        cells,
        pace,
        command,
    } = arguments.job()?;
    // Files that cannot be written are refused before a minute is spent on measuring.
    let default_path = || PathBuf::from(format!("reports/explore-{}.html", chosen.name.replace('/', "-")));
    let page = Pending::open(
        "write the report",
        &arguments.report.clone().unwrap_or_else(default_path),
    )?;
    let document = arguments
        .json
        .as_ref()
        .map(|path| Pending::open("write the JSON document", path))
        .transpose()?;

    let (prepared, notes) = session::prepare(&template, cells)?;
    let mut watcher = Watcher(Progress::new());
    for note in &notes {
        watcher.0.say(note);
    }
    let session = session::run(prepared, &pace, &mut watcher)?;
    watcher.0.end();
    let rows = summary::rows(&session);
    let advice = advice::advise(&session, &rows, &chosen);

    // The table first: if a file cannot be written after all, nothing that was measured is lost. And the files in any
    // case: whoever reads the table may have gone (`| head`).
    let printed = print(&chosen, &session, &rows, &advice);
    let page = page.finish(&report::html(&Page {
        chosen: &chosen,
        template: &template,
        session: &session,
        rows: &rows,
        advice: &advice,
        notes: &notes,
        command: &command,
    }))?;
    let document = match document {
        Some(document) => Some(document.finish(&whole(&session, &rows, &advice, &command)?)?),
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
    table::failures(&rows)
}

/// Prints the table and the advice.
fn print(chosen: &Chosen, session: &Session, rows: &[Row], advice: &str) -> Result<(), LabError> {
    let mut output = io::stdout().lock();
    table::print(&mut output, chosen, session, rows)?;
    writeln!(output, "\n{advice}")?;
    output.flush()?;
    Ok(())
}

/// All runs and conclusions as one JSON document.
fn whole(session: &Session, rows: &[Row], advice: &str, command: &str) -> Result<String, LabError> {
    let frontier: Vec<_> = frontier::of_rows(rows)
        .into_iter()
        .map(|at| json!({ "contestant": rows[at].contestant, "workers": rows[at].workers }))
        .collect();
    let document = json!({
        "command": command,
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
    });
    Ok(serde_json::to_string_pretty(&document).map_err(io::Error::from)?)
}
