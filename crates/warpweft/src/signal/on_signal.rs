//! Calls a function at each signal, on a separate thread.

use super::Registered;
use signal_hook_registry::register;
use std::cell::Cell;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::process::generation;
use warpweft_platform::thread::{JoinHandle, spawn_named};
use warpweft_platform::thread_word;

/// What the handler writes into the pipe, and what the end writes.
const ASKED: u8 = 1;
const OVER: u8 = 0;

/// Calls a function at each signal, until it is dropped.
#[derive(Debug)]
pub(super) struct OnSignal {
    /// First: no signal comes through afterwards.
    registered: Option<Registered>,
    writer: UnixStream,
    thread: Option<JoinHandle<()>>,
    here: u64,
    ended: Arc<Ended>,
    _reads: UnixStream,
}

/// True once the thread has ended, or is to end.
#[derive(Debug)]
struct Ended(AtomicBool);

impl Ended {
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Tells that the thread has ended, also by a panic.
struct EndsThread(Arc<Ended>);

impl Drop for EndsThread {
    fn drop(&mut self) {
        self.0.set();
    }
}

// That of the thread, if it is one of these.
thread_word!(static THREAD: *const Ended = std::ptr::null());

impl OnSignal {
    /// Calls `answer` at each `signal`, on a thread of that name. Signals that come meanwhile count as one.
    ///
    /// # Errors
    ///
    /// The system provides no descriptors or no thread, or refuses the handler.
    pub(super) fn new(
        signal: i32,
        name: &str,
        mut answer: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let (writer, mut reader) = UnixStream::pair()?;
        let signals = writer.try_clone()?;
        // The handler writes also after a panic of `answer` has ended the thread: without a reader that would
        // raise SIGPIPE.
        let reads = reader.try_clone()?;
        signals.set_nonblocking(true)?;
        let here = generation();
        let ended = Arc::new(Ended(AtomicBool::new(false)));
        let ends = Arc::clone(&ended);
        let thread = spawn_named(name, None, move || {
            let ends = EndsThread(ends);
            THREAD.with(|thread| thread.set(Arc::as_ptr(&ends.0)));
            let mut asked = [OVER; 64];
            loop {
                let read = match reader.read(&mut asked) {
                    // A handler of the program interrupts calls.
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) | Ok(0) => return,
                    Ok(read) => read,
                };
                if asked[..read].contains(&OVER) {
                    return;
                }
                answer();
                // It may have dropped its own guard.
                if ends.0.is_over() {
                    return;
                }
            }
        })?;
        let ask = move || {
            // A forked child shares the pipe, but its signals are not meant for this process.
            if generation() == here {
                // One byte is enough: if the pipe is full, it has bytes already.
                let _ = rustix::io::write(&signals, &[ASKED]);
            }
        };
        let mut answers = Self {
            registered: None,
            writer,
            thread: Some(thread),
            here,
            ended,
            _reads: reads,
        };
        // SAFETY: the action does only what a signal handler may do: it reads an atomic and writes to a
        // descriptor that it owns, which does not block.
        answers.registered = Some(Registered(unsafe { register(signal, ask) }?));
        Ok(answers)
    }
}

impl Drop for OnSignal {
    fn drop(&mut self) {
        drop(self.registered.take());
        // In a forked child the thread stayed in the parent.
        if generation() != self.here {
            return;
        }
        if THREAD.with(Cell::get) == Arc::as_ptr(&self.ended) {
            // `answer` drops this: the thread ends after it.
            return self.ended.set();
        }
        // The pipe may be full: then the thread reads it, and there is room. A thread that has panicked reads
        // no more.
        while !self.ended.is_over()
            && let Err(error) = rustix::io::write(&self.writer, &[OVER])
        {
            if error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR {
                break;
            }
            warpweft_platform::thread::yield_now();
        }
        // Its panic was reported by the panic hook.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
