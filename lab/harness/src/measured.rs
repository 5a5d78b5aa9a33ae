//! A job that was run, with its session and its figures, and the files into which they are written.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::error::LabError;
use crate::lab::Lab;
use crate::output::Pending;
use crate::progress::Progress;
use crate::session::{self, CellRuns, Job, Session};
use crate::summary::{self, Row};
use crate::table;
use crate::text::csv_bytes;

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
        let mut progress = Progress::new(records, job.limits.budget);
        for note in &notes {
            progress.say(note);
        }
        let session = session::run(lab, cells, &job.limits, &mut progress)?;
        progress.end();
        let mut rows = summary::rows(&session);
        if job.chosen.workload.about().open_load {
            for row in &mut rows {
                (row.over_best_peer, row.over_best_policy) = (None, None);
            }
        }
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

/// The files that a command writes beside its table.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Outputs {
    /// Where the report goes, a page in HTML; its folder must exist
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Writes each run as a line of comma-separated values
    #[arg(long, value_name = "FILE.csv")]
    runs: Option<PathBuf>,

    /// Opens the report in the browser
    #[arg(long)]
    open: bool,
}

impl Outputs {
    /// Returns true if the user says where the report goes.
    pub(crate) fn names_report(&self) -> bool {
        self.report.is_some()
    }
}

/// Those files, before they are written.
pub(crate) struct Papers {
    report: Option<Pending>,
    document: Option<Pending>,
    lines: Option<Pending>,
    open: bool,
}

impl Papers {
    /// Files that cannot be written are refused before anything is measured. `usual` is the place of the
    /// report if none is named.
    pub(crate) fn open(
        outputs: &Outputs,
        usual: Option<&str>,
        json: Option<&PathBuf>,
    ) -> Result<Self, LabError> {
        let json = json.map(|path| Pending::open("write the JSON document", path));
        let lines = outputs
            .runs
            .as_ref()
            .map(|path| Pending::open("write the table", path));
        let (document, lines) = (json.transpose()?, lines.transpose()?);
        // The last one, because it may make a folder.
        let report = match (&outputs.report, usual) {
            (Some(path), _) => Some(Pending::open("write the report", path)?),
            (None, Some(usual)) => Some(Pending::in_own_folder("write the report", Path::new(usual))?),
            (None, None) if outputs.open => {
                return Err(LabError::Usage(String::from(
                    "--open: say where the report goes: --report FILE",
                )));
            }
            (None, None) => None,
        };
        Ok(Self {
            report,
            document,
            lines,
            open: outputs.open,
        })
    }

    /// Writes them, and says in `output` where they are.
    pub(crate) fn finish(
        self,
        output: &mut dyn Write,
        html: impl FnOnce() -> String,
        document: impl FnOnce() -> Value,
        lines: impl FnOnce() -> Result<Vec<u8>, csv::Error>,
    ) -> Result<(), LabError> {
        let report = self.report.map(|pending| pending.finish(html())).transpose()?;
        let json = |pending: Pending| {
            let text = serde_json::to_string_pretty(&document()).map_err(io::Error::from)?;
            pending.finish(text)
        };
        let json = self.document.map(json).transpose()?;
        let lines = |pending: Pending| pending.finish(lines().map_err(io::Error::from)?);
        let lines = self.lines.map(lines).transpose()?;
        let files = [("Report: ", &report), ("JSON:   ", &json), ("CSV:    ", &lines)];
        let mut gap = "\n";
        for (name, path) in files {
            if let Some(path) = path {
                writeln!(output, "{gap}{name}{}", path.display())?;
                gap = "";
            }
        }
        output.flush()?;
        if let Some(report) = report.filter(|_| self.open) {
            opener::open(&report).map_err(|error| LabError::file("open", &report, &error))?;
        }
        Ok(())
    }
}

/// The names of the columns of a table of runs.
const COLUMNS: [&str; 19] = [
    "workload",
    "parameters",
    "runtime",
    "policy",
    "workers",
    "round",
    "counts",
    "set_aside",
    "operations",
    "seconds",
    "throughput",
    "p50_ns",
    "p99_ns",
    "p999_ns",
    "p9999_ns",
    "max_ns",
    "probe_ns",
    "measures",
    "simulated",
];

/// All runs of these sessions, a line each; what a run does not have is empty.
pub(crate) fn lines<'a>(sessions: impl IntoIterator<Item = &'a Session>) -> Result<Vec<u8>, csv::Error> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(COLUMNS)?;
    for run in sessions.into_iter().flat_map(Session::records) {
        let outcome = &run.outcome;
        let latency = outcome
            .latency
            .as_ref()
            .map_or([const { String::new() }; 5], |latency| {
                [latency.p50, latency.p99, latency.p999, latency.p9999, latency.max]
                    .map(|value| value.to_string())
            });
        let measures = outcome
            .measures
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let mut cells = vec![
            run.workload.clone(),
            run.parameters.to_string(),
            run.runtime.clone(),
            run.policy.clone().unwrap_or_default(),
            run.workers.to_string(),
            run.round.to_string(),
            run.kept.to_string(),
            run.set_aside.is_some().to_string(),
            outcome.operations.to_string(),
            outcome.seconds.to_string(),
            outcome.throughput.to_string(),
        ];
        cells.extend(latency);
        cells.push(run.probe_ns.map_or_else(String::new, |probe| probe.to_string()));
        cells.push(measures.collect::<Vec<_>>().join(" "));
        let simulated = outcome.simulated.as_ref();
        cells.push(simulated.map_or_else(String::new, |simulated| simulated.machine.clone()));
        table.write_record(cells)?;
    }
    csv_bytes(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::session;

    #[test]
    fn each_run_is_a_line_with_all_columns() {
        let session = session(&[
            ("rayon", None, 2, &[10.0, 20.0], 5),
            ("home", Some("a,b"), 1, &[30.0], 7),
        ]);
        let text = String::from_utf8(lines([&session]).unwrap()).unwrap();
        let mut table = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(table.headers().unwrap(), COLUMNS.as_slice());
        let lines: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!((&lines[1][10], &lines[1][11], &lines[1][3]), ("20", "500", ""));
    }
}
