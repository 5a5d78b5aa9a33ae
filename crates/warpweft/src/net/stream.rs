//! The common parts of TCP streams and of those within a machine.

use super::halves::{OwnedReadHalf, OwnedWriteHalf};
use crate::driver::pollable::{AsPollable, lend_pollable};
use crate::io::handle::{Async, are_empty};
use futures_io::{AsyncRead, AsyncWrite};
use socket2::SockRef;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(super) mod sealed {
    /// Implemented for the system's kinds of streams only.
    pub trait Sealed {
        /// True if a read that does not fill its buffer has taken all that had arrived.
        const SHORT_IS_ALL: bool;
        /// Reads without removing.
        fn peek(&self, buffer: &mut [u8]) -> std::io::Result<usize>;
    }
    impl Sealed for std::net::TcpStream {
        const SHORT_IS_ALL: bool = true;

        fn peek(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
            Self::peek(self, buffer)
        }
    }
}

/// The system's stream sockets: `std::net::TcpStream`, and on Unix `std::os::unix::net::UnixStream`.
pub trait Socket: AsPollable + sealed::Sealed + Send + Sync + fmt::Debug + 'static {
    #[doc(hidden)]
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    #[doc(hidden)]
    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    #[doc(hidden)]
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    #[doc(hidden)]
    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize>;
}

impl<S> Socket for S
where
    S: AsPollable + sealed::Sealed + Send + Sync + fmt::Debug + 'static,
    for<'a> &'a S: Read + Write,
{
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buffer)
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Read::read_vectored(&mut &*self, buffers)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, bytes)
    }

    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        Write::write_vectored(&mut &*self, buffers)
    }
}

/// A bidirectional stream of bytes: a [`TcpStream`](super::TcpStream), or on Unix a `UnixStream`.
///
/// Dropping it closes it. Its two directions can be ended or owned separately: see
/// [`shutdown`](Stream::shutdown) and [`into_split`](Stream::into_split).
///
/// # Errors
///
/// All methods that wait return the system's errors (a peer that resets gives
/// [`ConnectionReset`](io::ErrorKind::ConnectionReset) or [`BrokenPipe`](io::ErrorKind::BrokenPipe)), and
/// [`NotConnected`](io::ErrorKind::NotConnected) when the stream's runtime has shut down.
#[derive(Debug)]
pub struct Stream<S: Socket>(Async<S>);

impl<S: Socket> Stream<S> {
    /// Converts a stream of `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(stream: S) -> io::Result<Self> {
        Async::new(stream).map(Self)
    }

    pub(super) fn from_nonblocking(stream: S) -> io::Result<Self> {
        Async::new_nonblocking(stream).map(Self)
    }

    /// Converts it to a stream of `std`. It stays non-blocking.
    #[must_use]
    pub fn into_std(self) -> S {
        self.0.into_inner()
    }

    /// Returns the system's stream, for its options.
    #[must_use]
    pub fn get_ref(&self) -> &S {
        self.0.get_ref()
    }

    /// Returns the descriptor as a source.
    #[must_use]
    pub fn as_async(&self) -> &Async<S> {
        &self.0
    }

    /// Waits until there is something to read, and reads it. Returns 0 if the peer has ended its half, or
    /// `buffer` is empty.
    ///
    /// # Errors
    ///
    /// See [`Stream`].
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            // The system would say that there is nothing to read.
            return Ok(0);
        }
        let room = room::<S>(buffer.len());
        self.0.receive(room, |socket| socket.read(buffer)).await
    }

    /// Reads into several buffers, one after the other.
    ///
    /// # Errors
    ///
    /// See [`Stream`].
    pub async fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if are_empty(buffers) {
            return Ok(0);
        }
        let room = room_in::<S>(buffers);
        self.0.receive(room, |socket| socket.read_vectored(buffers)).await
    }

    /// Fills `buffer`.
    ///
    /// # Errors
    ///
    /// See [`Stream`]; [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the peer ends its half first.
    pub async fn read_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read(buffer).await? {
                0 => {
                    let text = format!("the peer ended its half {} bytes too early", buffer.len());
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                read => buffer = &mut buffer[read..],
            }
        }
        Ok(())
    }

    /// One attempt of a read into memory that need not be initialised. If it would block, the task is woken
    /// when it may not. Returns the number of bytes at the beginning of `buffer` that were written, 0 if the
    /// peer has ended its half or `buffer` is empty.
    ///
    /// # Errors
    ///
    /// See [`Stream`].
    pub fn poll_read_uninit(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let room = room::<S>(buffer.len());
        self.0
            .poll_receive(cx, room, |socket| SockRef::from(socket).recv(buffer))
    }

    /// Reads without removing: the next read returns the same bytes again.
    ///
    /// # Errors
    ///
    /// See [`Stream`].
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.0.read_with(|socket| socket.peek(buffer)).await
    }

    /// Waits until there is room, and writes as much as fits. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// See [`Stream`].
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.write(bytes)).await
    }

    /// Writes from several buffers, one after the other.
    ///
    /// # Errors
    ///
    /// See [`Stream`].
    pub async fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.write_vectored(buffers)).await
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    ///
    /// See [`Stream`]; some may have been written.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }

    /// Ends one half, or both. The peer reads what was written, and then the end. Reading still works here
    /// after [`Shutdown::Write`].
    ///
    /// # Errors
    ///
    /// The stream is not connected any more.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        SockRef::from(self).shutdown(how)
    }

    /// Splits the stream into two halves, for two tasks. Dropping the writing half ends it for the peer; the
    /// descriptor closes with the second half.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf<S>, OwnedWriteHalf<S>) {
        super::halves::split(self)
    }
}

/// The most buffers of one read that every system fills, `IOV_MAX` of POSIX.
const MOST_BUFFERS: usize = 16;

/// Returns the length below which a read of `bytes` bytes leaves nothing behind: see `Async::receive`.
fn room<S: Socket>(bytes: usize) -> usize {
    if S::SHORT_IS_ALL { bytes } else { 0 }
}

/// As [`room`]. The system may leave buffers beyond [`MOST_BUFFERS`] empty, whatever there is to read.
fn room_in<S: Socket>(buffers: &[IoSliceMut<'_>]) -> usize {
    if buffers.len() > MOST_BUFFERS {
        return 0;
    }
    room::<S>(buffers.iter().map(|buffer| buffer.len()).sum())
}

lend_pollable!([S: Socket] Stream<S>, 0);

impl<S: Socket> AsyncRead for &Stream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let room = room::<S>(buffer.len());
        self.0.poll_receive(cx, room, |socket| socket.read(buffer))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        if are_empty(buffers) {
            return Poll::Ready(Ok(0));
        }
        let room = room_in::<S>(buffers);
        self.0
            .poll_receive(cx, room, |socket| socket.read_vectored(buffers))
    }
}

/// `poll_close` ends the writing half.
impl<S: Socket> AsyncWrite for &Stream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write_with(cx, |socket| socket.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0
            .poll_write_with(cx, |socket| socket.write_vectored(buffers))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that its peer has reset is closed already.
        let closed = self.shutdown(Shutdown::Write);
        Poll::Ready(closed.or_else(|error| match error.kind() {
            io::ErrorKind::NotConnected => Ok(()),
            _ => Err(error),
        }))
    }
}

impl<S: Socket> AsyncRead for Stream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read(cx, buffer)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read_vectored(cx, buffers)
    }
}

/// `poll_close` ends the writing half.
impl<S: Socket> AsyncWrite for Stream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write_vectored(cx, buffers)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_close(cx)
    }
}
