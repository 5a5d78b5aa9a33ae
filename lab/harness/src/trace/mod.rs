//! Traces of the flight recorder: `trace view` makes a page with a timeline, and a workload replays the
//! tasks.

mod page;
mod picture;
mod read;
mod tasks;
mod timeline;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::error::LabError;
use crate::output::Pending;
use timeline::Timeline;

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
    /// Draw the timeline, or a part of it, as a picture for a document
    Svg(SvgArgs),
}

#[derive(Debug, Args)]
struct ViewArgs {
    /// A file that `Snapshot::write_perfetto` has written
    file: PathBuf,
    /// The page [default: the file's name with `.html`]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SvgArgs {
    /// A file that `Snapshot::write_perfetto` has written
    file: PathBuf,
    /// The picture [default: the file's name with `.svg`]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where the picture begins, in milliseconds since the trace began
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    from: f64,
    /// Where it ends [default: where the trace ends]
    #[arg(long, value_name = "MS")]
    to: Option<f64>,
}

pub use tasks::{Begins, RecordedPush, RecordedStep, RecordedTask};

/// A trace of two workers: what `cargo run --example record` of the library writes.
const EXAMPLE: &[u8] = include_bytes!("example.perfetto-trace");

/// Reads the tasks of a trace file for a replay, in the order in which they first ran; without a file those
/// of a small trace that comes with the package.
///
/// # Errors
///
/// The file cannot be read, is no whole trace of the flight recorder, or has no steps of tasks.
pub fn recorded_tasks(file: Option<&Path>) -> Result<Vec<RecordedTask>, LabError> {
    let shown = file.unwrap_or(Path::new("the example"));
    let bytes = match file {
        Some(file) => fs::read(file).map_err(|error| refused(file, &error))?,
        None => EXAMPLE.to_vec(),
    };
    let timeline = read::timeline(&bytes).map_err(|error| refused(shown, &error))?;
    tasks::tasks(&timeline).map_err(|error| refused(shown, &error))
}

/// Runs the command.
pub(crate) fn run(arguments: &TraceArgs) -> Result<(), LabError> {
    match &arguments.command {
        TraceCommand::View(ViewArgs { file, output }) => write(
            "write the page",
            file,
            output.as_deref(),
            "html",
            |timeline, title| page::page(timeline, title).map_err(|error| refused(file, &error)),
        ),
        TraceCommand::Svg(SvgArgs {
            file,
            output,
            from,
            to,
        }) => write(
            "write the picture",
            file,
            output.as_deref(),
            "svg",
            |timeline, _| {
                let end = to.unwrap_or(timeline.span as f64 / 1e6);
                if !(0.0 <= *from && *from < end) {
                    return Err(LabError::Usage(format!(
                        "a picture from {from} ms to {end} ms: it must begin at 0 or later, and before its end"
                    )));
                }
                Ok(picture::svg(timeline, (from * 1e6) as u64, (end * 1e6) as u64))
            },
        ),
    }
}

fn refused(file: &Path, reason: &dyn ToString) -> LabError {
    LabError::file("read the trace", file, &reason.to_string())
}

/// Reads a trace, and writes what `make` makes of it beside it or elsewhere.
fn write(
    what: &'static str,
    file: &Path,
    output: Option<&Path>,
    ending: &str,
    make: impl FnOnce(&Timeline, &str) -> Result<String, LabError>,
) -> Result<(), LabError> {
    let bytes = fs::read(file).map_err(|error| refused(file, &error))?;
    let timeline = read::timeline(&bytes).map_err(|error| refused(file, &error))?;
    let output = output.map_or_else(
        || {
            let mut name = file.to_path_buf().into_os_string();
            name.push(format!(".{ending}"));
            PathBuf::from(name)
        },
        Path::to_path_buf,
    );
    let title = file.file_name().unwrap_or_default().to_string_lossy();
    let made = make(&timeline, &title)?;
    let path = Pending::open(what, &output)?.finish(made)?;
    println!("{} in {}", timeline.summary(), path.display());
    Ok(())
}
