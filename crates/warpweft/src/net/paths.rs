//! Errors of sockets that are named by a path.

use crate::io::named::named;
use std::io::{self, ErrorKind};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The number of bytes that a path of a socket may have. One more ends the path in the system's structure.
const LONGEST: usize = size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

/// Calls `attempt` with a path, whose error then says what was attempted, and with which path.
///
/// # Errors
///
/// Those of `attempt`; [`InvalidInput`](ErrorKind::InvalidInput) if the path is empty, for which systems make
/// up a name, or has a null byte, where the system would end it.
pub(super) fn at_path<T>(
    verb: &str,
    path: &Path,
    attempt: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    if path.as_os_str().is_empty() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("{verb} an empty path: a socket needs the path of a file"),
        ));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("{verb} a path with a null byte: {path:?}"),
        ));
    }
    attempt(path).map_err(|error| explain(error, verb, path))
}

#[cold]
fn explain(error: io::Error, verb: &str, path: &Path) -> io::Error {
    let (kind, length) = (error.kind(), path.as_os_str().as_bytes().len());
    let mut attempt = format!("{verb} `{}`", path.display());
    if kind == ErrorKind::InvalidInput && length > LONGEST {
        attempt.push_str(&format!(
            ", which has {length} bytes, where a socket's path has {LONGEST} at most"
        ));
    } else if kind == ErrorKind::AddrInUse {
        attempt.push_str(", which exists; a file that an ended process has left must be removed first");
    }
    named(error, attempt)
}
