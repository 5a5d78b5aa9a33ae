//! What can go wrong with a wait or an attempt, as values.

use std::error::Error;
use std::fmt;

/// It was closed: what was waited for will never come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed: what was waited for will never come")
    }
}

impl Error for Closed {}

/// Why nothing was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryRecvError {
    /// There is nothing now.
    Empty,
    /// There is nothing, and never will be.
    Closed,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "nothing has been sent",
            TryRecvError::Closed => "everything was received, and nobody is left to send more",
        })
    }
}

impl Error for TryRecvError {}

/// Nobody will receive the value, which comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody is left to receive it, or the channel was closed")
    }
}

impl<T> Error for SendError<T> {}

/// Why a value was not sent; it comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrySendError<T> {
    /// The channel is full; without a buffer: nobody waits to receive.
    Full(T),
    /// Nobody will receive it.
    Closed(T),
}

impl<T> TrySendError<T> {
    /// The value.
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
