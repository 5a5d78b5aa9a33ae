//! `bench`: one workload, the figures of every run, and what they come to.

use std::io::{self, Write};

use crate::cli::BenchArgs;
use crate::error::LabError;
use crate::explore::table;
use crate::lab::Lab;
use crate::measured::{Measured, prepared};

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
