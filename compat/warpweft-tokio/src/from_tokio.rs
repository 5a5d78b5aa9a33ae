//! Transports of tokio with the traits of `futures-io`.

use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::ReadBuf;

/// The traits of `futures-io` over any transport with those of tokio: a socket of tokio, a stream of one of
/// its TLS crates, a half of [`tokio::io::duplex`], or an [`Io`](crate::Io) inside of an adapter of tokio's.
///
/// Bytes go directly between the reader's buffer and the transport. Close is tokio's shutdown.
///
/// The transport still belongs to its runtime: a socket of tokio is polled in a
/// [context](crate::BuilderExt::tokio_context).
///
/// ```
/// use std::os::unix::net::UnixStream as StdStream;
/// use warpweft::net::UnixStream;
/// use warpweft_tokio::{FromTokio, Io};
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (ours, _theirs) = StdStream::pair()?;
///     // An adapter of tokio's around a socket of ours, for a crate that wants `futures-io`.
///     let buffered = tokio::io::BufReader::new(Io::new(UnixStream::from_std(ours)?));
///     let stream = FromTokio::new(buffered);
///     assert!(stream.get_ref().buffer().is_empty());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FromTokio<T>(T);

impl<T> FromTokio<T> {
    /// Wraps a transport with the traits of tokio.
    pub fn new(inner: T) -> Self {
        Self(inner)
    }

    /// Returns the transport.
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.0
    }

    /// Returns the transport, to change its settings. What is read or written there is missed here.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    /// Returns the transport.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: Unpin> FromTokio<T> {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut T> {
        Pin::new(&mut self.get_mut().0)
    }
}

impl<T: tokio::io::AsyncRead + Unpin> AsyncRead for FromTokio<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(self.inner().poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl<T: tokio::io::AsyncBufRead + Unpin> AsyncBufRead for FromTokio<T> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<&[u8]>> {
        self.inner().poll_fill_buf(cx)
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.inner().consume(amount);
    }
}

impl<T: tokio::io::AsyncWrite + Unpin> AsyncWrite for FromTokio<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.inner().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.inner().poll_write_vectored(cx, buffers)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner().poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner().poll_shutdown(cx)
    }
}
