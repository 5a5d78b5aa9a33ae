//! UDP sockets.

use crate::driver::pollable::lend_pollable;
use crate::io::handle::Async;
use std::io;
use std::net::SocketAddr;

/// A UDP socket. Several tasks may send and receive at a time; one of the receivers gets each datagram.
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
/// All methods return the system's errors, and [`NotConnected`](io::ErrorKind::NotConnected) when the
/// socket's runtime has shut down.
#[derive(Debug)]
pub struct UdpSocket(Async<std::net::UdpSocket>);

impl UdpSocket {
    /// Returns a socket at `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    ///
    /// The address is in use or not local; no more descriptors; and as [`Async::new`].
    pub fn bind(address: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::from_std(std::net::UdpSocket::bind(address.into())?)
    }

    /// Converts a socket of `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        Async::new(socket).map(Self)
    }

    /// Connects to `address`: `send` goes there, and only datagrams from there are received.
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
    /// See [`UdpSocket`]; also if the datagram is too long.
    pub async fn send_to(&self, bytes: &[u8], address: impl Into<SocketAddr>) -> io::Result<usize> {
        let address = address.into();
        self.0.write_with(|socket| socket.send_to(bytes, address)).await
    }

    /// Sends a datagram to the address of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`]; also if the datagram is too long, or the socket is not connected.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(bytes)).await
    }

    /// Receives a datagram, and returns its length and its sender. Bytes that do not fit into `buffer` are
    /// lost.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`].
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.recv_from(buffer)).await
    }

    /// Receives a datagram from the address of [`connect`](Self::connect), or from any address without one.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`].
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|socket| socket.recv(buffer)).await
    }

    /// Reads the next datagram without removing it.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`].
    pub async fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.peek_from(buffer)).await
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
    pub fn get_ref(&self) -> &std::net::UdpSocket {
        self.0.get_ref()
    }
}

lend_pollable!([] UdpSocket, 0);
