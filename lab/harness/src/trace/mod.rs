//! `trace view`: a trace of the flight recorder as a page with a timeline.

mod page;
mod read;

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::error::LabError;
use crate::output::Pending;

/// What to do with a trace.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Write an HTML page with a timeline: workers as lanes, tasks as slices, wakes as arrows
    View(ViewArgs),
}

#[derive(Debug, Args)]
struct ViewArgs {
    /// A file that `Snapshot::write_perfetto` has written
    file: PathBuf,
    /// The page [default: the file's name with `.html`]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &TraceArgs) -> Result<(), LabError> {
    let TraceCommand::View(ViewArgs { file, output }) = &arguments.command;
    let refused = |reason: &dyn ToString| LabError::file("read the trace", file, &reason.to_string());
    let bytes = fs::read(file).map_err(|error| refused(&error))?;
    let timeline = read::timeline(&bytes).map_err(|error| refused(&error))?;
    let output = output.clone().unwrap_or_else(|| {
        let mut name = file.clone().into_os_string();
        name.push(".html");
        PathBuf::from(name)
    });
    let pending = Pending::open("write the page", &output)?;
    let title = file.file_name().unwrap_or_default().to_string_lossy();
    let page = page::page(&timeline, &title).map_err(|error| refused(&error))?;
    let path = pending.finish(page)?;
    println!("{} in {}", timeline.summary(), path.display());
    Ok(())
}
