//! Unix datagram sockets.

use super::incoming::try_from_std;
use super::names::busy_if_full;
use super::paths::at_path;
use crate::driver::pollable::lend_pollable;
use crate::io::handle::Async;
use crate::time::sleep;
use socket2::SockRef;
use std::ffi::OsStr;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use warpweft_platform::socket::{peek, peek_from};
use warpweft_task::budget::poll_budget;

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

    /// Waits for room, and sends a datagram to the socket at `path`. If the future is dropped, nothing was
    /// sent.
    ///
    /// The system reports room only to a socket that is [connected](Self::connect) to the receiver. A wait
    /// therefore costs another socket, so connect and use `send` if you send much.
    ///
    /// # Errors
    ///
    /// See [`UnixDatagram`], with the path; also if the datagram is too long; no more descriptors, if it has
    /// to wait.
    pub async fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        let path = path.as_ref();
        poll_fn(|cx| poll_budget(cx)).await;
        loop {
            // Without a look at the source: it knows whether there is room where the socket is connected to.
            match self.try_send_to(bytes, path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => self.room_at(path).await?,
                sent => return sent,
            }
        }
    }

    /// Sends a datagram to the socket at `path`, at once or not at all.
    ///
    /// # Errors
    ///
    /// As [`send_to`](Self::send_to); [`ResourceBusy`](io::ErrorKind::ResourceBusy) if there is no room for
    /// it.
    pub fn try_send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        at_path("send to", path.as_ref(), |path| {
            loop {
                match self.0.get_ref().send_to(bytes, path) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    sent => return sent.map_err(busy_if_full),
                }
            }
        })
    }

    /// Waits until there may be room at `path`, and for what this socket sends.
    #[cold]
    async fn room_at(&self, path: &Path) -> io::Result<()> {
        // A new one for each wait: the path may have another receiver meanwhile.
        let connected = Self::unbound()?;
        match connected.connect(path) {
            Ok(()) => connected.0.writable().await?,
            // The receiver is connected to this socket, for which it has no limit.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
        // What was sent and not received fills a buffer of this socket, too. If it is connected to another
        // receiver, the system would report room there.
        if self.peer_addr().is_err() {
            self.0.writable().await
        } else {
            sleep(LOOK_AGAIN).await;
            Ok(())
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
        self.0.read_with(|socket| peek(socket.as_fd(), buffer)).await
    }

    /// As [`peek`](Self::peek), with the sender.
    ///
    /// # Errors
    ///
    /// See [`UnixDatagram`].
    pub async fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let peeked = self.0.read_with(|socket| peek_from(socket.as_fd(), buffer));
        let (length, sender) = peeked.await?;
        Ok((length, address_of(&sender)?))
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

/// How long a connected socket waits before it tries another receiver again: see `UnixDatagram::room_at`.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Converts an address to that of `std`. A socket without a path has an address without a name.
fn address_of(sender: &[u8]) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = sender.strip_prefix(&[0]) {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    let path = sender.split(|&byte| byte == 0).next();
    SocketAddr::from_pathname(OsStr::from_bytes(path.unwrap_or_default()))
}

lend_pollable!([] UnixDatagram, 0);
try_from_std!(UnixDatagram, std::os::unix::net::UnixDatagram);
