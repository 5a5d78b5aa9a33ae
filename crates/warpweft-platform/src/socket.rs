//! What the kernel says of a socket that a safe library cannot express.

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Reads what the socket has received next, without removing it. Returns the number of bytes.
///
/// # Errors
///
/// The system's error.
pub fn peek(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(peek_from(socket, buffer)?.0)
}

/// As [`peek`], with the address of the Unix socket that has sent it: a path, which may end with a zero; a
/// zero and an abstract name; or nothing.
///
/// # Errors
///
/// The system's error.
pub fn peek_from(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<u8>)> {
    let mut sender = MaybeUninit::<libc::sockaddr_un>::zeroed();
    let mut size = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed. The kernel writes at most as many bytes as
    // `buffer` and `sender` have.
    let length = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_PEEK,
            sender.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: any bytes are such an address, and these were zeros before the kernel wrote over them.
    let sender = unsafe { sender.assume_init() };
    let named = (size as usize).saturating_sub(offset_of!(libc::sockaddr_un, sun_path));
    Ok((
        length,
        sender
            .sun_path
            .iter()
            .take(named)
            .map(|&byte| byte as u8)
            .collect(),
    ))
}

/// Returns the process, the user and the group that made the other end of a Unix socket. The process is 0 if
/// it has no number here, because it is in another namespace.
///
/// # Errors
///
/// The system's error, for instance that this is no such socket.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn peer_cred(socket: BorrowedFd<'_>) -> io::Result<(u32, u32, u32)> {
    let mut cred = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed. The kernel writes at most `length` bytes, which is
    // the size of `cred`, and any number is a valid one there.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut cred).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((cred.pid.unsigned_abs(), cred.uid, cred.gid))
}

#[cfg(test)]
mod tests {
    use super::peer_cred;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    #[test]
    fn a_pair_was_made_here_and_a_lone_socket_by_nobody() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let cred = peer_cred(one.as_fd()).expect("it is connected");
        assert_eq!(cred, peer_cred(other.as_fd()).expect("it is connected"));
        assert_eq!(cred.0, std::process::id());
        let lone = UnixDatagram::unbound().expect("a socket");
        assert_eq!(peer_cred(lone.as_fd()).expect("the kernel answers").0, 0);
    }
}
