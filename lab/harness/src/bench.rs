//! `bench`: one workload, the figures of every run, and what they come to.

use std::io::{self, Write};

use crate::cli::{BenchArgs, Job};
use crate::error::LabError;
use crate::explore::table;
use crate::progress::Progress;
use crate::record::Record;
use crate::session::{self, CellRuns, Observer};
use crate::summary::{self, Row};
use crate::workload::{Lab, Request};

/// Prints each record as it comes, if that is asked for.
struct Printer {
    progress: Progress,
    json: bool,
}

impl Observer for Printer {
    fn begins(&mut self, done: usize, total: usize, request: &Request) {
        self.progress.begins(done, total, request);
    }

    fn ran(&mut self, record: &Record) -> Result<(), LabError> {
        if self.json {
            let line = serde_json::to_string(record).map_err(io::Error::from)?;
            let mut output = io::stdout().lock();
            writeln!(output, "{line}")?;
            output.flush()?;
        }
        Ok(())
    }

    fn failed(&mut self, _: &Request, reason: &str) {
        self.progress.say(&format!("did not complete: {reason}"));
    }
}

/// Runs the benchmark.
pub(crate) fn run(lab: &Lab, arguments: &BenchArgs) -> Result<(), LabError> {
    // What cannot run is refused before anything is measured.
    let prepared = arguments.jobs(lab)?.into_iter().map(|job| {
        let prepared = session::prepare(lab, &job.template, job.cells.clone())?;
        Ok((job, prepared))
    });
    let mut rows = Vec::new();
    for (job, (cells, notes)) in prepared.collect::<Result<Vec<_>, LabError>>()? {
        rows.extend(measure(lab, &job, cells, &notes, arguments.json)?);
    }
    table::failures(&rows)
}

/// Measures and prints what it came to.
fn measure(
    lab: &Lab,
    job: &Job,
    cells: Vec<CellRuns>,
    notes: &[String],
    json: bool,
) -> Result<Vec<Row>, LabError> {
    let mut printer = Printer {
        progress: Progress::new(),
        json,
    };
    for note in notes {
        printer.progress.say(note);
    }
    let session = session::run(lab, cells, &job.pace, &mut printer)?;
    printer.progress.end();
    let rows = summary::rows(&session);
    // With --json, standard output holds the records and nothing else.
    let mut output: Box<dyn Write> = if json {
        Box::new(io::stderr())
    } else {
        Box::new(io::stdout())
    };
    table::print(&mut output, &job.chosen, &session, &rows)?;
    output.flush()?;
    Ok(rows)
}
