//! TCP.

use super::names::{Addresses, Target};
use super::stream;
use crate::io::handle::Async;
use crate::time::timeout;
use futures_core::Stream;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A TCP connection: a [`Stream`](stream::Stream) with options of its own.
pub type TcpStream = stream::Stream<std::net::TcpStream>;

impl TcpStream {
    /// Connects to `target`: an address, or a name with a port, which is looked up first. Of several
    /// addresses the first that answers is taken. Dropping the future gives the attempt up.
    ///
    /// ```
    /// use warpweft::net::{TcpListener, TcpStream};
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
    ///     let stream = TcpStream::connect(("localhost", listener.local_addr()?.port())).await?;
    ///     assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What the system says of the last address: nobody listens, no route, no more descriptors; and as
    /// [`lookup`](super::lookup) and [`Async::new`].
    pub async fn connect(target: impl Target) -> io::Result<Self> {
        let addresses = match target.addresses() {
            Addresses::One(address) => return connect(address).await,
            addresses => addresses.resolve().await?,
        };
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "there is no address to connect to");
        for address in addresses {
            match connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// As [`connect`](Self::connect), but gives up after `limit`, which is for all of it.
    ///
    /// # Errors
    ///
    /// As `connect`, and [`TimedOut`](io::ErrorKind::TimedOut).
    pub async fn connect_timeout(target: impl Target, limit: Duration) -> io::Result<Self> {
        timeout(limit, Self::connect(target)).await?
    }

    /// The address at this end.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }

    /// The address at the other end.
    ///
    /// # Errors
    ///
    /// What the system says, for instance that it is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().peer_addr()
    }

    /// Whether small writes go out at once instead of waiting for the answer to the last ones.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.get_ref().set_nodelay(nodelay)
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if !is_under_way(&error) => return Err(error),
        _ => {}
    }
    let stream = TcpStream::from_nonblocking(socket.into())?;
    stream.as_async().write_with(is_connected).await?;
    Ok(stream)
}

fn is_under_way(error: &io::Error) -> bool {
    // Interrupted: it goes on without us.
    error.kind() == io::ErrorKind::Interrupted
        || error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error())
}

fn is_connected(stream: &std::net::TcpStream) -> io::Result<()> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error),
    }
}

/// Where TCP connections arrive.
#[derive(Debug)]
pub struct TcpListener(Async<std::net::TcpListener>);

impl TcpListener {
    /// Listens at `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    ///
    /// The address is in use or not ours; no more descriptors; and as [`Async::new`].
    pub fn bind(address: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::from_std(std::net::TcpListener::bind(address.into())?)
    }

    /// Takes a listener over from `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        Async::new(listener).map(Self)
    }

    /// Waits for a connection. Several tasks may.
    ///
    /// # Errors
    ///
    /// An error concerns this one connection, or the moment: the listener stays as usable as it was. If the
    /// process has no descriptor left the connection keeps waiting, and so the next call fails at once: wait
    /// a little before it, until something is closed.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.0.read_with(std::net::TcpListener::accept).await?;
        Ok((TcpStream::from_std(stream)?, peer))
    }

    /// The connections as a [`Stream`](futures_core::Stream), which never ends. Several may be at work at a
    /// time.
    ///
    /// ```
    /// use futures_core::Stream;
    /// use std::future::poll_fn;
    /// use std::pin::pin;
    /// use warpweft::net::{TcpListener, TcpStream};
    ///
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
    ///     let client = TcpStream::connect(listener.local_addr()?).await?;
    ///     let mut incoming = pin!(listener.incoming());
    ///     // With `futures::StreamExt` this is `incoming.next().await`.
    ///     let stream = poll_fn(|cx| incoming.as_mut().poll_next(cx)).await.expect("it never ends")?;
    ///     assert_eq!(stream.peer_addr()?, client.local_addr()?);
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Each item may be one, as that of [`accept`](Self::accept).
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }

    /// As [`accept`](Self::accept), for those who poll.
    ///
    /// # Errors
    ///
    /// As `accept`.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.0.poll_read_with(cx, std::net::TcpListener::accept);
        accepted.map(|result| result.and_then(|(stream, peer)| Ok((TcpStream::from_std(stream)?, peer))))
    }

    /// The address at which it listens.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// The system's listener, for its options.
    #[must_use]
    pub fn get_ref(&self) -> &std::net::TcpListener {
        self.0.get_ref()
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Connections that arrive: see [`TcpListener::incoming`].
#[derive(Debug, Clone, Copy)]
#[must_use = "a stream does nothing unless it is polled"]
pub struct Incoming<'a>(&'a TcpListener);

impl Stream for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let accepted = self.0.poll_accept(cx);
        accepted.map(|result| Some(result.map(|(stream, _)| stream)))
    }
}
