//! A receiver as a stream.

use super::shared::{Channel, Receiving};
use super::{Receiver, Suspend};
use futures_core::Stream;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use warpweft_platform::sync::Arc;

/// The values of a channel as a [`Stream`], which ends when the channel does. See [`Receiver::into_stream`].
///
/// It stays in the list of receivers between polls, so it is a separate type. If it is dropped, or turned
/// into a receiver again, it gives back a value that it was given.
pub struct Incoming<T> {
    /// Dropped first: it gives back a value that it was given.
    wait: Option<Suspend<Receiving<Arc<Channel<T>>>>>,
    receiver: Receiver<T>,
}

impl<T> Incoming<T> {
    pub(super) fn new(receiver: Receiver<T>) -> Self {
        Self { wait: None, receiver }
    }

    /// Returns the receiver again.
    #[must_use]
    pub fn into_receiver(self) -> Receiver<T> {
        drop(self.wait);
        self.receiver
    }
}

impl<T> Stream for Incoming<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let shared = Arc::clone(&self.receiver.0);
        let wait = self
            .wait
            .get_or_insert_with(|| Suspend::new(Receiving(shared), None));
        let received = ready!(Pin::new(wait).poll(cx));
        self.wait = None;
        Poll::Ready(received.ok())
    }
}

impl<T> fmt::Debug for Incoming<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Incoming").field(&self.receiver.0).finish()
    }
}
