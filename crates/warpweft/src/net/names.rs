//! Addresses of sockets, and names that the system resolves to addresses.

use crate::execution::blocking::blocking;
use crate::io::named::named;
use crate::io::run_blocking::run_blocking;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};

/// Where to bind, connect or send to: an address, several that are tried in order, or the name of a host with
/// a port, as `"example.org:80"` or `("example.org", 80)`.
///
/// A text that is an address, as `"127.0.0.1:80"` or `"[::1]:80"`, needs no look-up. Any other is a name that
/// the system looks up, which can take seconds. Functions that are futures do that on a thread of
/// [`spawn_blocking`](crate::spawn_blocking). Functions that are not, as
/// [`TcpListener::bind`](super::TcpListener::bind), do it in place, inside [`blocking`](crate::blocking): the
/// worker continues with other tasks. [`lookup`] awaits the addresses instead.
pub trait Target: sealed::Target {}

impl<T: sealed::Target> Target for T {}

mod sealed {
    pub trait Target {
        fn addresses(self) -> super::TargetAddresses;
    }
}

/// A target, as far as it is known without a look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetAddresses {
    One(SocketAddr),
    Several(Vec<SocketAddr>),
    /// A name that must be looked up, and a port.
    Host(String, u16),
    /// Not a target, with the reason.
    Wrong(String),
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl sealed::Target for $type {
            fn addresses(self) -> TargetAddresses {
                TargetAddresses::One(self.into())
            }
        }
    )*};
}

numbers!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16),
    ([u8; 4], u16),
    ([u8; 16], u16),
    ([u16; 8], u16)
);

impl sealed::Target for &SocketAddr {
    fn addresses(self) -> TargetAddresses {
        TargetAddresses::One(*self)
    }
}

impl sealed::Target for &[SocketAddr] {
    fn addresses(self) -> TargetAddresses {
        TargetAddresses::Several(self.to_vec())
    }
}

impl<const N: usize> sealed::Target for [SocketAddr; N] {
    fn addresses(self) -> TargetAddresses {
        TargetAddresses::Several(self.to_vec())
    }
}

impl sealed::Target for Vec<SocketAddr> {
    fn addresses(self) -> TargetAddresses {
        TargetAddresses::Several(self)
    }
}

impl sealed::Target for (&str, u16) {
    fn addresses(self) -> TargetAddresses {
        let (host, port) = self;
        match host.parse::<IpAddr>() {
            Ok(ip) => TargetAddresses::One((ip, port).into()),
            Err(_) => TargetAddresses::Host(host.to_owned(), port),
        }
    }
}

impl sealed::Target for (String, u16) {
    fn addresses(self) -> TargetAddresses {
        (&*self.0, self.1).addresses()
    }
}

impl sealed::Target for &str {
    fn addresses(self) -> TargetAddresses {
        if let Ok(address) = self.parse() {
            return TargetAddresses::One(address);
        }
        match host_and_port(self) {
            Ok((host, port)) => (host, port).addresses(),
            Err(reason) => TargetAddresses::Wrong(format!(
                "`{self}` is no address: {reason}. Write `host:port`, as in `localhost:80`, `127.0.0.1:80` or \
                 `[::1]:80`"
            )),
        }
    }
}

/// Splits a text that is not a whole address, or returns what is wrong with it.
fn host_and_port(text: &str) -> Result<(&str, u16), String> {
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(String::from("it has no port"));
    };
    if text.contains("://") {
        return Err(String::from(
            "it is a URL, of which only the host and the port are an address",
        ));
    }
    if text.parse::<Ipv6Addr>().is_ok() || host.contains("::") && !host.starts_with('[') {
        return Err(String::from(
            "an address of version 6 is in brackets, before its port",
        ));
    }
    if host.contains(':') && !host.starts_with('[') {
        return Err(String::from(match host.matches(':').count() {
            1 => "it has two ports",
            _ => "it has several colons; only an address of version 6 has, in brackets, before its port",
        }));
    }
    if host.is_empty() {
        return Err(String::from(
            "it has no host; `0.0.0.0` and `[::]` are all addresses of this one",
        ));
    }
    if host.contains(':') || host.starts_with('[') {
        return Err(format!("`{host}` is no address of version 6"));
    }
    match port.parse() {
        Ok(port) => Ok((host, port)),
        Err(_) if port.is_empty() => Err(String::from("it has no port")),
        Err(_) => Err(format!("`{port}` is no number of a port, which is 0 to 65535")),
    }
}

impl sealed::Target for &String {
    fn addresses(self) -> TargetAddresses {
        self.as_str().addresses()
    }
}

impl sealed::Target for String {
    fn addresses(self) -> TargetAddresses {
        self.as_str().addresses()
    }
}

impl TargetAddresses {
    /// Returns the addresses. A name is looked up on a thread for that.
    pub(super) async fn resolve(self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::Host(host, port) => run_blocking(move || addresses_of(&host, port)).await,
            known => known.resolve_here(),
        }
    }

    /// Returns the addresses. A name is looked up on this thread, which gives its worker away meanwhile.
    pub(super) fn resolve_here(self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::One(address) => Ok(vec![address]),
            Self::Several(addresses) => Ok(addresses),
            Self::Host(host, port) => blocking(|| addresses_of(&host, port)),
            Self::Wrong(reason) => Err(io::Error::new(ErrorKind::InvalidInput, reason)),
        }
    }
}

/// Asks the system for the addresses of a name.
fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    match (host, port).to_socket_addrs() {
        Ok(addresses) => Ok(addresses.collect()),
        Err(error) => Err(named(error, format!("look up the name `{host}`"))),
    }
}

/// Returns the first success of `attempt`, which is called with one address after the other, or the last
/// error.
pub(super) fn first_of<T>(
    addresses: &[SocketAddr],
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = nowhere();
    for &address in addresses {
        match attempt(address) {
            Ok(result) => return Ok(result),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The error of an empty list of addresses.
pub(super) fn nowhere() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidInput,
        "the list of addresses is empty: give at least one",
    )
}

/// Returns the system's error with the address that a socket could not have.
pub(super) fn not_bound(error: io::Error, address: SocketAddr) -> io::Error {
    named(error, format!("bind to {address}"))
}

/// Returns the system's error with the address to which a socket could not connect.
pub(super) fn not_connected(error: io::Error, address: SocketAddr) -> io::Error {
    named(error, format!("connect to {address}"))
}

/// Returns the error of a datagram that could not be sent at once.
pub(super) fn busy_if_full(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock => io::Error::new(
            ErrorKind::ResourceBusy,
            "there is no room for the datagram: try again later, or use `send_to`, which waits",
        ),
        _ => error,
    }
}

/// Returns the addresses of a target, in the order in which they should be tried. The system looks names up,
/// on a thread of [`spawn_blocking`](crate::spawn_blocking). If the future is dropped, the look-up runs to
/// its end. An address is returned at once.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let addresses = runtime.block_on(warpweft::net::lookup("127.0.0.1:80"))?;
/// assert_eq!(addresses, [([127, 0, 0, 1], 80).into()]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`InvalidInput`](ErrorKind::InvalidInput) if the target is neither an address nor a name with a port; the
/// system's error, if it does not know the name; [`NotConnected`](ErrorKind::NotConnected) if the runtime is
/// shutting down.
///
/// # Panics
///
/// Outside of any runtime, if the default one cannot be built.
pub async fn lookup(target: impl Target) -> io::Result<Vec<SocketAddr>> {
    target.addresses().resolve().await
}

#[cfg(test)]
mod tests {
    use super::sealed::Target as _;
    use super::*;

    #[test]
    fn what_is_an_address_needs_no_look_up() {
        let one = TargetAddresses::One(([127, 0, 0, 1], 80).into());
        assert_eq!("127.0.0.1:80".addresses(), one);
        assert_eq!(("127.0.0.1", 80).addresses(), one);
        assert_eq!(([127, 0, 0, 1], 80).addresses(), one);
        let six = TargetAddresses::One((Ipv6Addr::LOCALHOST, 80).into());
        assert_eq!("[::1]:80".addresses(), six);
        assert_eq!(("::1", 80).addresses(), six);
        let host = TargetAddresses::Host(String::from("a.example"), 443);
        assert_eq!(String::from("a.example:443").addresses(), host);
    }

    #[test]
    fn what_is_none_is_told_what_would_be_right() {
        for wrong in [
            "",
            "localhost",
            ":80",
            "localhost:",
            "localhost:http",
            "a:99999",
            "::1",
            "::1:80",
            "[::1]",
            "[localhost]:80",
            "[::1",
            "http://localhost:80",
            "http://localhost",
            "127.0.0.1:80:80",
            "1:2:3:80",
        ] {
            let TargetAddresses::Wrong(text) = wrong.addresses() else {
                panic!("{wrong} is a target");
            };
            assert!(
                text.contains(&format!("`{wrong}`")) && text.contains("localhost:80"),
                "{text}"
            );
        }
    }

    #[test]
    fn each_mistake_has_its_reason() {
        for (wrong, reason) in [
            ("localhost", "no port"),
            ("localhost:", "no port"),
            (":80", "no host"),
            ("localhost:http", "`http` is no number of a port"),
            ("a:99999", "65535"),
            ("::1", "in brackets"),
            ("::1:80", "in brackets"),
            ("fe80::1%eth0:80", "in brackets"),
            ("2001:db8:0:0:0:0:0:1:80", "in brackets"),
            ("http://localhost:80", "is a URL"),
            ("https://[::1]:80/index", "is a URL"),
            ("127.0.0.1:80:80", "two ports"),
            ("[::g]:80", "`[::g]` is no address of version 6"),
        ] {
            let error = wrong.addresses().resolve_here().expect_err(wrong);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn a_name_that_is_unknown_is_in_the_error() {
        // No host has a name with a space.
        let error = ("no such host", 80)
            .addresses()
            .resolve_here()
            .expect_err("no host");
        assert!(error.to_string().contains("`no such host`"), "{error}");
    }
}
