//! UDP sockets.

use super::incoming::try_from_std;
use super::names::{Target, TargetAddresses, busy_if_full, first_of, not_bound, not_connected, nowhere};
use crate::driver::pollable::lend_pollable;
use crate::io::handle::Async;
use crate::io::named::{named, named_as};
use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice};
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
    /// Returns a socket at the first address of `target` that can be had; port 0 lets the system choose one.
    /// A name is looked up in place: see [`Target`].
    ///
    /// # Errors
    ///
    /// The address is in use or not local, with the address; no more descriptors; and as
    /// [`lookup`](super::lookup) and [`Async::new`].
    pub fn bind(target: impl Target) -> io::Result<Self> {
        let addresses = target.addresses().resolve_here()?;
        let bind = |address| std::net::UdpSocket::bind(address).map_err(|error| not_bound(error, address));
        Self::from_std(first_of(&addresses, bind)?)
    }

    /// Converts a socket of `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        Async::new(socket).map(Self)
    }

    /// Converts it to a socket of `std`. It stays non-blocking.
    #[must_use]
    pub fn into_std(self) -> std::net::UdpSocket {
        self.0.into_inner()
    }

    /// Connects to the first address of `target` to which there is a route: `send` goes there, and only
    /// datagrams from there are received. A name is looked up in place: see [`Target`].
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`], with the address; and as [`lookup`](super::lookup).
    pub fn connect(&self, target: impl Target) -> io::Result<()> {
        let addresses = target.addresses().resolve_here()?;
        first_of(&addresses, |address| {
            let connected = self.0.get_ref().connect(address);
            connected.map_err(|error| not_connected(error, address))
        })
    }

    /// Sends a datagram to `target`. Of several addresses it takes the first that is of the same version of
    /// IP as this socket. A name is looked up for each call, so look up first if there are several.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`], with the address; also if the datagram is too long, or the address is of another
    /// version of IP than this socket; and as [`lookup`](super::lookup).
    pub async fn send_to(&self, bytes: &[u8], target: impl Target) -> io::Result<usize> {
        let address = match target.addresses() {
            TargetAddresses::One(address) => address,
            addresses => self.fitting(&addresses.resolve().await?)?,
        };
        let sent = self.0.write_with(|socket| socket.send_to(bytes, address)).await;
        sent.map_err(|error| self.not_sent_to(error, address))
    }

    /// Sends a datagram to `target`, at once or not at all. A name is looked up in place: see [`Target`].
    ///
    /// # Errors
    ///
    /// As [`send_to`](Self::send_to); [`ResourceBusy`](io::ErrorKind::ResourceBusy) if there is no room for
    /// it.
    pub fn try_send_to(&self, bytes: &[u8], target: impl Target) -> io::Result<usize> {
        let address = match target.addresses() {
            TargetAddresses::One(address) => address,
            addresses => self.fitting(&addresses.resolve_here()?)?,
        };
        loop {
            match self.0.get_ref().send_to(bytes, address) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                sent => return sent.map_err(|error| self.not_sent_to(busy_if_full(error), address)),
            }
        }
    }

    #[cold]
    fn not_sent_to(&self, error: io::Error, address: SocketAddr) -> io::Error {
        let mut attempt = format!("send to {address}");
        match self.local_addr() {
            Ok(local) if local.is_ipv4() && address.is_ipv6() => {
                attempt.push_str(" of version 6 by a socket of version 4");
            }
            _ => {}
        }
        named(error, attempt)
    }

    #[cold]
    fn not_sent(&self, error: io::Error) -> io::Error {
        match self.peer_addr() {
            Ok(address) => self.not_sent_to(error, address),
            Err(none) if none.kind() == ErrorKind::NotConnected => named_as(
                ErrorKind::NotConnected,
                error,
                String::from("send by a socket without a peer: call `connect` before, or `send_to`"),
            ),
            Err(_) => error,
        }
    }

    /// Returns the first address of this socket's family, or just the first.
    fn fitting(&self, addresses: &[SocketAddr]) -> io::Result<SocketAddr> {
        let is_v4 = self.local_addr()?.is_ipv4();
        let fits = addresses.iter().find(|address| address.is_ipv4() == is_v4);
        fits.or(addresses.first()).copied().ok_or_else(nowhere)
    }

    /// Sends a datagram to the address of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`], with the address; also if the datagram is too long;
    /// [`NotConnected`](io::ErrorKind::NotConnected) without `connect`.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.write_with(|socket| socket.send(bytes)).await;
        sent.map_err(|error| self.not_sent(error))
    }

    /// As [`send`](Self::send), of bytes from several buffers, one after the other.
    ///
    /// # Errors
    ///
    /// As `send`.
    pub async fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let sent = self
            .0
            .write_with(|socket| SockRef::from(socket).send_vectored(buffers))
            .await;
        sent.map_err(|error| self.not_sent(error))
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

    /// As [`peek_from`](Self::peek_from), without the sender.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket`].
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|socket| socket.peek(buffer)).await
    }

    /// Returns the address of [`connect`](Self::connect).
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
    pub fn get_ref(&self) -> &std::net::UdpSocket {
        self.0.get_ref()
    }
}

lend_pollable!([] UdpSocket, 0);
try_from_std!(UdpSocket, std::net::UdpSocket);
