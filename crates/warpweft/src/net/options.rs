//! Options that a socket must have before it is bound or connected.

use super::names::{Target, first_of, not_bound};
use super::tcp::{TcpListener, TcpStream, connect_to};
use super::udp::UdpSocket;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The largest buffer that can be asked for.
const MOST_BUFFERED: usize = i32::MAX as usize;

/// The longest silence that Linux takes, in seconds.
const LONGEST_SILENCE: u64 = 32767;

/// Makes sockets with options. Options that are not set are those of `std` or of the system.
///
/// ```
/// use std::time::Duration;
/// use warpweft::net::SocketOptions;
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let options = SocketOptions::new().nodelay(true).keepalive(Duration::from_secs(60)).backlog(4096);
///     let listener = options.listen("localhost:0")?;
///     let stream = options.connect(listener.local_addr()?).await?;
///     assert!(stream.get_ref().nodelay()?);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct SocketOptions {
    reuse_address: Option<bool>,
    #[cfg(unix)]
    reuse_port: bool,
    backlog: Option<u32>,
    nodelay: Option<bool>,
    only_v6: Option<bool>,
    ttl: Option<u32>,
    keepalive: Option<Duration>,
    send_buffer: Option<usize>,
    recv_buffer: Option<usize>,
}

impl SocketOptions {
    /// Returns options of which none is set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether an address may be bound whose previous connections are still ending (`SO_REUSEADDR`). A
    /// listener has it by default, but not on Windows, where it lets programs take addresses from each other.
    #[must_use]
    pub fn reuse_address(mut self, reuse: bool) -> Self {
        self.reuse_address = Some(reuse);
        self
    }

    /// Sets whether several sockets may have the same address (`SO_REUSEPORT`). Linux then spreads
    /// connections and datagrams over them. Each of the sockets needs it.
    #[cfg(unix)]
    #[must_use]
    pub fn reuse_port(mut self, reuse: bool) -> Self {
        self.reuse_port = reuse;
        self
    }

    /// Sets how many connections may wait to be accepted. The default is 4096. The system has a limit, too
    /// (`somaxconn`), which it takes if that is smaller.
    #[must_use]
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = Some(connections);
        self
    }

    /// Sets whether small writes of a TCP connection are sent at once. Connections that a listener accepts
    /// inherit it on Linux and BSD; elsewhere call [`TcpStream::set_nodelay`].
    #[must_use]
    pub fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = Some(nodelay);
        self
    }

    /// Sets whether a socket of IP version 6 refuses version 4. Systems differ in their default. Sockets of
    /// version 4 ignore it.
    #[must_use]
    pub fn only_v6(mut self, only: bool) -> Self {
        self.only_v6 = Some(only);
        self
    }

    /// Sets how many routers a packet may pass, from 1 to 255.
    #[must_use]
    pub fn ttl(mut self, routers: u32) -> Self {
        self.ttl = Some(routers);
        self
    }

    /// Sets after how long a silence the system asks a TCP peer whether it is still there: whole seconds,
    /// rounded up, of which systems take 1 to 32767. A connection whose peer does not answer ends with an
    /// error. Connections that a listener accepts inherit it on Linux and BSD.
    #[must_use]
    pub fn keepalive(mut self, silence: Duration) -> Self {
        self.keepalive = Some(silence);
        self
    }

    /// Sets how many bytes the system keeps that were written and not sent. Linux doubles the number.
    #[must_use]
    pub fn send_buffer(mut self, bytes: usize) -> Self {
        self.send_buffer = Some(bytes);
        self
    }

    /// Sets how many bytes the system keeps that were received and not read. Linux doubles the number.
    #[must_use]
    pub fn recv_buffer(mut self, bytes: usize) -> Self {
        self.recv_buffer = Some(bytes);
        self
    }

    /// Listens at the first address of `target` that can be had: see [`TcpListener::bind`].
    ///
    /// # Errors
    ///
    /// As [`TcpListener::bind`]; or the system refuses an option.
    pub fn listen(&self, target: impl Target) -> io::Result<TcpListener> {
        let addresses = target.addresses().resolve_here()?;
        let listener = first_of(&addresses, |address| {
            let reuse = self.reuse_address.unwrap_or(cfg!(unix));
            let socket = self.bound(address, Type::STREAM, Protocol::TCP, Some(reuse))?;
            self.of_tcp(&socket)?;
            // The system takes its limit if that is smaller.
            let backlog = self.backlog.unwrap_or(4096);
            socket
                .listen(i32::try_from(backlog).unwrap_or(i32::MAX))
                .map_err(|error| not_bound(error, address))?;
            Ok(socket)
        })?;
        TcpListener::from_std(listener.into())
    }

    /// Connects to the first address of `target` that answers: see [`TcpStream::connect`].
    ///
    /// # Errors
    ///
    /// As [`TcpStream::connect`]; or the system refuses an option.
    pub async fn connect(&self, target: impl Target) -> io::Result<TcpStream> {
        connect_to(target, |socket, address| {
            self.of_any(socket, address.is_ipv6(), self.reuse_address)?;
            self.of_tcp(socket)
        })
        .await
    }

    /// Returns a UDP socket at the first address of `target` that can be had: see [`UdpSocket::bind`].
    ///
    /// # Errors
    ///
    /// As [`UdpSocket::bind`]; or the system refuses an option.
    pub fn bind_udp(&self, target: impl Target) -> io::Result<UdpSocket> {
        let addresses = target.addresses().resolve_here()?;
        let socket = first_of(&addresses, |address| {
            self.bound(address, Type::DGRAM, Protocol::UDP, self.reuse_address)
        })?;
        UdpSocket::from_std(socket.into())
    }

    fn bound(
        &self,
        address: SocketAddr,
        kind: Type,
        protocol: Protocol,
        reuse_address: Option<bool>,
    ) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
        self.of_any(&socket, address.is_ipv6(), reuse_address)?;
        let bound = socket.bind(&address.into());
        bound.map_err(|error| not_bound(error, address))?;
        Ok(socket)
    }

    fn of_any(&self, socket: &Socket, is_v6: bool, reuse_address: Option<bool>) -> io::Result<()> {
        if let Some(reuse) = reuse_address {
            socket.set_reuse_address(reuse)?;
        }
        #[cfg(unix)]
        if self.reuse_port {
            socket.set_reuse_port(true)?;
        }
        if let Some(only) = self.only_v6.filter(|_| is_v6) {
            socket.set_only_v6(only)?;
        }
        match self.ttl {
            Some(routers) if is_v6 => socket.set_unicast_hops_v6(routers)?,
            Some(routers) => socket.set_ttl_v4(routers)?,
            None => {}
        }
        if let Some(bytes) = self.send_buffer {
            socket.set_send_buffer_size(bytes.min(MOST_BUFFERED))?;
        }
        if let Some(bytes) = self.recv_buffer {
            socket.set_recv_buffer_size(bytes.min(MOST_BUFFERED))?;
        }
        Ok(())
    }

    fn of_tcp(&self, socket: &Socket) -> io::Result<()> {
        if let Some(nodelay) = self.nodelay {
            socket.set_tcp_nodelay(nodelay)?;
        }
        if let Some(silence) = self.keepalive {
            let whole = silence
                .as_secs()
                .saturating_add(u64::from(silence.subsec_nanos() > 0));
            let silence = Duration::from_secs(whole.clamp(1, LONGEST_SILENCE));
            socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(silence))?;
        }
        Ok(())
    }
}
