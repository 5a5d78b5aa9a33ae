//! Traces of the flight recorder: `trace view` makes a page with a timeline, and a workload replays the
//! tasks.

mod page;
mod picture;
mod read;
mod slowest;
mod tasks;
mod timeline;

use std::fs;
use std::io::{self, Write};
use std::num::NonZeroUsize;
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
    /// List the tasks that took longest from spawn to end, and say where the time of each went
    Slowest(SlowestArgs),
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
struct SlowestArgs {
    /// A file that `Snapshot::write_perfetto` has written
    file: PathBuf,
    /// How many tasks, at least one
    #[arg(long, short = 'n', value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(9))]
    top: NonZeroUsize,
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
    if let Some(cut) = timeline.cut {
        // Tasks without their ends are other work.
        return Err(refused(shown, &format!("{cut}; a replay needs a whole trace")));
    }
    tasks::tasks(&timeline).map_err(|error| refused(shown, &error))
}

/// Runs the command.
pub(crate) fn run(arguments: &TraceArgs) -> Result<(), LabError> {
    match &arguments.command {
        TraceCommand::View(ViewArgs { file, output }) => {
            let (timeline, title) = read(file)?;
            let page = page::page(&timeline, &title).map_err(|error| refused(file, &error))?;
            let path = beside(file, output.as_deref(), "html")?;
            let path = Pending::open("write the page", &path)?.finish(page)?;
            say(&format!("{} in {}", timeline.summary(None), path.display()))
        }
        TraceCommand::Slowest(SlowestArgs { file, top }) => {
            let (timeline, _) = read(file)?;
            say(slowest::slowest(&timeline, top.get()).text().trim_end())
        }
        TraceCommand::Svg(SvgArgs {
            file,
            output,
            from,
            to,
        }) => {
            let (timeline, _) = read(file)?;
            let end = to.unwrap_or(timeline.span as f64 / 1e6);
            if !(0.0 <= *from && *from < end) {
                return Err(LabError::Usage(format!(
                    "a picture from {from} ms to {end} ms: it must begin at 0 or later, and before its end"
                )));
            }
            let (from, to) = ((from * 1e6) as u64, (end * 1e6) as u64);
            let picture = picture::svg(&timeline, from, to);
            let path = beside(file, output.as_deref(), "svg")?;
            let path = Pending::open("write the picture", &path)?.finish(picture)?;
            say(&format!(
                "{} in {}",
                timeline.summary(Some((from, to))),
                path.display()
            ))
        }
    }
}

/// The subcommands, for the message about one that does not exist.
pub(crate) const COMMANDS: [&str; 3] = ["view", "slowest", "svg"];

fn refused(file: &Path, reason: &dyn ToString) -> LabError {
    LabError::file("read the trace", file, &reason.to_string())
}

/// Reads a trace, and its name. Warns of what it lacks.
fn read(file: &Path) -> Result<(Timeline, String), LabError> {
    let bytes = fs::read(file).map_err(|error| refused(file, &error))?;
    let timeline = read::timeline(&bytes).map_err(|error| refused(file, &error))?;
    for lack in timeline.lacks() {
        // Nothing can be done if standard error is closed.
        drop(writeln!(io::stderr(), "warning: {}: {lack}", file.display()));
    }
    let title = file.file_name().unwrap_or_default().to_string_lossy();
    Ok((timeline, title.into_owned()))
}

/// The file that is written: the one that is named, or one beside the trace.
///
/// # Errors
///
/// It would be written over the trace.
fn beside(file: &Path, output: Option<&Path>, ending: &str) -> Result<PathBuf, LabError> {
    let Some(output) = output else {
        let mut name = file.to_path_buf().into_os_string();
        name.push(format!(".{ending}"));
        return Ok(PathBuf::from(name));
    };
    // Where there is no file yet, none can be lost.
    if let (Ok(from), Ok(to)) = (file.canonicalize(), output.canonicalize())
        && from == to
    {
        return Err(LabError::Usage(format!(
            "`{}` is the trace itself, which would be lost: name another file for what is made of it",
            output.display()
        )));
    }
    Ok(output.to_path_buf())
}

/// Prints a text.
fn say(text: &str) -> Result<(), LabError> {
    Ok(writeln!(io::stdout(), "{text}")?)
}
