//! What the descriptors are for which tasks wait: addresses of sockets, and the kind of others.
//!
//! A descriptor may be closed, and its number used again, between the look at the wait and this one. Then the
//! dump names what has the number now.

/// The most descriptors of a dump that are looked at: some microseconds each.
pub(super) const MOST: usize = 4096;

/// Returns what has that number now, if that can be found out.
#[cfg(all(unix, feature = "net", not(any(warpweft_loom, warpweft_shuttle))))]
pub(super) fn name_of(descriptor: u64) -> Option<String> {
    let descriptor = i32::try_from(descriptor).ok()?;
    let Some(local) = address(descriptor, libc::getsockname) else {
        return kind_of(descriptor);
    };
    let text = text(&local)?;
    Some(
        match address(descriptor, libc::getpeername).map(|peer| self::text(&peer)) {
            Some(Some(peer)) => format!("from {text} to {peer}"),
            Some(None) => format!("at {text}"),
            None if listens(descriptor) => format!("listener at {text}"),
            None => format!("at {text}"),
        },
    )
}

/// As above, where the types of sockets are not compiled.
#[cfg(not(all(unix, feature = "net", not(any(warpweft_loom, warpweft_shuttle)))))]
pub(super) fn name_of(_descriptor: u64) -> Option<String> {
    None
}

#[cfg(all(unix, feature = "net", not(any(warpweft_loom, warpweft_shuttle))))]
use with_net::{address, kind_of, listens, text};

#[cfg(all(unix, feature = "net", not(any(warpweft_loom, warpweft_shuttle))))]
mod with_net {
    use socket2::SockAddr;
    use std::io;

    /// `getsockname` or `getpeername`.
    type AddressCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

    pub(super) fn address(descriptor: i32, ask: AddressCall) -> Option<SockAddr> {
        let ask = |storage: *mut socket2::SockAddrStorage, length| {
            // SAFETY: the kernel writes no more than that length. A number of no socket is an error.
            match unsafe { ask(descriptor, storage.cast(), length) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure initialises the address if it returns `Ok`, as the kernel does.
        let found = unsafe { SockAddr::try_init(ask) };
        found.ok().map(|((), address)| address)
    }

    /// Returns true if the socket listens.
    pub(super) fn listens(descriptor: i32) -> bool {
        let mut value: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the kernel writes an integer, and the length of it.
        let result = unsafe {
            libc::getsockopt(
                descriptor,
                libc::SOL_SOCKET,
                libc::SO_ACCEPTCONN,
                std::ptr::from_mut(&mut value).cast(),
                &raw mut length,
            )
        };
        result == 0 && value != 0
    }

    /// Returns an address as text; `None` for a Unix socket without one.
    pub(super) fn text(address: &SockAddr) -> Option<String> {
        let path = || address.as_pathname().map(|path| path.display().to_string());
        let name = || {
            let name = address.as_abstract_namespace()?;
            Some(format!("@{}", name.escape_ascii()))
        };
        let socket = address.as_socket().map(|address| address.to_string());
        socket.or_else(path).or_else(name)
    }

    /// Returns what the system calls a descriptor that is no socket, such as `pipe:[4711]`.
    pub(super) fn kind_of(descriptor: i32) -> Option<String> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
        Some(link.display().to_string())
    }
}
