//! The input of the process.

use super::answering_thread::{AnsweringThread, AskOutcome};
use super::lines::Lines;
use super::stdout::AGAIN_NS;
use crate::driver::forked;
use futures_io::AsyncRead;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read as _};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use warpweft_platform::sync::Mutex;
use warpweft_platform::thread::pause;
use warpweft_task::budget::poll_budget;

/// How many bytes the thread reads at a time.
const ROOM: usize = 64 << 10;

/// The input of the process, which all handles share. See [`stdin`].
pub struct Stdin {
    filling: Mutex<Option<Filling>>,
}

type Filling = Pin<Box<dyn Future<Output = io::Result<bool>> + Send>>;

/// Returns the input of the process: a terminal, a file or a pipe.
///
/// A thread that is started at the first read waits in the system, and only while a task wants to read. The
/// input is never made non-blocking: it may be shared with other processes, for which that would change, too.
/// A read costs two hand-overs between threads, 10 to 100 µs, for up to 64 KiB. No runtime waits for that
/// thread when it ends, and neither does the end of the process.
///
/// **Cancellation.** A read that is dropped loses nothing: what the thread has read, or will have read when a
/// key is pressed, is returned by the next read, through whichever handle. Bytes that it has read are not in
/// [`std::io::stdin`] any more.
///
/// **Forked children** read from a thread of their own. If the parent's thread was in a read at the fork, a
/// read of the child is an error.
///
/// ```no_run
/// # async fn run() -> std::io::Result<()> {
/// let mut lines = warpweft::io::stdin().lines();
/// while let Some(line) = lines.next().await? {
///     println!("{} bytes", line.len());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn stdin() -> Stdin {
    Stdin {
        filling: Mutex::new(None),
    }
}

/// What all handles share.
#[derive(Debug)]
struct Shared {
    thread: AnsweringThread<(), Vec<u8>>,
    /// What was read, and how much of it was returned.
    bytes: Mutex<(Vec<u8>, usize)>,
}

impl Shared {
    /// Returns the input's thread, which is started by the first caller.
    fn get() -> io::Result<Arc<Self>> {
        static SHARED: OnceLock<Mutex<Option<Arc<Shared>>>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Mutex::new(None));
        let mut shared = shared.lock_unless_lost().ok_or_else(forked)?;
        if let Some(shared) = &*shared
            && !shared.thread.stayed_in_parent()?
        {
            return Ok(Arc::clone(shared));
        }
        let started = Arc::new(Self::start(|room| io::stdin().lock().read(room))?);
        // What stayed in the parent is not dropped here: its locks may be lost, which takes a while to see.
        std::mem::forget(shared.replace(Arc::clone(&started)));
        Ok(started)
    }

    fn start(mut read: impl FnMut(&mut [u8]) -> io::Result<usize> + Send + 'static) -> io::Result<Self> {
        let thread = AnsweringThread::start("warpweft-stdin", move |()| {
            let mut bytes = vec![0; ROOM];
            let length = loop {
                match read(&mut bytes) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // Another process may have made the description behind the descriptor non-blocking.
                    Err(error) if error.kind() == ErrorKind::WouldBlock => pause(AGAIN_NS),
                    read => break read?,
                }
            };
            bytes.truncate(length);
            Ok(bytes)
        })?;
        Ok(Self {
            thread,
            bytes: Mutex::new((Vec::new(), 0)),
        })
    }

    /// Waits until there are bytes. Returns false at the end of the input. Dropping it loses nothing.
    async fn fill(self: Arc<Self>) -> io::Result<bool> {
        loop {
            let change = self.thread.changed();
            {
                // Held throughout: what one caller takes from the thread must be there for the next look.
                let mut bytes = self.bytes.lock();
                if bytes.1 < bytes.0.len() {
                    return Ok(true);
                }
                match self.thread.next(&mut Some(()))? {
                    AskOutcome::Late(late) => {
                        *bytes = (late?, 0);
                        return Ok(!bytes.0.is_empty());
                    }
                    // Nobody waits for the answer more than the others: it is for the first that looks.
                    AskOutcome::Asked(question) => drop(question),
                    AskOutcome::Busy => {}
                }
            }
            change.await;
        }
    }

    /// Moves bytes that are there into `buffer`.
    fn take(&self, buffer: &mut [u8]) -> usize {
        let mut bytes = self.bytes.lock();
        let (all, taken) = &mut *bytes;
        let rest = &all[*taken..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        *taken += length;
        length
    }

    fn poll_read(
        self: &Arc<Self>,
        filling: &mut Option<Filling>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        ready!(poll_budget(cx));
        loop {
            let taken = self.take(buffer);
            if taken > 0 || buffer.is_empty() {
                return Poll::Ready(Ok(taken));
            }
            let future = filling.get_or_insert_with(|| Box::pin(Arc::clone(self).fill()));
            let filled = ready!(future.as_mut().poll(cx));
            *filling = None;
            if !filled? {
                return Poll::Ready(Ok(0));
            }
            // Another handle may have been faster: then it is filled again.
        }
    }
}

impl Stdin {
    /// Waits until there is something to read, and reads it. Returns 0 at the end of the input, or if
    /// `buffer` is empty. A call that is dropped has read nothing.
    ///
    /// # Errors
    ///
    /// The system's error, also if there is no thread.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let shared = Shared::get()?;
        let mut filling = None;
        poll_fn(|cx| shared.poll_read(&mut filling, cx, buffer)).await
    }

    /// Returns the lines. What a dropped `Lines` has read of a line is lost: keep it.
    pub fn lines(self) -> Lines<Self> {
        Lines::new(self)
    }
}

impl AsyncRead for Stdin {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let shared = Shared::get()?;
        let mut filling = self.filling.lock();
        shared.poll_read(&mut filling, cx, buffer)
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stdin")
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Shared;
    use crate::block_on;
    use std::future::poll_fn;
    use std::io;
    use std::sync::{Arc, mpsc};
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_read_that_is_dropped_loses_nothing() {
        let (keys, pressed) = mpsc::channel::<&[u8]>();
        let read = move |room: &mut [u8]| {
            let bytes = pressed.recv().unwrap_or_default();
            room[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        };
        let shared = Arc::new(Shared::start(read).expect("a thread"));
        let mut cx = Context::from_waker(Waker::noop());
        let mut buffer = [0; 3];
        for _ in 0..3 {
            // Each attempt is dropped; the thread was asked once.
            assert!(shared.poll_read(&mut None, &mut cx, &mut buffer).is_pending());
        }
        // One that is kept, and does not look again, stops nobody.
        let mut kept = None;
        assert!(shared.poll_read(&mut kept, &mut cx, &mut buffer).is_pending());
        keys.send(b"hello").expect("the thread reads");
        let mut all = Vec::new();
        while all.len() < 5 {
            let mut filling = None;
            let read = poll_fn(|cx| shared.poll_read(&mut filling, cx, &mut buffer));
            let read: io::Result<usize> = block_on(read);
            all.extend_from_slice(&buffer[..read.expect("no error")]);
        }
        assert_eq!(all, b"hello");
        drop(keys);
        for _ in 0..2 {
            let mut filling = None;
            let end = block_on(poll_fn(|cx| shared.poll_read(&mut filling, cx, &mut buffer)));
            assert_eq!(end.expect("no error"), 0, "the end, each time");
        }
        assert!(matches!(
            shared.poll_read(&mut None, &mut cx, &mut []),
            Poll::Ready(Ok(0))
        ));
    }
}
