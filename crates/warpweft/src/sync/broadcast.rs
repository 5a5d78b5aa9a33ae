//! A channel that sends every value to every receiver, and reports to slow receivers how many they missed.
//!
//! # Invariants
//!
//! `latest` are the last values that were sent, at most `capacity`; the newest has number `sent - 1`.

use super::error::Closed;
use super::feed::{ReceiveEnd, SendEnd, ends};
use super::wait::Wait;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Returns a channel in which each receiver gets each value that is sent after it subscribed.
///
/// The last `capacity` values are kept for slow receivers, even if all have seen them. Sending never waits. A
/// capacity of 0 counts as 1.
///
/// ```
/// use warpweft::sync::broadcast::{self, RecvError};
///
/// let (sender, mut slow) = broadcast::channel(2);
/// let mut other = sender.subscribe();
/// sender.send("a")?;
/// assert_eq!(other.recv().wait(), Ok("a"));
/// sender.send("b")?;
/// sender.send("c")?;
/// assert_eq!(slow.recv().wait(), Err(RecvError::Lagged(1)));
/// assert_eq!(slow.recv().wait(), Ok("b"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = ends(
        StoredValue {
            latest: VecDeque::new(),
            capacity: capacity.max(1),
        },
        "broadcast channel",
    );
    (Sender(sender), Receiver(receiver))
}

struct StoredValue<T> {
    /// The values are shared, so that no `clone` or `drop` runs under the lock.
    latest: VecDeque<Arc<T>>,
    capacity: usize,
}

/// The reason why nothing was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// This many values were missed, because they are not kept any more. The next call returns the oldest one
    /// kept.
    Lagged(u64),
    /// Every value was received, and there is no sender left.
    Closed,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Lagged(missed) => write!(f, "{missed} values were missed: the receiver was too slow"),
            RecvError::Closed => Closed.fmt(f),
        }
    }
}

impl std::error::Error for RecvError {}

/// The sending end.
pub struct Sender<T>(SendEnd<StoredValue<T>>);

impl<T> Sender<T> {
    /// Sends to all receivers, and returns their number. Never waits. Takes time in proportion to the
    /// waiters.
    ///
    /// # Errors
    ///
    /// There is no receiver now. The value is returned.
    pub fn send(&self, value: T) -> Result<usize, super::SendError<T>> {
        let sent = self.0.send(value, |kept, value| {
            let full = kept.latest.len() == kept.capacity;
            let oldest = full.then(|| kept.latest.pop_front());
            kept.latest.push_back(Arc::new(value));
            oldest
        });
        sent.map(|(receivers, _)| receivers).map_err(super::SendError)
    }

    /// Returns a receiver of all values that are sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver(self.0.subscribe())
    }

    /// Returns the number of receivers.
    #[must_use]
    pub fn receivers(&self) -> usize {
        self.0.lock().receivers
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("receivers", &self.receivers())
            .finish()
    }
}

/// A receiving end. A clone continues from the same value.
pub struct Receiver<T>(ReceiveEnd<StoredValue<T>>);

impl<T: Clone> Receiver<T> {
    /// Waits for the next value, and returns a clone.
    ///
    /// If the wait is dropped before it is ready, nothing was received.
    ///
    /// # Errors
    ///
    /// Values were missed, or no sender is left.
    pub fn recv(&mut self) -> Wait<impl Future<Output = Result<T, RecvError>>> {
        Wait::new(self.0.wait_until(next))
    }

    /// Returns the next value, or `None` if it was not sent yet.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn try_recv(&mut self) -> Result<Option<T>, RecvError> {
        next(&mut self.0).transpose()
    }
}

fn next<T: Clone>(receiver: &mut ReceiveEnd<StoredValue<T>>) -> Option<Result<T, RecvError>> {
    let state = receiver.lock();
    let latest = &state.values.latest;
    let oldest = state.sent - latest.len() as u64;
    if receiver.seen < oldest {
        drop(state);
        let missed = oldest - std::mem::replace(&mut receiver.seen, oldest);
        return Some(Err(RecvError::Lagged(missed)));
    }
    if receiver.seen == state.sent {
        return (state.senders == 0).then_some(Err(RecvError::Closed));
    }
    let index = usize::try_from(receiver.seen - oldest).unwrap_or(usize::MAX);
    let value = latest.get(index).cloned()?;
    drop(state);
    // Foreign code: if it panics, the value is received by the next call.
    let value = Arc::try_unwrap(value).unwrap_or_else(|value| T::clone(&value));
    receiver.seen += 1;
    Some(Ok(value))
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("next", &self.0.seen)
            .finish_non_exhaustive()
    }
}
