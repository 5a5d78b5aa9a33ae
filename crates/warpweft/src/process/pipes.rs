//! The pipes to and from a child.
//!
//! The system makes a description of its own for each end of a pipe. So this end does not block, and the
//! child's end is as the child expects it.

use crate::driver::pollable::lend_pollable;
use crate::io::handle::Async;
use crate::io::lines::Lines;
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};

/// The pipe to a child's input. Dropping it closes the pipe: the child reads what was written, and then the
/// end.
///
/// # Errors
///
/// All methods return the system's errors ([`BrokenPipe`](ErrorKind::BrokenPipe) if the child reads no more),
/// and [`NotConnected`](ErrorKind::NotConnected) when the runtime has shut down.
#[derive(Debug)]
pub struct ChildStdin {
    /// `None` after `poll_close`.
    pipe: Option<Async<PipeWriter>>,
}

impl ChildStdin {
    pub(super) fn new(stdin: std::process::ChildStdin) -> io::Result<Self> {
        let pipe = Async::new(PipeWriter::from(OwnedFd::from(stdin)))?;
        Ok(Self { pipe: Some(pipe) })
    }

    fn pipe(&self) -> io::Result<&Async<PipeWriter>> {
        let closed = || io::Error::new(ErrorKind::BrokenPipe, "this pipe was closed by `poll_close`");
        self.pipe.as_ref().ok_or_else(closed)
    }

    /// Waits until there is room, and writes as much as fits. Returns the number of bytes. A call that is
    /// dropped has written nothing.
    ///
    /// # Errors
    ///
    /// See [`ChildStdin`].
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe()?.write_with(|mut pipe| pipe.write(bytes)).await
    }

    /// Writes all of `bytes`. A call that is dropped may have written some.
    ///
    /// # Errors
    ///
    /// See [`ChildStdin`]; some may have been written.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes).await? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }
}

/// `poll_close` closes the pipe.
impl AsyncWrite for ChildStdin {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.pipe()?.poll_write_with(cx, |mut pipe| pipe.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pipe()?
            .poll_write_with(cx, |mut pipe| pipe.write_vectored(buffers))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe = None;
        Poll::Ready(Ok(()))
    }
}

macro_rules! reader {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// All methods return the system's errors, and [`NotConnected`](ErrorKind::NotConnected) when the
        /// runtime has shut down.
        #[derive(Debug)]
        pub struct $name(Async<PipeReader>);

        impl $name {
            pub(super) fn new(output: std::process::$name) -> io::Result<Self> {
                Async::new(PipeReader::from(OwnedFd::from(output))).map(Self)
            }

            /// Waits until there is something to read, and reads it. Returns 0 when the child, and whichever
            /// program it has passed the pipe to, has closed it. A call that is dropped has read nothing.
            ///
            /// # Errors
            ///
            /// See the type.
            pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0.read_with(|mut pipe| pipe.read(buffer)).await
            }

            /// Appends all bytes up to the end, and returns how many. If the call is dropped, those that were
            /// read are in `bytes`.
            ///
            /// # Errors
            ///
            /// See the type.
            pub async fn read_to_end(&self, bytes: &mut Vec<u8>) -> io::Result<usize> {
                read_to_end(&self.0, bytes).await
            }

            /// Returns the lines.
            pub fn lines(self) -> Lines<Self> {
                Lines::new(self)
            }

            /// Converts it for another command, whose input it becomes. The pipe then blocks, as programs
            /// expect it to.
            ///
            /// # Errors
            ///
            /// The system's error.
            pub fn into_stdio(self) -> io::Result<Stdio> {
                into_stdio(self.0)
            }
        }

        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_read_with(cx, |mut pipe| pipe.read(buffer))
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffers: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_read_with(cx, |mut pipe| pipe.read_vectored(buffers))
            }
        }

        lend_pollable!([] $name, 0);
    };
}

reader! {
    /// The pipe from a child's output.
    ChildStdout
}
reader! {
    /// The pipe from a child's errors.
    ChildStderr
}

async fn read_to_end(pipe: &Async<PipeReader>, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let start = bytes.len();
    let mut piece = vec![0; 8 << 10];
    loop {
        match pipe.read_with(|mut pipe| pipe.read(&mut piece)).await? {
            0 => return Ok(bytes.len() - start),
            read => bytes.extend_from_slice(&piece[..read]),
        }
        // What a pipe holds at most, on Linux.
        if bytes.len() - start >= 8 << 10 && piece.len() < 64 << 10 {
            piece.resize(64 << 10, 0);
        }
    }
}

/// Makes the pipe as programs expect it: it blocks.
fn into_stdio(pipe: Async<PipeReader>) -> io::Result<Stdio> {
    let pipe = pipe.into_inner();
    rustix::io::ioctl_fionbio(&pipe, false)?;
    Ok(OwnedFd::from(pipe).into())
}
