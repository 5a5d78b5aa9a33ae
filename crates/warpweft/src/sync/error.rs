//! Errors of waits and of attempts.

use std::error::Error;
use std::fmt;

/// The object was closed: what was awaited will never come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed: what was waited for will never come")
    }
}

impl Error for Closed {}

/// The reason why nothing was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryRecvError {
    /// There is nothing now.
    Empty,
    /// There is nothing now, and never will be.
    Closed,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "nothing has been sent",
            TryRecvError::Closed => "everything was received, and no sender is left",
        })
    }
}

impl Error for TryRecvError {}

/// There is no receiver for the value, which is returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no receiver is left, or the channel was closed")
    }
}

impl<T> Error for SendError<T> {}

/// The reason why a value was not sent. The value is returned.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrySendError<T> {
    /// The channel is full, or without a buffer: no receiver waits.
    Full(T),
    /// There is no receiver left.
    Closed(T),
}

impl<T> TrySendError<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        let (TrySendError::Full(value) | TrySendError::Closed(value)) = self;
        value
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrySendError::Full(_) => f.write_str("the channel is full: wait with `send`"),
            TrySendError::Closed(_) => SendError(()).fmt(f),
        }
    }
}

impl<T> Error for TrySendError<T> {}

/// The reason why permits were not given at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryAcquireError {
    /// Too few are free, or others wait for them.
    NoPermits,
    /// The semaphore is closed.
    Closed,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::NoPermits => "too few permits are free, or others wait for them",
            TryAcquireError::Closed => "the semaphore was closed",
        })
    }
}

impl Error for TryAcquireError {}
