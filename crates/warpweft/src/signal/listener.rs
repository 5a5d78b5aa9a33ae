//! Signals that ask a process to end, as futures: one pipe for all that a listener hears.

use super::Registered;
use crate::io::handle::Async;
use signal_hook_registry::register;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use warpweft_platform::process;

/// A signal by which a process is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// `SIGINT`, which Ctrl-C sends.
    Interrupt,
    /// `SIGTERM`, which `kill` and service managers send.
    Terminate,
    /// `SIGHUP`: the terminal is gone. Daemons take it as a request to read their configuration again.
    Hangup,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Interrupt, Self::Terminate, Self::Hangup];

    fn number(self) -> i32 {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::Hangup => libc::SIGHUP,
        }
    }
}

/// Hears signals from the moment on when it is made, also between two calls of [`next`](Self::next).
///
/// A signal that has been listened for once does not end the process any more, even after the listener was
/// dropped. A program that still wants to end calls [`exit`](std::process::exit). Each listener hears each
/// signal. Costs two descriptors.
///
/// ```no_run
/// use warpweft::signal::{Signal, Signals};
///
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// let signal = runtime.block_on(async {
///     let signals = Signals::new(&Signal::ALL)?;
///     signals.next().await
/// })?;
/// println!("ending, because of {signal:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Signals {
    reader: Async<UnixStream>,
    /// Before the writer's last share is dropped: no handler writes afterwards.
    _registered: Vec<Registered>,
}

impl Signals {
    /// Listens for these signals.
    ///
    /// # Errors
    ///
    /// The system provides no descriptors or refuses a handler, or as
    /// [`Async::new`](crate::io::Async::new).
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        let (writer, reader) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        let (reader, writer) = (Async::new(reader)?, Arc::new(writer));
        let here = process::generation();
        let mut registered = Vec::with_capacity(signals.len());
        for &signal in signals {
            let writer = Arc::clone(&writer);
            let tell = move || {
                // A forked child shares the pipe, but its signals are not meant for this process.
                if process::generation() == here {
                    // If the pipe is full, thousands of signals are in it already.
                    let _ = rustix::io::write(&writer, &[signal as u8]);
                }
            };
            // SAFETY: the action does only what a signal handler may do: it reads an atomic and writes to a
            // descriptor that it shares, which does not block.
            registered.push(Registered(unsafe { register(signal.number(), tell) }?));
        }
        Ok(Self {
            reader,
            _registered: registered,
        })
    }

    /// Waits for the next signal. A signal that came since the last call counts. If the future is dropped, no
    /// signal is lost.
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub async fn next(&self) -> io::Result<Signal> {
        let mut byte = [0];
        let read = self.reader.read_with(|mut pipe| pipe.read(&mut byte)).await?;
        let signal = Signal::ALL.into_iter().find(|signal| *signal as u8 == byte[0]);
        signal
            .filter(|_| read == 1)
            .ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))
    }
}

/// Waits for the next `SIGTERM`, by which `kill` and service managers ask a process to end.
///
/// A signal between two calls is not heard, but ends nothing either: see [`Signals`].
///
/// # Errors
///
/// As [`Signals::new`] and [`Signals::next`].
pub async fn terminate() -> io::Result<()> {
    Signals::new(&[Signal::Terminate])?.next().await.map(drop)
}

/// Waits for the next `SIGHUP`: see [`terminate`].
///
/// # Errors
///
/// As [`Signals::new`] and [`Signals::next`].
pub async fn hangup() -> io::Result<()> {
    Signals::new(&[Signal::Hangup])?.next().await.map(drop)
}
