//! `warpweft bench`: one workload, the figures of every run, and what they come to.

use std::io::{self, Write};

use crate::cli::{BenchArgs, Job};
use crate::error::LabError;
use crate::explore::table;
use crate::harness::record::Record;
use crate::harness::session::{self, Observer};
use crate::harness::summary;
use crate::progress::Progress;
use crate::workloads::Request;

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
pub(crate) fn run(arguments: &BenchArgs) -> Result<(), LabError> {
    let Job {
        chosen,
        template,
        cells,
        pace,
        command: _,
    } = arguments.job()?;
    let (prepared, notes) = session::prepare(&template, cells)?;
    let mut printer = Printer {
        progress: Progress::new(),
        json: arguments.json,
    };
    for note in &notes {
        printer.progress.say(note);
    }
    let session = session::run(prepared, &pace, &mut printer)?;
    printer.progress.end();
    let rows = summary::rows(&session);
    // With --json, standard output holds the records and nothing else.
    let mut output: Box<dyn Write> = if arguments.json {
        Box::new(io::stderr())
    } else {
        Box::new(io::stdout())
    };
    table::print(&mut output, &chosen, &session, &rows)?;
    output.flush()?;
    table::failures(&rows)
}
