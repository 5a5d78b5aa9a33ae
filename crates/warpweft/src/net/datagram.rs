//! Unix datagrams.

use crate::io::handle::Async;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;

/// A socket for datagrams inside this machine. None is lost on the way, and they come in order. Several tasks
/// may use it at a time.
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
/// All methods give what the system says, and [`NotConnected`](io::ErrorKind::NotConnected) when the runtime
/// to which the socket belongs has shut down.
#[derive(Debug)]
pub struct UnixDatagram(Async<std::os::unix::net::UnixDatagram>);

impl UnixDatagram {
    /// A socket at `path`, which must not be there. The path stays when the socket goes.
    ///
    /// # Errors
    ///
    /// What the system says about the path; no more descriptors; and as [`Async::new`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_std(std::os::unix::net::UnixDatagram::bind(path)?)
    }

    /// A socket without a path: it can send, and be answered by nobody.
    ///
    /// # Errors
    ///
    /// No more descriptors; and as [`Async::new`].
    pub fn unbound() -> io::Result<Self> {
        Self::from_std(std::os::unix::net::UnixDatagram::unbound()?)
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// As [`unbound`](Self::unbound).
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = std::os::unix::net::UnixDatagram::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }

    /// Takes a socket over from `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(socket: std::os::unix::net::UnixDatagram) -> io::Result<Self> {
        Async::new(socket).map(Self)
    }

    /// From now on `send` goes to the socket at `path`, and only what comes from there is received.
    ///
    /// # Errors
    ///
    /// Nobody is there.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.0.get_ref().connect(path)
    }

    /// Sends a datagram to the socket of [`connect`](Self::connect), when there is room for it.
    ///
    /// # Errors
    ///
    /// See [`UnixDatagram`]; it is too long, or there is no such socket any more.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(bytes)).await
    }

    /// Sends a datagram to the socket at `path`, now or not at all.
    ///
    /// # Errors
    ///
    /// See [`UnixDatagram`]; [`ResourceBusy`](io::ErrorKind::ResourceBusy) if there is no room for it: the
    /// system does not say when there will be, unless the sockets are [connected](Self::connect).
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

    /// Receives a datagram: its length and its sender. What does not fit into `buffer` is lost.
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

    /// The address of this socket.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// The system's socket, for its options.
    #[must_use]
    pub fn get_ref(&self) -> &std::os::unix::net::UnixDatagram {
        self.0.get_ref()
    }
}

impl AsFd for UnixDatagram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
