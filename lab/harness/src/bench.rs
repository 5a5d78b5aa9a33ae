//! `bench`: runs one workload and prints the figures of its runs.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;

use crate::args::{Defaults, Selection, Usual};
use crate::error::LabError;
use crate::lab::Lab;
use crate::machine::cpus;
use crate::measured::{Measured, Outputs, Papers, lines, prepared};
use crate::report;
use crate::session::Job;
use crate::summary::Row;
use crate::table;

/// `bench`.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// A workload, with a variant if you like: packet, packet/heavier
    #[arg(value_name = "WORKLOAD")]
    workload: String,

    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Rounds; the first is not counted unless it is the only one
    #[arg(long, value_name = "N", default_value_t = 11)]
    repeat: usize,

    /// One JSON object per run on standard output; the summary goes to standard error
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    outputs: Outputs,
}

impl BenchArgs {
    /// Returns the jobs, in their order.
    pub(crate) fn jobs(&self, lab: &Lab) -> Result<Vec<Job>, LabError> {
        let defaults = Defaults {
            runtimes: Usual::First,
            policies: lab
                .home()
                .map(|(_, policies)| policies.usual().to_owned())
                .into_iter()
                .collect(),
            workers: vec![cpus()],
        };
        let limits = self.selection.limits(self.repeat, None)?;
        self.selection
            .jobs(lab, &self.workload, false, &defaults, &limits)
    }
}

/// Runs the benchmark.
pub(crate) fn run(lab: &Lab, arguments: &BenchArgs) -> Result<(), LabError> {
    let papers = Papers::open(&arguments.outputs, None, None)?;
    let mut all = Vec::new();
    // With --json, standard output holds the records and nothing else.
    let output = || -> Box<dyn Write> {
        match arguments.json {
            true => Box::new(io::stderr()),
            false => Box::new(io::stdout()),
        }
    };
    for job in prepared(lab, arguments.jobs(lab)?)? {
        let measured = Measured::of(lab, job, arguments.json)?;
        measured.print(&mut output())?;
        all.push(measured);
    }
    papers.finish(
        &mut output(),
        || report::explore::html("bench", &all),
        || Value::Null,
        || lines(all.iter().map(|one| &one.session)),
    )?;
    let rows: Vec<Row> = all.into_iter().flat_map(|one| one.rows).collect();
    table::failures(&rows)
}
