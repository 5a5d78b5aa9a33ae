//! Transports of `futures-io` with the traits of hyper and of tokio.

use futures_io::{AsyncRead, AsyncWrite};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::ReadBuf;
use warpweft::net::{Socket, Stream};

/// The reading and writing traits of hyper and of tokio over any transport of `futures-io`: a
/// [`TcpStream`](warpweft::net::TcpStream), a [`UnixStream`](warpweft::net::UnixStream), their halves, or the
/// streams of a TLS crate.
///
/// These are hyper's [`Read`] and [`Write`], and tokio's [`AsyncRead`](tokio::io::AsyncRead) and
/// [`AsyncWrite`](tokio::io::AsyncWrite). None of them needs a runtime of tokio.
/// [`FromTokio`](crate::FromTokio) is the other direction.
///
/// Bytes go directly between the reader's buffer and the transport. `futures-io` reads into initialised
/// memory, so a read offers only as much as it is likely to need, a kilobyte at first, and zeroes that
/// before. A socket of [`warpweft::net`] that was wrapped by [`socket`](Self::socket) needs no zeros, and is
/// offered the whole buffer. A shutdown is the transport's `poll_close`.
///
/// ```
/// use std::os::unix::net::UnixStream as StdStream;
/// use warpweft::net::UnixStream;
/// use warpweft_tokio::Io;
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (ours, _theirs) = StdStream::pair()?;
///     let io = Io::socket(UnixStream::from_std(ours)?);
///     assert!(io.get_ref().get_ref().peer_addr().is_ok());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Lines, by the methods of tokio:
///
/// ```
/// use std::os::unix::net::UnixStream as StdStream;
/// use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
/// use warpweft::net::UnixStream;
/// use warpweft_tokio::Io;
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (ours, theirs) = StdStream::pair()?;
///     let mut writer = Io::socket(UnixStream::from_std(theirs)?);
///     writer.write_all(b"warp\nweft\n").await?;
///     let mut lines = BufReader::new(Io::socket(UnixStream::from_std(ours)?)).lines();
///     assert_eq!(lines.next_line().await?.as_deref(), Some("warp"));
///     assert_eq!(lines.next_line().await?.as_deref(), Some("weft"));
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Io<T> {
    inner: T,
    vectored: bool,
    read_uninit: Option<ReadUninit<T>>,
    /// The largest size that the next read offers: twice as much after one that was filled, half as much
    /// after one that would have fitted in a quarter.
    offer: usize,
}

/// Reads into memory that need not be initialised, and returns how many bytes at its beginning were written.
type ReadUninit<T> = fn(&T, &mut Context<'_>, &mut [MaybeUninit<u8>]) -> Poll<Result<usize>>;

/// The smallest offer of a read: the head of most requests fits in.
const LEAST: usize = 1 << 10;
/// The largest offer: to zero a megabyte that is never filled costs more than reading twice.
const MOST: usize = 1 << 20;

impl<T> Io<T> {
    /// Wraps a transport that writes one buffer at a time, as TLS does: hyper copies small ones together.
    pub fn new(inner: T) -> Self {
        Self {
            inner,
            vectored: false,
            read_uninit: None,
            offer: LEAST,
        }
    }

    /// Wraps a transport that writes several buffers with one call: hyper passes bodies without copying them.
    /// For the sockets of [`warpweft::net`] see [`socket`](Self::socket).
    pub fn vectored(inner: T) -> Self {
        Self {
            vectored: true,
            ..Self::new(inner)
        }
    }

    /// Returns the transport.
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Returns the transport, after hyper has returned it: see `hyper::upgrade`.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<S: Socket> Io<Stream<S>> {
    /// Wraps a socket, which writes several buffers with one call, and reads into memory as it is.
    pub fn socket(stream: Stream<S>) -> Self {
        Self {
            read_uninit: Some(Stream::poll_read_uninit),
            ..Self::vectored(stream)
        }
    }
}

impl<T: AsyncRead + Unpin> Read for Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        if let Some(read_uninit) = self.read_uninit {
            // SAFETY: `socket` has set it to a function that writes to this memory, or leaves it as it is.
            let read = ready!(read_uninit(&self.inner, cx, unsafe { cursor.as_mut() }))?;
            // SAFETY: that function has written so many bytes after the cursor.
            unsafe { cursor.advance(read) };
            return Poll::Ready(Ok(()));
        }
        let room = cursor.remaining().min(self.offer);
        let read = ready!(self.fill(cx, cursor.initialize_unfilled_to(room)))?;
        // SAFETY: the `room` bytes after the cursor have been initialised above, and `read` is at most
        // `room`.
        unsafe { cursor.advance(read) };
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> Io<T> {
    /// Reads into `free`, which is no larger than the offer, and chooses the next offer.
    fn fill(&mut self, cx: &mut Context<'_>, free: &mut [u8]) -> Poll<Result<usize>> {
        let room = free.len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, free))?;
        if read > room {
            let text = format!("the transport says it read {read} bytes into a buffer of {room}");
            return Poll::Ready(Err(Error::new(ErrorKind::InvalidData, text)));
        }
        if read == self.offer {
            self.offer = (self.offer * 2).min(MOST);
        } else if read < self.offer / 4 {
            self.offer = (self.offer / 2).max(LEAST);
        }
        Poll::Ready(Ok(read))
    }
}

impl<T: AsyncRead + Unpin> tokio::io::AsyncRead for Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if let Some(read_uninit) = self.read_uninit {
            // SAFETY: `socket` has set it to a function that writes to this memory, or leaves it as it is.
            let read = ready!(read_uninit(&self.inner, cx, unsafe { buffer.unfilled_mut() }))?;
            // SAFETY: that function has written so many bytes there.
            unsafe { buffer.assume_init(read) };
            buffer.advance(read);
            return Poll::Ready(Ok(()));
        }
        let room = buffer.remaining().min(self.offer);
        let read = ready!(self.fill(cx, buffer.initialize_unfilled_to(room)))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> tokio::io::AsyncWrite for Io<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Write::poll_write(self, cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Write::poll_write_vectored(self, cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.vectored
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Write::poll_flush(self, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Write::poll_shutdown(self, cx)
    }
}

impl<T: AsyncWrite + Unpin> Write for Io<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.vectored
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::{Io, LEAST, MOST};
    use futures_io::AsyncRead;
    use hyper::rt::{Read as _, ReadBuf};
    use std::io::{ErrorKind, Result};
    use std::mem::MaybeUninit;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    /// A transport that writes two bytes and reports its number.
    struct Says(usize);

    impl AsyncRead for Says {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
            assert!(buffer.iter().all(|byte| *byte == 0), "it is initialised");
            buffer[..2].copy_from_slice(b"ab");
            Poll::Ready(Ok(self.0))
        }
    }

    #[test]
    fn what_was_read_is_appended() {
        let mut memory = [MaybeUninit::uninit(); 8];
        let mut buffer = ReadBuf::uninit(&mut memory);
        let cx = &mut Context::from_waker(Waker::noop());
        buffer.unfilled().put_slice(b"xy");
        assert!(matches!(
            Pin::new(&mut Io::new(Says(2))).poll_read(cx, buffer.unfilled()),
            Poll::Ready(Ok(()))
        ));
        assert_eq!(buffer.filled(), b"xyab");
    }

    /// A transport that fills the offered buffer the given number of times.
    struct Fills(usize);

    impl AsyncRead for Fills {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<Result<usize>> {
            let full = self.0 > 0;
            self.0 = self.0.saturating_sub(1);
            Poll::Ready(Ok(if full { buffer.len() } else { 1 }))
        }
    }

    #[test]
    fn a_read_offers_more_after_one_that_was_filled_and_less_after_small_ones() {
        let mut memory = vec![MaybeUninit::uninit(); 2 * MOST];
        let cx = &mut Context::from_waker(Waker::noop());
        let mut io = Io::new(Fills(12));
        let mut lengths = Vec::new();
        for _ in 0..24 {
            let mut buffer = ReadBuf::uninit(&mut memory);
            assert!(Pin::new(&mut io).poll_read(cx, buffer.unfilled()).is_ready());
            lengths.push(buffer.filled().len());
        }
        assert_eq!(lengths[..3], [LEAST, 2 * LEAST, 4 * LEAST]);
        assert_eq!(lengths[11..13], [MOST, 1]);
        assert_eq!(io.offer, LEAST);
        let mut small = ReadBuf::uninit(&mut memory[..10]);
        io.inner.0 = 1;
        assert!(Pin::new(&mut io).poll_read(cx, small.unfilled()).is_ready());
        assert_eq!(small.filled().len(), 10, "no more than hyper has room for");
    }

    #[test]
    fn a_transport_that_lies_is_an_error() {
        let mut memory = [MaybeUninit::uninit(); 8];
        let mut buffer = ReadBuf::uninit(&mut memory);
        let cx = &mut Context::from_waker(Waker::noop());
        let polled = Pin::new(&mut Io::new(Says(9))).poll_read(cx, buffer.unfilled());
        let Poll::Ready(Err(error)) = polled else {
            panic!("nine bytes do not fit into eight")
        };
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(buffer.filled().is_empty());
    }
}
