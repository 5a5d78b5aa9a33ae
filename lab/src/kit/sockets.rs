//! Sockets on loopback.

use std::io;
use std::net::{SocketAddr, TcpListener};

/// A listener for a server, and where it listens. It does not block.
pub(crate) fn listener() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
