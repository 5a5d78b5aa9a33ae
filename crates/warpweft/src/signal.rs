//! Signals of the system.

use super::io::handle::Async;
use signal_hook_registry::{SigId, register, unregister};
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use warpweft_platform::process;

/// The number of the signal that Ctrl-C sends: the same on every Unix.
const SIGINT: i32 = 2;

/// Waits for the next Ctrl-C.
///
/// From its first poll on, Ctrl-C does not end the process any more, also not when nobody waits: who wants
/// that calls [`exit`](std::process::exit). Everyone who waits at that moment is told. Costs two descriptors
/// while it waits.
///
/// # Errors
///
/// The system gives no descriptors, or as [`Async::new`].
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
        // A forked child has the same pipe: its signals are not ours.
        if process::generation() == here {
            // One byte is enough: if there is no room, there are bytes.
            let _ = rustix::io::write(&writer, &[0]);
        }
    };
    // SAFETY: the action does what may be done in a signal handler: it reads an atomic and writes to a
    // descriptor that it owns, which does not block.
    let _registered = Registered(unsafe { register(SIGINT, tell) }?);
    reader.read_with(|mut pipe| pipe.read(&mut [0])).await.map(drop)
}

/// Takes the action off when dropped.
struct Registered(SigId);

impl Drop for Registered {
    fn drop(&mut self) {
        unregister(self.0);
    }
}
