//! Unix stream sockets.

use super::stream::Stream;
use super::stream::sealed::Sealed;
use crate::driver::pollable::lend_pollable;
use crate::io::handle::Async;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::SocketAddr;
use std::path::Path;

// A read stops at descriptors and credentials that are passed.
impl Sealed for std::os::unix::net::UnixStream {
    const SHORT_IS_ALL: bool = false;
}

/// A connection within this machine: a [`Stream`].
pub type UnixStream = Stream<std::os::unix::net::UnixStream>;

impl UnixStream {
    /// Connects to the listener at `path`.
    ///
    /// # Errors
    ///
    /// No listener at `path`; [`ResourceBusy`](io::ErrorKind::ResourceBusy) if the listener has as many
    /// waiting connections as it takes, because the system does not report when that ends; and as
    /// [`Async::new`].
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket
            .connect(&SockAddr::unix(path.as_ref())?)
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "the listener takes no more waiting connections now: try again later",
                ),
                _ => error,
            })?;
        Self::from_nonblocking(OwnedFd::from(socket).into())
    }

    /// Returns two streams that are connected to each other.
    ///
    /// # Errors
    ///
    /// No more descriptors; and as [`Async::new`].
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }
}

/// A socket that accepts connections from this machine. Its path stays when the listener is dropped.
#[derive(Debug)]
pub struct UnixListener(Async<std::os::unix::net::UnixListener>);

impl UnixListener {
    /// Listens at `path`, which must not exist.
    ///
    /// # Errors
    ///
    /// The system's error for the path; no more descriptors; and as [`Async::new`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(std::os::unix::net::UnixListener::bind(path)?)
    }

    /// Converts a listener of `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        Async::new(listener).map(Self)
    }

    /// Waits for a connection. Several tasks may wait.
    ///
    /// # Errors
    ///
    /// As [`TcpListener::accept`](super::TcpListener::accept).
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, peer) = self.0.read_with(std::os::unix::net::UnixListener::accept).await?;
        Ok((UnixStream::from_std(stream)?, peer))
    }

    /// Returns the address at which it listens.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }
}

lend_pollable!([] UnixListener, 0);
