//! Connections of a listener, as a stream.

use super::tcp::TcpListener;

/// A stream of connections: see [`TcpListener::incoming`]. It never ends.
#[derive(Debug)]
#[must_use = "a stream does nothing unless it is polled"]
pub struct Incoming<'a, L = TcpListener>(pub(super) &'a L);

impl<'a, L> Incoming<'a, L> {
    pub(super) fn new(listener: &'a L) -> Self {
        Self(listener)
    }
}

impl<L> Clone for Incoming<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Incoming<'_, L> {}

/// Implements `Stream` for the connections of a listener that has `poll_accept`.
macro_rules! poll_listener {
    ($listener:ty, $stream:ty) => {
        impl futures_core::Stream for Incoming<'_, $listener> {
            type Item = io::Result<$stream>;

            fn poll_next(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                let accepted = self.0.poll_accept(cx);
                accepted.map(|result| Some(result.map(|(stream, _)| stream)))
            }
        }
    };
}

/// Implements `TryFrom` for a socket that has `from_std`.
macro_rules! try_from_std {
    ($ours:ty, $std:ty) => {
        /// As `from_std`.
        impl TryFrom<$std> for $ours {
            type Error = io::Error;

            fn try_from(socket: $std) -> io::Result<Self> {
                Self::from_std(socket)
            }
        }
    };
}

pub(super) use {poll_listener, try_from_std};
