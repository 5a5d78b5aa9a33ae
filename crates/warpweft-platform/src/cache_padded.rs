//! Values that share no cache line with others.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A value that fills whole cache lines, so that writes to its neighbours do not take them from its readers.
///
/// The alignment is 128 bytes where the hardware fetches lines in pairs (x86-64) or where some lines are so
/// long (aarch64, powerpc64), and 64 bytes elsewhere.
///
/// ```
/// use warpweft_platform::CachePadded;
/// let pair = [CachePadded::new(1_u8), CachePadded::new(2)];
/// assert!(size_of_val(&pair) >= 2 * 64);
/// assert_eq!(*pair[0] + *pair[1], 3);
/// ```
#[cfg_attr(
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "arm64ec",
        target_arch = "powerpc64"
    ),
    repr(align(128))
)]
#[cfg_attr(
    not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "arm64ec",
        target_arch = "powerpc64"
    )),
    repr(align(64))
)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    /// Pads the value.
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Gives the value back.
    #[inline]
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for CachePadded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> From<T> for CachePadded<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}
