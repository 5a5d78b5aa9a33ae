//! Unix stream sockets.

use super::incoming::{Incoming, poll_listener, try_from_std};
use super::paths::at_path;
use super::stream::Stream;
use super::stream::sealed::Sealed;
use crate::driver::pollable::lend_pollable;
use crate::io::handle::Async;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::task::{Context, Poll};
use warpweft_platform::socket::peek;
#[cfg(any(target_os = "linux", target_os = "android"))]
use warpweft_platform::socket::peer_cred;

// A read stops at descriptors and credentials that are passed.
impl Sealed for std::os::unix::net::UnixStream {
    const SHORT_IS_ALL: bool = false;

    fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        peek(self.as_fd(), buffer)
    }
}

/// A connection within this machine: a [`Stream`].
pub type UnixStream = Stream<std::os::unix::net::UnixStream>;

impl UnixStream {
    /// Connects to the listener at `path`.
    ///
    /// # Errors
    ///
    /// With the path: no listener there; [`ResourceBusy`](io::ErrorKind::ResourceBusy) if the listener has as
    /// many waiting connections as it takes, because the system does not report when that ends;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is empty or too long. Also as [`Async::new`].
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        at_path("connect to", path.as_ref(), |path| {
            let connected = socket.connect(&SockAddr::unix(path)?);
            connected.map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "the listener takes no more waiting connections now: try again later",
                ),
                _ => error,
            })
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

    /// Returns the address of this end.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }

    /// Returns the address of the other end, which has none unless it was bound to a path.
    ///
    /// # Errors
    ///
    /// The system's error, for instance that the connection has ended.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().peer_addr()
    }

    /// Returns the process and the user that made the other end, as the kernel noted them then. A server
    /// decides by it what a client may do.
    ///
    /// ```
    /// use warpweft::net::UnixStream;
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// let (one, _other) = runtime.block_on(async { UnixStream::pair() })?;
    /// assert_eq!(one.peer_cred()?.pid, std::process::id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The system's error.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn peer_cred(&self) -> io::Result<PeerCred> {
        let (pid, uid, gid) = peer_cred(self.as_fd())?;
        Ok(PeerCred { pid, uid, gid })
    }
}

/// The process and the user at the other end of a [`UnixStream`]: see [`UnixStream::peer_cred`].
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerCred {
    /// The number of the process; 0 if it has none here, because it is in another namespace.
    pub pid: u32,
    /// The number of its user.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

/// A socket that accepts connections from this machine. Its path stays when the listener is dropped.
#[derive(Debug)]
pub struct UnixListener(Async<std::os::unix::net::UnixListener>);

impl UnixListener {
    /// Listens at `path`, which must not exist.
    ///
    /// # Errors
    ///
    /// With the path: it exists, also if its listener has ended; its folder does not, or must not be written
    /// to; [`InvalidInput`](io::ErrorKind::InvalidInput) if it is empty or too long. Also: no more
    /// descriptors; and as [`Async::new`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(at_path("listen at", path.as_ref(), |path| {
            std::os::unix::net::UnixListener::bind(path)
        })?)
    }

    /// Converts a listener of `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        Async::new(listener).map(Self)
    }

    /// Converts it to a listener of `std`. It stays non-blocking.
    #[must_use]
    pub fn into_std(self) -> std::os::unix::net::UnixListener {
        self.0.into_inner()
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

    /// Returns the connections as a [`Stream`](futures_core::Stream), which never ends. Several such streams
    /// may be used at a time.
    ///
    /// # Errors
    ///
    /// Each item may be an error, as that of [`accept`](Self::accept).
    pub fn incoming(&self) -> Incoming<'_, Self> {
        Incoming::new(self)
    }

    /// The poll form of [`accept`](Self::accept).
    ///
    /// # Errors
    ///
    /// As `accept`.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let accepted = self
            .0
            .poll_read_with(cx, std::os::unix::net::UnixListener::accept);
        accepted.map(|result| result.and_then(|(stream, peer)| Ok((UnixStream::from_std(stream)?, peer))))
    }

    /// Returns the address at which it listens.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// Returns the system's listener, for its options.
    #[must_use]
    pub fn get_ref(&self) -> &std::os::unix::net::UnixListener {
        self.0.get_ref()
    }
}

lend_pollable!([] UnixListener, 0);
poll_listener!(UnixListener, UnixStream);
try_from_std!(UnixListener, std::os::unix::net::UnixListener);
try_from_std!(UnixStream, std::os::unix::net::UnixStream);
