//! Signals of the operating system.

use super::io::handle::Async;
use signal_hook_registry::{SigId, register, unregister};
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use warpweft_platform::process;

/// The number of the signal that Ctrl-C sends: the same on every Unix.
const SIGINT: i32 = 2;

/// Waits for the next Ctrl-C.
///
/// After its first poll, Ctrl-C does not end the process any more, even if no task waits for it. A program
/// that still wants to end calls [`exit`](std::process::exit). All tasks that wait at that moment are woken.
/// Costs two descriptors while it waits.
///
/// # Errors
///
/// The system provides no descriptors, or as [`Async::new`].
///
/// ```no_run
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// runtime.block_on(warpweft::signal::ctrl_c())?;
/// runtime.shutdown();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn ctrl_c() -> io::Result<()> {
    let (writer, reader) = UnixStream::pair()?;
    writer.set_nonblocking(true)?;
    let reader = Async::new(reader)?;
    let here = process::generation();
    let tell = move || {
        // A forked child shares the pipe, but its signals are not meant for this process.
        if process::generation() == here {
            // One byte is enough: if the pipe is full, it has bytes already.
            let _ = rustix::io::write(&writer, &[0]);
        }
    };
    // SAFETY: the action does only what a signal handler may do: it reads an atomic and writes to a
    // descriptor that it owns, which does not block.
    let _registered = Registered(unsafe { register(SIGINT, tell) }?);
    reader.read_with(|mut pipe| pipe.read(&mut [0])).await.map(drop)
}

/// Unregisters the action when dropped.
struct Registered(SigId);

impl Drop for Registered {
    fn drop(&mut self) {
        unregister(self.0);
    }
}
