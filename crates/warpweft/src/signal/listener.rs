//! Signals that a program listens for, as futures: a counter for each signal, and a pipe that wakes tasks.
//!
//! # Invariants
//!
//! - A handler counts its signal before it writes to the pipe. So a signal is never lost, also if the pipe is
//!   full.
//! - While a signal is counted, the pipe has a byte, or a task that has emptied it is about to take a signal.
//!   If that task leaves others, it writes again.

use super::Registered;
use crate::io::handle::Async;
use signal_hook_registry::register;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::process;

/// A signal that a program can listen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// `SIGINT`, which Ctrl-C sends.
    Interrupt,
    /// `SIGTERM`, which `kill` and service managers send.
    Terminate,
    /// `SIGHUP`: the terminal is gone. Daemons take it as a request to read their configuration again.
    Hangup,
    /// `SIGQUIT`, which Ctrl-\ sends. It ends a process that does not listen for it, with a core dump.
    Quit,
    /// `SIGUSR1`, for what the program defines. [`record_on_signal`](super::record_on_signal) hears it, too.
    User1,
    /// `SIGUSR2`, for what the program defines. [`dump_on_signal`](super::dump_on_signal) hears it, too.
    User2,
}

impl Signal {
    /// Those by which a process is asked to end.
    pub const TO_END: [Self; 3] = [Self::Interrupt, Self::Terminate, Self::Hangup];

    /// All of them, also those by which a program is asked for something else: see
    /// [`TO_END`](Self::TO_END).
    pub const ALL: [Self; 6] = [
        Self::Interrupt,
        Self::Terminate,
        Self::Hangup,
        Self::Quit,
        Self::User1,
        Self::User2,
    ];

    fn number(self) -> i32 {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::Hangup => libc::SIGHUP,
            Self::Quit => libc::SIGQUIT,
            Self::User1 => process::SIGUSR1,
            Self::User2 => process::SIGUSR2,
        }
    }
}

/// Hears signals from the moment on when it is made, also between two calls of [`next`](Self::next).
///
/// A signal that has been listened for once does not end the process any more, even after the listener was
/// dropped. A program that still wants to end calls [`exit`](std::process::exit). Each listener hears each
/// signal, and so do [`dump_on_signal`](super::dump_on_signal) and the others of this module. Costs two
/// descriptors.
///
/// ```no_run
/// use warpweft::signal::{Signal, Signals};
///
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// let signal = runtime.block_on(async {
///     let signals = Signals::new(&Signal::TO_END)?;
///     signals.next().await
/// })?;
/// println!("ending, because of {signal:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Signals {
    /// No handler counts after its drop. First: a handler writes to the pipe while somebody can read it.
    _registered: Vec<Registered>,
    reader: Async<UnixStream>,
    heard: Arc<ListenerState>,
}

/// What the handlers share with the listener.
#[derive(Debug)]
struct ListenerState {
    /// How often each signal came and was not returned, in the order of [`Signal::ALL`].
    counts: [AtomicUsize; Signal::ALL.len()],
    writer: UnixStream,
}

impl ListenerState {
    fn count(&self, signal: Signal) {
        self.counts[signal as usize].fetch_add(1, Ordering::AcqRel);
        self.wake();
    }

    fn wake(&self) {
        // One byte is enough: if the pipe is full, it has bytes already.
        let _ = rustix::io::write(&self.writer, &[0]);
    }

    fn take(&self) -> Option<Signal> {
        let one_less = |count: usize| count.checked_sub(1);
        Signal::ALL.into_iter().find(|&signal| {
            let count = &self.counts[signal as usize];
            count
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less)
                .is_ok()
        })
    }

    /// Takes a signal after the pipe was emptied. Signals that are left wake another task, or the next call.
    fn take_after_wake(&self) -> Option<Signal> {
        let taken = self.take();
        if self.counts.iter().any(|count| count.load(Ordering::Acquire) > 0) {
            self.wake();
        }
        taken
    }
}

impl Signals {
    /// Listens for these signals. One that is there twice counts once.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) if `signals` is empty; the system provides no descriptors or
    /// refuses a handler; or as [`Async::new`](crate::io::Async::new).
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        if signals.is_empty() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "the list of signals to listen for is empty: give at least one, or `Signal::TO_END`",
            ));
        }
        let (writer, reader) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        let reader = Async::new(reader)?;
        let counts = Signal::ALL.map(|_| AtomicUsize::new(0));
        let heard = Arc::new(ListenerState { counts, writer });
        let here = process::generation();
        let mut registered = Vec::with_capacity(signals.len());
        for signal in Signal::ALL.into_iter().filter(|signal| signals.contains(signal)) {
            let heard = Arc::clone(&heard);
            let tell = move || {
                // A forked child shares the pipe, but its signals are not meant for this process.
                if process::generation() == here {
                    heard.count(signal);
                }
            };
            // SAFETY: the action does only what a signal handler may do: it uses atomics and writes to a
            // descriptor that it shares, which does not block.
            registered.push(Registered(unsafe { register(signal.number(), tell) }?));
        }
        Ok(Self {
            reader,
            heard,
            _registered: registered,
        })
    }

    /// Waits for the next signal. Each signal that came since the last call counts, however many there are.
    /// Of several kinds the first one in [`Signal::ALL`] is returned first: a request to end does not wait
    /// for others. If the future is dropped, no signal is lost.
    ///
    /// Signals of the same kind may be one if they come at the same moment, because the system keeps only
    /// one for a process that has not handled it yet.
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub async fn next(&self) -> io::Result<Signal> {
        self.reader
            .read_with(|pipe| {
                if let Some(signal) = self.heard.take() {
                    return Ok(signal);
                }
                empty(pipe)?;
                // A signal that came since has its byte in the pipe, or had it taken away.
                let taken = self.heard.take_after_wake();
                taken.ok_or_else(|| ErrorKind::WouldBlock.into())
            })
            .await
    }
}

/// Reads until nothing is left.
fn empty(mut pipe: &UnixStream) -> io::Result<()> {
    let mut bytes = [0; 64];
    loop {
        match pipe.read(&mut bytes) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            // The writer lives as long as the reader.
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) => return Err(error),
        }
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

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{AtomicUsize, ListenerState, Signal, empty};
    use std::io::{ErrorKind, Read as _};
    use std::os::unix::net::UnixStream;

    #[test]
    fn signals_that_are_left_wake_again() {
        let (writer, mut reader) = UnixStream::pair().expect("descriptors");
        for end in [&writer, &reader] {
            end.set_nonblocking(true).expect("it is a socket");
        }
        let counts = Signal::ALL.map(|_| AtomicUsize::new(0));
        let heard = ListenerState { counts, writer };
        for _ in 0..10_000 {
            heard.count(Signal::Hangup);
        }
        heard.count(Signal::Terminate);
        empty(&reader).expect("the writer is there");
        assert_eq!(heard.take_after_wake(), Some(Signal::Terminate));
        for _ in 0..9_999 {
            assert_eq!(heard.take(), Some(Signal::Hangup));
        }
        empty(&reader).expect("the writer is there");
        heard.count(Signal::User2);
        empty(&reader).expect("the writer is there");
        for left in [Some(Signal::Hangup), Some(Signal::User2)] {
            assert_eq!(heard.take_after_wake(), left);
            let woken = reader.read(&mut [0; 8]).map_err(|error| error.kind());
            let expected = match left {
                Some(Signal::Hangup) => Ok(1),
                _ => Err(ErrorKind::WouldBlock),
            };
            assert_eq!(woken, expected);
        }
        assert_eq!(heard.take(), None);
    }
}
