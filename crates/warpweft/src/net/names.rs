//! Addresses of sockets, and names that the system resolves to addresses.

use crate::io::run_blocking::run_blocking;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};

/// A target of [`TcpStream::connect`](super::TcpStream::connect): an address, several that are tried in
/// order, or the name of a host with a port, as `"example.org:80"` or `("example.org", 80)`.
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
        let parts = self.rsplit_once(':');
        match parts.map(|(host, port)| (host, port.parse::<u16>())) {
            Some((host, Ok(port))) if !host.is_empty() && !host.contains(':') => (host, port).addresses(),
            _ => TargetAddresses::Wrong(format!(
                "`{self}` is no address: write `host:port`, as in `localhost:80`, `127.0.0.1:80` or `[::1]:80`"
            )),
        }
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
    /// Returns the addresses, and asks the system if necessary.
    pub(super) async fn resolve(self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::One(address) => Ok(vec![address]),
            Self::Several(addresses) => Ok(addresses),
            Self::Host(host, port) => {
                run_blocking(move || Ok((host, port).to_socket_addrs()?.collect())).await
            }
            Self::Wrong(reason) => Err(io::Error::new(ErrorKind::InvalidInput, reason)),
        }
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
            "::1:80",
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
}
