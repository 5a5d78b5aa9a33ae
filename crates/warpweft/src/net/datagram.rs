//! Unix datagram sockets.

use super::incoming::try_from_std;
use super::paths::at_path;
use crate::driver::pollable::lend_pollable;
use crate::io::handle::Async;
use rustix::net::RecvFlags;
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;

/// A socket for datagrams within this machine. None is lost on the way, and they arrive in order. Several
/// tasks may use it at a time.
///
/// ```
/// use warpweft::net::UnixDatagram;
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (one, other) = UnixDatagram::pair()?;
///     one.send(b"hello").await?;
///     one.send(b"again").await?;
///     let mut buffer = [0; 16];
///     let length = other.recv(&mut buffer).await?;
///     assert_eq!(&buffer[..length], b"hello");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// All methods return the system's errors, and [`NotConnected`](io::ErrorKind::NotConnected) when the
/// socket's runtime has shut down.
#[derive(Debug)]
pub struct UnixDatagram(Async<std::os::unix::net::UnixDatagram>);

impl UnixDatagram {
    /// Returns a socket at `path`, which must not exist. The path stays when the socket is dropped.
    ///
    /// # Errors
    ///
    /// As [`UnixListener::bind`](super::UnixListener::bind).
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(at_path("bind to", path.as_ref(), |path| {
            std::os::unix::net::UnixDatagram::bind(path)
        })?)
    }

    /// Returns a socket without a path: it can send, but no socket can answer it.
    ///
    /// # Errors
    ///
    /// No more descriptors; and as [`Async::new`].
    pub fn unbound() -> io::Result<Self> {
        Self::from_std(std::os::unix::net::UnixDatagram::unbound()?)
    }

    /// Returns two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// As [`unbound`](Self::unbound).
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = std::os::unix::net::UnixDatagram::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }

    /// Converts a socket of `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(socket: std::os::unix::net::UnixDatagram) -> io::Result<Self> {
        Async::new(socket).map(Self)
    }

    /// Converts it to a socket of `std`. It stays non-blocking.
    #[must_use]
    pub fn into_std(self) -> std::os::unix::net::UnixDatagram {
        self.0.into_inner()
    }

    /// Connects to the socket at `path`: `send` goes there, and only datagrams from there are received.
    ///
    /// # Errors
    ///
    /// With the path: there is no socket; [`InvalidInput`](io::ErrorKind::InvalidInput) if it is empty or too
    /// long.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        at_path("connect to", path.as_ref(), |path| self.0.get_ref().connect(path))
    }

    /// Waits for room, and sends a datagram to the socket of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// See [`UnixDatagram`]; also if the datagram is too long, or that socket does not exist any more.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(bytes)).await
    }

    /// As [`send`](Self::send), of bytes from several buffers, one after the other.
    ///
    /// # Errors
    ///
    /// As `send`.
    pub async fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0
            .write_with(|socket| SockRef::from(socket).send_vectored(buffers))
            .await
    }

    /// Sends a datagram to the socket at `path`, at once or not at all.
    ///
    /// # Errors
    ///
    /// See [`UnixDatagram`]; [`ResourceBusy`](io::ErrorKind::ResourceBusy) if there is no room for it. The
    /// system does not report when there will be, unless the sockets are [connected](Self::connect).
    pub fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        loop {
            return match self.0.get_ref().send_to(bytes, path.as_ref()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "the receiver has as many datagrams as it takes: try again later, or connect and use `send`",
                )),
                sent => sent,
            };
        }
    }

    /// Receives a datagram, and returns its length and its sender. Bytes that do not fit into `buffer` are
    /// lost.
    ///
    /// # Errors
    ///
    /// See [`UnixDatagram`].
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.recv_from(buffer)).await
    }

    /// Receives a datagram; as [`recv_from`](Self::recv_from).
    ///
    /// # Errors
    ///
    /// See [`UnixDatagram`].
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|socket| socket.recv(buffer)).await
    }

    /// Reads the next datagram without removing it.
    ///
    /// # Errors
    ///
    /// See [`UnixDatagram`].
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0
            .read_with(|socket| Ok(rustix::net::recv(socket, &mut *buffer, RecvFlags::PEEK)?.0))
            .await
    }

    /// Ends one direction, or both: a `send` of the peer is then an error, or a `send` here.
    ///
    /// # Errors
    ///
    /// The socket is not connected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.get_ref().shutdown(how)
    }

    /// Returns the address of the socket to which this one is connected.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) without one.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// Returns the address of this socket.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// Returns the system's socket, for its options.
    #[must_use]
    pub fn get_ref(&self) -> &std::os::unix::net::UnixDatagram {
        self.0.get_ref()
    }
}

lend_pollable!([] UnixDatagram, 0);
try_from_std!(UnixDatagram, std::os::unix::net::UnixDatagram);
