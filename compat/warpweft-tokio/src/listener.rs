//! Where a server's connections come from.

use crate::Io;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use warpweft::net::{TcpListener, TcpStream};
#[cfg(unix)]
use warpweft::net::{UnixListener, UnixStream};

/// A source of connections for [`serve`](crate::serve): a [`TcpListener`] or a `UnixListener`, or one of your
/// own, which shakes hands for TLS or sets options of each socket.
///
/// ```
/// use std::{io, net::SocketAddr};
/// use warpweft::net::{TcpListener, TcpStream};
/// use warpweft_tokio::{Io, Listener};
///
/// /// Connections that wait for more bytes before they send.
/// struct Delaying(TcpListener);
///
/// impl Listener for Delaying {
///     type Io = Io<TcpStream>;
///     type Address = SocketAddr;
///
///     async fn accept(&mut self) -> io::Result<(Self::Io, SocketAddr)> {
///         let (stream, peer) = self.0.accept().await?;
///         stream.set_nodelay(false)?;
///         Ok((Io::socket(stream), peer))
///     }
/// }
/// ```
pub trait Listener: Send + 'static {
    /// A connection: mostly an [`Io`].
    type Io: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static;
    /// Where it comes from.
    type Address: Clone + fmt::Debug + Send + Sync + 'static;

    /// Waits for the next connection. The server drops the future when it ends.
    ///
    /// # Errors
    ///
    /// A kind of `Connection…` is about one client: the server continues. An error of the system makes it
    /// pause. `InvalidInput`, `NotConnected`, and an error that is not of the system end it.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Io, Self::Address)>> + Send;
}

/// Sets `TCP_NODELAY`, so that an answer is sent at once, whatever the client has acknowledged.
impl Listener for TcpListener {
    type Io = Io<TcpStream>;
    type Address = SocketAddr;

    async fn accept(&mut self) -> io::Result<(Self::Io, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        // If that fails the connection is gone, and says so when it is read.
        let _ = stream.set_nodelay(true);
        Ok((Io::socket(stream), peer))
    }
}

#[cfg(unix)]
impl Listener for UnixListener {
    type Io = Io<UnixStream>;
    /// The path to which the client has bound its socket: mostly none.
    type Address = Option<std::path::PathBuf>;

    async fn accept(&mut self) -> io::Result<(Self::Io, Self::Address)> {
        let (stream, peer) = Self::accept(self).await?;
        let path = peer.as_pathname().map(std::path::Path::to_owned);
        Ok((Io::socket(stream), path))
    }
}
