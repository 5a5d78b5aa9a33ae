//! UDP.

use crate::io::handle::Async;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// A socket for datagrams. Several tasks may use it at a time, each for any purpose; a datagram goes to one
/// of those who receive.
///
/// ```
/// use warpweft::net::UdpSocket;
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (one, other) = (UdpSocket::bind(([127, 0, 0, 1], 0))?, UdpSocket::bind(([127, 0, 0, 1], 0))?);
///     one.send_to(b"hello", other.local_addr()?).await?;
///     let mut buffer = [0; 16];
///     let (length, from) = other.recv_from(&mut buffer).await?;
///     assert_eq!((&buffer[..length], from), (&b"hello"[..], one.local_addr()?));
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
pub struct UdpSocket(Async<std::net::UdpSocket>);

impl UdpSocket {
    /// A socket at `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    ///
    /// The address is in use or not ours; no more descriptors; and as [`Async::new`].
    pub fn bind(address: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::from_std(std::net::UdpSocket::bind(address.into())?)
    }

    /// Takes a socket over from `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        Async::new(socket).map(Self)
    }

    /// From now on `send` goes there, and only what comes from there is received.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`].
    pub fn connect(&self, address: impl Into<SocketAddr>) -> io::Result<()> {
        self.0.get_ref().connect(address.into())
    }

    /// Sends a datagram to `address`.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`]; it is too long.
    pub async fn send_to(&self, bytes: &[u8], address: impl Into<SocketAddr>) -> io::Result<usize> {
        let address = address.into();
        self.0.write_with(|socket| socket.send_to(bytes, address)).await
    }

    /// Sends a datagram to the address of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`]; it is too long, or there is no such address.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(bytes)).await
    }

    /// Receives a datagram: its length and its sender. What does not fit into `buffer` is lost.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`].
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.recv_from(buffer)).await
    }

    /// Receives a datagram from the address of [`connect`](Self::connect), or from anyone.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`].
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|socket| socket.recv(buffer)).await
    }

    /// Looks at the next datagram without taking it.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`].
    pub async fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.peek_from(buffer)).await
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
    pub fn get_ref(&self) -> &std::net::UdpSocket {
        self.0.get_ref()
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
