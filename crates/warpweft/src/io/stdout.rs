//! The output and the errors of the process.

use super::answering_thread::{AnsweringThread, AskOutcome, Question};
use crate::driver::forked;
use crate::runtime::yields::yield_now;
use futures_io::AsyncWrite;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use warpweft_platform::sync::Mutex;
use warpweft_platform::thread::pause;

/// After how many nanoseconds a stream that somebody made non-blocking is tried again.
pub(super) const AGAIN_NS: u64 = 1_000_000;

/// How many bytes one `poll_write` takes at most.
const ROOM: usize = 64 << 10;

/// The thread that writes bytes and flushes them.
type WriterThread = AnsweringThread<Vec<u8>, ()>;

type Writing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Where the thread of a stream is kept.
type StreamThread = OnceLock<Mutex<Option<Arc<WriterThread>>>>;

/// Returns the thread of a stream, which is started by the first caller.
fn writer<W: Write>(
    kept: &StreamThread,
    name: &str,
    stream: impl Fn() -> W + Send + 'static,
) -> io::Result<Arc<WriterThread>> {
    let kept = kept.get_or_init(|| Mutex::new(None));
    let mut kept = kept.lock_unless_lost().ok_or_else(forked)?;
    if let Some(writer) = &*kept
        && !writer.stayed_in_parent()?
    {
        return Ok(Arc::clone(writer));
    }
    let writer = Arc::new(AnsweringThread::start(name, move |bytes: Vec<u8>| {
        write_whole(&mut stream(), &bytes)
    })?);
    // What stayed in the parent is not dropped here: its locks may be lost, which takes a while to see.
    std::mem::forget(kept.replace(Arc::clone(&writer)));
    Ok(writer)
}

/// Writes all bytes and flushes them, on a thread that may wait. Another process may have made the
/// description behind the descriptor non-blocking: then this looks for room once in a millisecond.
fn write_whole(stream: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    loop {
        let written = match bytes {
            [] => stream.flush().map(|()| None),
            _ => stream.write(bytes).map(Some),
        };
        match written {
            Ok(None) => return Ok(()),
            Ok(Some(0)) => return Err(ErrorKind::WriteZero.into()),
            Ok(Some(written)) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => pause(AGAIN_NS),
            Err(error) => return Err(error),
        }
    }
}

/// Writes `bytes`, after what was asked before.
async fn write(writer: Arc<WriterThread>, bytes: Vec<u8>) -> io::Result<()> {
    let (mut bytes, mut asked) = (Some(bytes), None);
    loop {
        let change = writer.changed();
        if asked.is_none() {
            match writer.next(&mut bytes)? {
                AskOutcome::Late(late) => {
                    late?;
                    continue;
                }
                AskOutcome::Asked(question) => asked = Some(question),
                AskOutcome::Busy => {}
            }
        }
        if let Some(answer) = asked.as_ref().and_then(Question::answer) {
            answer?;
            // The answer has woken others. They look before this task asks again.
            yield_now().await;
            return Ok(());
        }
        change.await;
    }
}

/// The poll form: takes some bytes, once those before are written.
fn poll_write(
    writing: &Mutex<Option<Writing>>,
    cx: &mut Context<'_>,
    bytes: &[u8],
    writer: impl FnOnce() -> io::Result<Arc<WriterThread>>,
) -> Poll<io::Result<usize>> {
    let mut writing = writing.lock();
    ready!(poll_written(&mut writing, cx))?;
    let taken = &bytes[..bytes.len().min(ROOM)];
    if !taken.is_empty() {
        *writing = Some(Box::pin(write(writer()?, taken.to_vec())));
        // It begins now, and not only with the next call.
        if let Poll::Ready(result) = poll_written(&mut writing, cx) {
            result?;
        }
    }
    Poll::Ready(Ok(taken.len()))
}

fn poll_written(writing: &mut Option<Writing>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    let result = match writing {
        Some(future) => ready!(future.as_mut().poll(cx)),
        None => Ok(()),
    };
    *writing = None;
    Poll::Ready(result)
}

macro_rules! stream {
    ($(#[$doc:meta])* $function:ident, $type:ident, $thread:literal, $the:literal) => {
        #[doc = concat!($the, " of the process. See [`", stringify!($function), "`].")]
        pub struct $type {
            writing: Mutex<Option<Writing>>,
        }

        $(#[$doc])*
        #[must_use]
        pub fn $function() -> $type {
            $type {
                writing: Mutex::new(None),
            }
        }

        impl $type {
            fn writer() -> io::Result<Arc<WriterThread>> {
                static KEPT: StreamThread = OnceLock::new();
                writer(&KEPT, $thread, || io::$function().lock())
            }

            /// Writes all of `bytes`, which are copied, and waits until the system has them. A call that is
            /// dropped has written nothing or all. Writes of several tasks do not mix.
            ///
            /// # Errors
            ///
            /// The system's error, also of an earlier write whose future was dropped; or there is no thread.
            pub async fn write_all(&self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
                write(Self::writer()?, bytes.as_ref().to_vec()).await
            }
        }

        /// `poll_write` takes bytes before they are written: **flush before the handle is dropped**.
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                poll_write(&self.writing, cx, bytes, Self::writer)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                poll_written(&mut self.writing.lock(), cx)
            }

            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    };
}

stream! {
    /// Returns the output of the process: a terminal, a file or a pipe.
    ///
    /// A thread that is started at the first write waits in the system until there is room. The output is
    /// never made non-blocking: it may be shared with other processes, for which that would change, too.
    /// A write costs two hand-overs between threads, 10 to 100 µs. No runtime waits for that thread when
    /// it ends. What [`println!`] has written comes first, and whole.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.block_on(warpweft::io::stdout().write_all("all of it, or an error\n"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    stdout, Stdout, "warpweft-stdout", "The output"
}

stream! {
    /// Returns the stream for errors of the process; as [`stdout`].
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.block_on(warpweft::io::stderr().write_all("careful\n"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    stderr, Stderr, "warpweft-stderr", "The stream for errors"
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{OnceLock, StreamThread, poll_write, poll_written, write, write_whole, writer};
    use crate::block_on;
    use std::future::poll_fn;
    use std::io::{self, Write};
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};
    use warpweft_platform::sync::Mutex;

    /// Passes on what is written, and fails at an exclamation mark.
    struct Pipe(mpsc::Sender<String>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes == b"!" {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.0.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Takes two bytes at a time, and every other time none.
    struct Narrow(Vec<u8>, bool);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(2);
            self.0.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stream_without_room_for_a_while_gets_each_byte_once() {
        let mut narrow = Narrow(Vec::new(), false);
        write_whole(&mut narrow, b"seven b").expect("no error");
        assert_eq!(narrow.0, b"seven b");
    }

    #[test]
    fn writes_come_in_order_and_errors_to_the_next() {
        let kept: StreamThread = OnceLock::new();
        let (sender, written) = mpsc::channel();
        let writes = writer(&kept, "writes", move || Pipe(sender.clone())).expect("a thread");
        let same = || writer(&kept, "again", || Pipe(mpsc::channel().0));
        block_on(async {
            write(same().expect("there is one"), b"one".to_vec())
                .await
                .expect("no error");
            let writing = Mutex::new(None);
            let mut cx = Context::from_waker(Waker::noop());
            let taken = poll_write(&writing, &mut cx, b"two", || Ok(writes.clone()));
            assert!(matches!(taken, Poll::Ready(Ok(3))));
            // Dropped without a flush: it was passed to the thread all the same.
            drop(writing);
            write(writes.clone(), b"three".to_vec()).await.expect("no error");
            let writing = Mutex::new(None);
            // The thread may have failed already when the bytes are taken.
            let taken = poll_fn(|cx| poll_write(&writing, cx, b"!", || Ok(writes.clone()))).await;
            let flushed = poll_fn(|cx| poll_written(&mut writing.lock(), cx)).await;
            let error = taken.map(drop).and(flushed).expect_err("it fails");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            write(writes.clone(), b"four".to_vec()).await.expect("no error");
            // A handle that is kept, and neither flushed nor dropped, stops nobody.
            let writing = Mutex::new(None);
            let taken = poll_fn(|cx| poll_write(&writing, cx, b"five", || Ok(writes.clone()))).await;
            assert_eq!(taken.expect("no error"), 4);
            write(writes.clone(), b"six".to_vec()).await.expect("no error");
        });
        let written: Vec<_> = written.try_iter().collect();
        assert_eq!(written, ["one", "two", "three", "four", "five", "six"]);
    }
}
