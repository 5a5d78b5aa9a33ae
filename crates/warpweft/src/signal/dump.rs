//! Dumps on request of a signal.

use super::Registered;
use crate::compose::Pool;
use crate::observe::dump::Dump;
use crate::runtime::Runtime;
use signal_hook_registry::register;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use warpweft_platform::process::{SIGUSR2, generation};
use warpweft_platform::thread::{JoinHandle, spawn_named};

/// What the handler writes into the pipe, and what the end writes.
const ASKED: u8 = 1;
const OVER: u8 = 0;

/// Dumps at each `SIGUSR2`, until it is dropped: see [`dump_on_signal`].
#[derive(Debug)]
#[must_use = "dumps end when it is dropped"]
pub struct DumpOnSignal {
    /// First: no signal comes through afterwards.
    registered: Option<Registered>,
    writer: UnixStream,
    thread: Option<JoinHandle<()>>,
    here: u64,
}

/// Calls `tell` with a [dump](Runtime::dump) of all pools at each `SIGUSR2`, on a thread that does nothing
/// else: it also works while all workers are stuck. Signals that come during a dump count as one. Costs a
/// thread and two descriptors.
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
    let (writer, mut reader) = UnixStream::pair()?;
    let signals = writer.try_clone()?;
    signals.set_nonblocking(true)?;
    let here = generation();
    let thread = spawn_named(&format!("{}-dump", runtime.name()), None, move || {
        let mut asked = [OVER; 64];
        while let Ok(read) = reader.read(&mut asked) {
            if read == 0 || asked[..read].contains(&OVER) {
                return;
            }
            tell(Dump::of(&pools));
        }
    })?;
    let ask = move || {
        // A forked child shares the pipe, but its signals are not meant for this process.
        if generation() == here {
            // One byte is enough: if the pipe is full, it has bytes already.
            let _ = rustix::io::write(&signals, &[ASKED]);
        }
    };
    let mut dumps = DumpOnSignal {
        registered: None,
        writer,
        thread: Some(thread),
        here,
    };
    // SAFETY: the action does only what a signal handler may do: it reads an atomic and writes to a
    // descriptor that it owns, which does not block.
    dumps.registered = Some(Registered(unsafe { register(SIGUSR2, ask) }?));
    Ok(dumps)
}

impl Drop for DumpOnSignal {
    fn drop(&mut self) {
        drop(self.registered.take());
        // In a forked child the thread stayed in the parent.
        if generation() != self.here {
            return;
        }
        // The pipe may be full: then the thread reads it, and there is room.
        while let Err(error) = rustix::io::write(&self.writer, &[OVER]) {
            if error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR {
                break;
            }
            warpweft_platform::thread::yield_now();
        }
        // Its panic was reported by the panic hook.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
