//! Snapshots of the flight recorder on request of a signal.

use super::on_signal::OnSignal;
use crate::observe::recorder::snapshot::Snapshot;
use crate::runtime::Runtime;
use std::io;
use warpweft_platform::process::SIGUSR1;

/// Copies the flight recorder at each `SIGUSR1`, until it is dropped: see [`record_on_signal`].
#[derive(Debug)]
#[must_use = "snapshots end when it is dropped"]
pub struct RecordOnSignal {
    _answers: OnSignal,
}

/// Calls `tell` with a [snapshot](crate::Recorder::snapshot) of the flight recorder of all pools at each
/// `SIGUSR1`, on a thread that does nothing else: it also works while all workers are stuck. Signals that
/// come during a snapshot count as one. Costs a thread and two descriptors.
///
/// The signal does not end the process any more, even after the result was dropped. A forked child is not
/// concerned: its signals call nothing. A panic of `tell` ends the thread, and so the snapshots. A program
/// that chose `SIGUSR1` for [stacks](crate::Builder::stack_signal) gets a snapshot at each of these, too.
///
/// # Errors
///
/// The system provides no descriptors or no thread, or refuses the handler.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::fs::File;
/// use std::io::BufWriter;
///
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// let path = std::env::temp_dir().join("asked.pftrace");
/// let _snapshots = warpweft::signal::record_on_signal(&runtime, move |snapshot| {
///     let written = File::create(&path).and_then(|file| snapshot.write_perfetto(BufWriter::new(file)));
///     if let Err(error) = written {
///         eprintln!("{}: {error}", path.display());
///     }
/// })?;
/// // In a shell: kill -USR1 PID
/// # Ok(())
/// # }
/// ```
pub fn record_on_signal(
    runtime: &Runtime,
    mut tell: impl FnMut(Snapshot) + Send + 'static,
) -> io::Result<RecordOnSignal> {
    let recorder = runtime.recorder();
    let name = format!("{}-record", runtime.name());
    let answers = OnSignal::new(SIGUSR1, &name, move || tell(recorder.snapshot()))?;
    Ok(RecordOnSignal { _answers: answers })
}
