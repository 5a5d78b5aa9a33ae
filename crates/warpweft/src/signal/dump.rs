//! Dumps on request of a signal.

use super::on_signal::OnSignal;
use crate::compose::Pool;
use crate::observe::dump::Dump;
use crate::runtime::Runtime;
use std::io;
use warpweft_platform::process::SIGUSR2;

/// Dumps at each `SIGUSR2`, until it is dropped: see [`dump_on_signal`].
#[derive(Debug)]
#[must_use = "dumps end when it is dropped"]
pub struct DumpOnSignal {
    _answers: OnSignal,
}

/// Calls `tell` with a [dump](Runtime::dump) of all pools at each `SIGUSR2`, on a thread that does nothing
/// else: it also works while all workers are stuck. Signals that come during a dump count as one. Costs a
/// thread and two descriptors.
///
/// With the feature `stacks` it is a [dump with stacks](Runtime::dump_with_stacks) of at most 64 tasks.
///
/// The signal does not end the process any more, even after the result was dropped. A forked child is not
/// concerned: its signals call nothing. A panic of `tell` ends the thread, and so the dumps.
///
/// # Errors
///
/// The system provides no descriptors or no thread, or refuses the handler.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// let _dumps = warpweft::signal::dump_on_signal(&runtime, |dump| eprintln!("{dump}"))?;
/// // In a shell: kill -USR2 PID
/// # Ok(())
/// # }
/// ```
pub fn dump_on_signal(
    runtime: &Runtime,
    mut tell: impl FnMut(Dump) + Send + 'static,
) -> io::Result<DumpOnSignal> {
    let pools: Vec<Pool> = runtime.pools().to_vec();
    let name = format!("{}-dump", runtime.name());
    let answers = OnSignal::new(SIGUSR2, &name, move || tell(Dump::asked_for(&pools)))?;
    Ok(DumpOnSignal { _answers: answers })
}
