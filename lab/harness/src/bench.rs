//! `bench`: runs one workload and prints the figures of its runs.

use std::io::{self, Write};

use clap::Args;

use crate::args::{Defaults, Selection, Usual};
use crate::error::LabError;
use crate::lab::Lab;
use crate::machine::cpus;
use crate::measured::{Measured, prepared};
use crate::session::Job;
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
        let pace = self.selection.pace(self.repeat, None)?;
        self.selection.jobs(lab, &self.workload, false, &defaults, &pace)
    }
}

/// Runs the benchmark.
pub(crate) fn run(lab: &Lab, arguments: &BenchArgs) -> Result<(), LabError> {
    let mut rows = Vec::new();
    for job in prepared(lab, arguments.jobs(lab)?)? {
        let measured = Measured::of(lab, job, arguments.json)?;
        // With --json, standard output holds the records and nothing else.
        let mut output: Box<dyn Write> = match arguments.json {
            true => Box::new(io::stderr()),
            false => Box::new(io::stdout()),
        };
        measured.print(&mut output)?;
        rows.extend(measured.rows);
    }
    table::failures(&rows)
}
