//! What the system's poller watches: descriptors on Unix, sockets on Windows.
//!
//! This is the one place that names both. On Unix [`AsPollable`] is `AsFd`, on Windows `AsSocket`.

#[cfg(unix)]
pub(crate) use std::os::fd::AsFd as AsPollable;
#[cfg(windows)]
pub(crate) use std::os::windows::io::AsSocket as AsPollable;

#[cfg(unix)]
pub(crate) use std::os::fd::BorrowedFd as Pollable;
#[cfg(windows)]
pub(crate) use std::os::windows::io::BorrowedSocket as Pollable;

/// Borrows what the poller watches.
#[inline]
pub(crate) fn borrow(io: &impl AsPollable) -> Pollable<'_> {
    #[cfg(unix)]
    return io.as_fd();
    #[cfg(windows)]
    return io.as_socket();
}

/// Implements [`AsPollable`] for a type, through the field `0` or the method that is named.
macro_rules! lend_pollable {
    ([$($generics:tt)*] $type:ty, $($inner:tt)*) => {
        #[cfg(unix)]
        impl<$($generics)*> std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.$($inner)*.as_fd()
            }
        }

        #[cfg(windows)]
        impl<$($generics)*> std::os::windows::io::AsSocket for $type {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                self.$($inner)*.as_socket()
            }
        }
    };
}

pub(crate) use lend_pollable;
