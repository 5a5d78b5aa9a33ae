//! A job that was run, with its session and its figures, and the files into which they are written.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::LabError;
use crate::lab::Lab;
use crate::output::Pending;
use crate::progress::Progress;
use crate::session::{self, CellRuns, Job, Session};
use crate::summary::{self, Row};
use crate::table;

/// A job that was run.
pub(crate) struct Measured {
    /// The job.
    pub(crate) job: Job,
    /// The contestants that were left out, with the reasons.
    pub(crate) notes: Vec<String>,
    /// The runs.
    pub(crate) session: Session,
    /// Their figures.
    pub(crate) rows: Vec<Row>,
    /// The advice which policy to take, if that was asked for.
    pub(crate) advice: String,
}

/// A job with its cells, and notes on those that cannot run.
pub(crate) type Prepared = (Job, (Vec<CellRuns>, Vec<String>));

/// Prepares all jobs: what cannot run is refused before anything is measured.
pub(crate) fn prepared(lab: &Lab, jobs: Vec<Job>) -> Result<Vec<Prepared>, LabError> {
    let prepare = |job: Job| {
        let cells = session::prepare(lab, &job.template, job.cells.clone())?;
        Ok((job, cells))
    };
    jobs.into_iter().map(prepare).collect()
}

impl Measured {
    /// Runs a job; with `records` each run is printed as it comes.
    pub(crate) fn of(lab: &Lab, prepared: Prepared, records: bool) -> Result<Self, LabError> {
        let (job, (cells, notes)) = prepared;
        let mut progress = Progress::new(records, job.pace.budget);
        for note in &notes {
            progress.say(note);
        }
        let session = session::run(lab, cells, &job.pace, &mut progress)?;
        progress.end();
        let rows = summary::rows(&session);
        Ok(Self {
            job,
            notes,
            session,
            rows,
            advice: String::new(),
        })
    }

    /// Prints the table, and the advice.
    pub(crate) fn print(&self, output: &mut dyn Write) -> Result<(), LabError> {
        table::print(output, &self.job.chosen, &self.session, &self.rows)?;
        if !self.advice.is_empty() {
            writeln!(output, "\n{}", self.advice)?;
        }
        Ok(output.flush()?)
    }
}

/// A report, and a JSON document if one was asked for.
pub(crate) struct Papers {
    report: Pending,
    document: Option<Pending>,
}

impl Papers {
    /// Files that cannot be written are refused before anything is measured.
    pub(crate) fn open(
        report: Option<&PathBuf>,
        usual: &str,
        json: Option<&PathBuf>,
    ) -> Result<Self, LabError> {
        let report = report.map_or(Path::new(usual), PathBuf::as_path);
        let json = json.map(|path| Pending::open("write the JSON document", path));
        Ok(Self {
            report: Pending::open("write the report", report)?,
            document: json.transpose()?,
        })
    }

    /// Writes both, and says where they are.
    pub(crate) fn finish(self, html: &str, document: impl FnOnce() -> Value) -> Result<(), LabError> {
        let report = self.report.finish(html)?;
        let json = |pending: Pending| {
            let text = serde_json::to_string_pretty(&document()).map_err(io::Error::from)?;
            pending.finish(text)
        };
        let json = self.document.map(json).transpose()?;
        let mut output = io::stdout().lock();
        writeln!(output, "\nReport: {}", report.display())?;
        if let Some(json) = json {
            writeln!(output, "JSON:   {}", json.display())?;
        }
        Ok(output.flush()?)
    }
}
