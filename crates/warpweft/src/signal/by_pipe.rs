//! A signal as a byte in a pipe, where a handler interrupts any thread: on Unix.

use super::{Registered, SIGINT};
use crate::io::handle::Async;
use signal_hook_registry::register;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use warpweft_platform::process;

pub(super) async fn wait() -> io::Result<()> {
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
