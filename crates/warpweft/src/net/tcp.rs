//! TCP connections and listeners.

use super::incoming::{Incoming, poll_listener, try_from_std};
use super::names::{Target, TargetAddresses, not_connected, nowhere};
use super::options::SocketOptions;
use super::stream;
use crate::driver::pollable::lend_pollable;
use crate::io::handle::Async;
use crate::time::timeout;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;
use warpweft_platform::sync::Mutex;

/// A TCP connection: a [`Stream`](stream::Stream) with further options.
pub type TcpStream = stream::Stream<std::net::TcpStream>;

impl TcpStream {
    /// Connects to `target`: an address, or a name with a port, which is looked up first. Several addresses
    /// are tried in order until one answers. Dropping the future cancels the attempt.
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
    /// The system's error for the last address, with the address: no listener, no route, no more descriptors;
    /// and as [`lookup`](super::lookup) and [`Async::new`].
    pub async fn connect(target: impl Target) -> io::Result<Self> {
        connect_to(target, |_, _| Ok(())).await
    }

    /// The same as [`connect`](Self::connect), but fails after `limit` in total.
    ///
    /// # Errors
    ///
    /// As `connect`, and [`TimedOut`](io::ErrorKind::TimedOut) with the address that did not answer.
    pub async fn connect_timeout(target: impl Target, limit: Duration) -> io::Result<Self> {
        let tried = Mutex::new(None);
        let connect = connect_to(target, |_, address| {
            *tried.lock() = Some(address);
            Ok(())
        });
        timeout(limit, connect).await.unwrap_or_else(|elapsed| {
            let address = *tried.lock();
            Err(address.map_or(elapsed.into(), |address| not_connected(elapsed.into(), address)))
        })
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().local_addr()
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    ///
    /// The system's error, for instance that the connection has ended.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().peer_addr()
    }

    /// Sets whether small writes are sent at once, without waiting for acknowledgements of earlier ones.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.get_ref().set_nodelay(nodelay)
    }
}

/// Connects to the first address that answers. `prepare` sets options of each socket before.
pub(super) async fn connect_to(
    target: impl Target,
    prepare: impl Fn(&Socket, SocketAddr) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let addresses = match target.addresses() {
        TargetAddresses::One(address) => return connect(address, &prepare).await,
        addresses => addresses.resolve().await?,
    };
    let mut last = nowhere();
    for address in addresses {
        match connect(address, &prepare).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect(
    address: SocketAddr,
    prepare: &impl Fn(&Socket, SocketAddr) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let connected = try_connect(address, prepare).await;
    connected.map_err(|error| not_connected(error, address))
}

async fn try_connect(
    address: SocketAddr,
    prepare: &impl Fn(&Socket, SocketAddr) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    prepare(&socket, address)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if !is_under_way(&error) => return Err(error),
        _ => {}
    }
    let stream = TcpStream::from_nonblocking(socket.into())?;
    stream.as_async().write_with(is_connected).await?;
    Ok(stream)
}

/// What a system says of a connection that does not block and has begun.
const CONNECTING: Errno = if cfg!(windows) {
    Errno::WOULDBLOCK
} else {
    Errno::INPROGRESS
};

fn is_under_way(error: &io::Error) -> bool {
    // After an interruption the system continues to connect.
    error.kind() == io::ErrorKind::Interrupted || error.raw_os_error() == Some(CONNECTING.raw_os_error())
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

/// A socket that accepts TCP connections.
#[derive(Debug)]
pub struct TcpListener(Async<std::net::TcpListener>);

impl TcpListener {
    /// Listens at the first address of `target` that can be had; port 0 lets the system choose one.
    ///
    /// An address needs no look-up, also as a text. A name is looked up in place: see [`Target`].
    /// [`SocketOptions`](super::SocketOptions) sets the length of the queue and other options.
    ///
    /// ```
    /// use warpweft::net::TcpListener;
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.block_on(async {
    ///     let listener = TcpListener::bind("127.0.0.1:0")?;
    ///     assert_ne!(listener.local_addr()?.port(), 0);
    ///     let error = TcpListener::bind("127.0.0.1").expect_err("no port");
    ///     assert!(error.to_string().contains("no port"));
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The address is in use or not local, with the address; no more descriptors; and as
    /// [`lookup`](super::lookup) and [`Async::new`].
    pub fn bind(target: impl Target) -> io::Result<Self> {
        SocketOptions::default().listen(target)
    }

    /// Converts a listener of `std`.
    ///
    /// # Errors
    ///
    /// As [`Async::new`].
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        Async::new(listener).map(Self)
    }

    /// Converts it to a listener of `std`. It stays non-blocking.
    #[must_use]
    pub fn into_std(self) -> std::net::TcpListener {
        self.0.into_inner()
    }

    /// Waits for a connection. Several tasks may wait.
    ///
    /// # Errors
    ///
    /// An error concerns this one connection, or is temporary: the listener stays usable. If the process has
    /// no descriptor left, the connection keeps waiting, and the next call fails at once: wait a little
    /// before it, until something is closed.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.0.read_with(std::net::TcpListener::accept).await?;
        Ok((TcpStream::from_std(stream)?, peer))
    }

    /// Returns the connections as a [`Stream`](futures_core::Stream), which never ends. Several such streams
    /// may be used at a time.
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
    /// Each item may be an error, as that of [`accept`](Self::accept).
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming::new(self)
    }

    /// The poll form of [`accept`](Self::accept).
    ///
    /// # Errors
    ///
    /// As `accept`.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.0.poll_read_with(cx, std::net::TcpListener::accept);
        accepted.map(|result| result.and_then(|(stream, peer)| Ok((TcpStream::from_std(stream)?, peer))))
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
    pub fn get_ref(&self) -> &std::net::TcpListener {
        self.0.get_ref()
    }
}

lend_pollable!([] TcpListener, 0);

poll_listener!(TcpListener, TcpStream);
try_from_std!(TcpListener, std::net::TcpListener);
try_from_std!(TcpStream, std::net::TcpStream);
