//! The two halves of a stream, for two owners.

use super::stream::{Socket, Stream};
use futures_io::{AsyncRead, AsyncWrite};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The reading half of a stream. See [`Stream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf<S: Socket>(Arc<Stream<S>>);

/// The writing half of a stream; dropping it ends it for the peer. See [`Stream::into_split`].
#[derive(Debug)]
pub struct OwnedWriteHalf<S: Socket> {
    stream: Arc<Stream<S>>,
    ends_it: bool,
}

/// The error of two halves of different streams; both are returned.
#[derive(Debug)]
pub struct ReuniteError<S: Socket>(pub OwnedReadHalf<S>, pub OwnedWriteHalf<S>);

impl<S: Socket> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these halves are of different streams: reunite each with its own")
    }
}

impl<S: Socket> std::error::Error for ReuniteError<S> {}

pub(super) fn split<S: Socket>(stream: Stream<S>) -> (OwnedReadHalf<S>, OwnedWriteHalf<S>) {
    let stream = Arc::new(stream);
    let write = OwnedWriteHalf {
        stream: Arc::clone(&stream),
        ends_it: true,
    };
    (OwnedReadHalf(stream), write)
}

impl<S: Socket> OwnedReadHalf<S> {
    /// Returns the stream of these halves.
    ///
    /// # Errors
    ///
    /// They are of different streams.
    pub fn reunite(self, mut write: OwnedWriteHalf<S>) -> Result<Stream<S>, ReuniteError<S>> {
        if !Arc::ptr_eq(&self.0, &write.stream) {
            return Err(ReuniteError(self, write));
        }
        write.ends_it = false;
        drop(write);
        match Arc::try_unwrap(self.0) {
            Ok(stream) => Ok(stream),
            Err(_) => unreachable!("a stream has two halves"),
        }
    }
}

/// Both halves can do everything that a stream can.
impl<S: Socket> Deref for OwnedReadHalf<S> {
    type Target = Stream<S>;

    fn deref(&self) -> &Stream<S> {
        &self.0
    }
}

/// Both halves can do everything that a stream can.
impl<S: Socket> Deref for OwnedWriteHalf<S> {
    type Target = Stream<S>;

    fn deref(&self) -> &Stream<S> {
        &self.stream
    }
}

impl<S: Socket> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        // In a forked child the connection is the parent's, whose half would end, too.
        if self.ends_it && !self.stream.as_async().is_in_forked_child() {
            // A stream that is no longer connected has already ended.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }
}

impl<S: Socket> AsyncRead for OwnedReadHalf<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self.0).poll_read(cx, buffer)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self.0).poll_read_vectored(cx, buffers)
    }
}

impl<S: Socket> AsyncWrite for OwnedWriteHalf<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self.stream).poll_write_vectored(cx, buffers)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self.stream).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self.stream).poll_close(cx)
    }
}
