//! A channel whose values go to one of several receivers, in order: bounded, unbounded, or without a buffer.
//!
//! Both ends may be cloned, and used by futures, jobs and external threads at the same time.
//!
//! ```
//! use warpweft::{Runtime, sync::channel};
//!
//! let runtime = Runtime::builder().workers(1).build()?;
//! let (sender, receiver) = channel::bounded(2);
//! let job = runtime.spawn_job(move || (1..=100).try_for_each(|n| sender.send(n).wait()));
//! let sum = runtime.spawn(async move {
//!     let mut sum = 0;
//!     while let Ok(n) = receiver.recv().await {
//!         sum += n;
//!     }
//!     sum
//! });
//! job.wait()??;
//! assert_eq!(sum.wait()?, 5050);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! - Values arrive in the order in which they were sent. Receivers that wait are served in order of arrival,
//!   and so are senders that wait because the channel is full.
//! - With capacity 0 there is no buffer: `send` returns when a receiver has the value.
//! - After the last sender is dropped, or `close` is called, receivers get what was sent before, and then
//!   [`Closed`]. When the last receiver is dropped, senders get their values back, and values that were not
//!   received are dropped.
//! - A `send` that is dropped before it is ready drops its value, unless the channel has taken it. A `recv`
//!   that is dropped after it was given a value passes it to the next receiver, before those that are still
//!   in the channel; of several such values the last one comes first. With several receivers, another may
//!   have got a later value by then. While such a value is neither taken nor given back, other receivers do
//!   not see the channel as closed, since they may still get it.

pub(crate) mod incoming;
pub(crate) mod shared;

use super::error::{Closed, SendError, TryRecvError, TrySendError};
use super::suspend::Suspend;
use super::wait::Wait;
pub use incoming::Incoming;
use shared::{Channel, Receiving, Sending};
use std::fmt;
use warpweft_platform::sync::Arc;

/// Returns a channel that holds at most `capacity` values; `send` waits while it is full.
///
/// With capacity 0, `send` waits until the value is received.
#[must_use]
#[track_caller]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    channel(capacity)
}

/// Returns a channel without a limit; `send` never waits. Its memory grows with the values that are not
/// received.
#[must_use]
#[track_caller]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(usize::MAX)
}

#[track_caller]
fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Channel::new(capacity));
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The sending end of a channel.
pub struct Sender<T>(Arc<Channel<T>>);

impl<T> Sender<T> {
    /// Sends a value; waits while the channel is full.
    ///
    /// # Errors
    ///
    /// There is no receiver left. The value is returned.
    #[inline]
    pub fn send(&self, value: T) -> Wait<impl Future<Output = Result<(), SendError<T>>>> {
        Wait::new(Suspend::new(Sending(&*self.0), Some(value)))
    }

    /// Sends a value if there is room, or, with capacity 0, if a receiver waits for it.
    ///
    /// # Errors
    ///
    /// The channel is full or closed. The value is returned.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(value)
    }

    /// Closes the channel: nothing more can be sent. Receivers get what is there, and then [`Closed`];
    /// senders that wait get their values back.
    ///
    /// Returns true if it was open.
    pub fn close(&self) -> bool {
        self.0.close()
    }

    /// Returns true if nothing more can be sent.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.add_sender();
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.drop_sender();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&self.0).finish()
    }
}

/// The receiving end of a channel.
pub struct Receiver<T>(Arc<Channel<T>>);

impl<T> Receiver<T> {
    /// Receives a value; waits while there is none.
    ///
    /// # Errors
    ///
    /// The channel is closed, and every value was received.
    #[inline]
    pub fn recv(&self) -> Wait<impl Future<Output = Result<T, Closed>>> {
        Wait::new(Suspend::new(Receiving(&*self.0), None))
    }

    /// Receives a value, if there is one.
    ///
    /// # Errors
    ///
    /// There is no value now, or the channel is closed.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.try_recv()
    }

    /// Returns the values to come, as a stream.
    #[must_use]
    pub fn into_stream(self) -> Incoming<T> {
        Incoming::new(self)
    }

    /// Closes the channel as [`Sender::close`] does, for a receiver that only takes what is there.
    pub fn close(&self) -> bool {
        self.0.close()
    }

    /// Returns how many values wait to be received, without those of senders that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no value waits to be received.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.add_receiver();
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.drop_receiver();
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&self.0).finish()
    }
}
