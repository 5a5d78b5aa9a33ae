//! A channel that sends every value to every receiver, and reports to slow receivers how many they missed.
//!
//! # Invariants
//!
//! - `values` are the last ones that were sent, at most `capacity`; the newest has number `sent - 1`.
//! - `sent` and `closed` change before all waiters are notified, so a wait that began before a look misses
//!   nothing.

use super::error::Closed;
use super::notify::Notify;
use super::wait::Wait;
use std::collections::VecDeque;
use std::fmt;
use warpweft_platform::sync::{Arc, Mutex};

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
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            values: VecDeque::new(),
            capacity: capacity.max(1),
            sent: 0,
            senders: 1,
            receivers: 1,
        }),
        news: Notify::new(),
    });
    let receiver = Receiver {
        shared: Arc::clone(&shared),
        next: 0,
    };
    (Sender(shared), receiver)
}

struct Shared<T> {
    state: Mutex<State<T>>,
    news: Notify,
}

struct State<T> {
    /// The values are shared, so that no `clone` or `drop` runs under the lock.
    values: VecDeque<Arc<T>>,
    capacity: usize,
    /// The number of values that were ever sent.
    sent: u64,
    senders: usize,
    receivers: usize,
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
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Sends to all receivers, and returns their number. Never waits. Takes time in proportion to the
    /// waiters.
    ///
    /// # Errors
    ///
    /// There is no receiver now. The value is returned.
    pub fn send(&self, value: T) -> Result<usize, super::SendError<T>> {
        let mut state = self.0.state.lock();
        let receivers = state.receivers;
        if receivers == 0 {
            drop(state);
            return Err(super::SendError(value));
        }
        let full = state.values.len() == state.capacity;
        let oldest = full.then(|| state.values.pop_front());
        state.values.push_back(Arc::new(value));
        state.sent += 1;
        drop(state);
        self.0.news.notify_all();
        drop(oldest);
        Ok(receivers)
    }

    /// Returns a receiver of all values that are sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        let mut state = self.0.state.lock();
        state.receivers += 1;
        Receiver {
            shared: Arc::clone(&self.0),
            next: state.sent,
        }
    }

    /// Returns the number of receivers.
    #[must_use]
    pub fn receivers(&self) -> usize {
        self.0.state.lock().receivers
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        let last = state.senders == 0;
        drop(state);
        if last {
            self.0.news.notify_all();
        }
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
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of the next value.
    next: u64,
}

impl<T: Clone> Receiver<T> {
    /// Waits for the next value, and returns a clone, or the value itself if no other receiver needs it.
    ///
    /// If the wait is dropped before it is ready, nothing was received.
    ///
    /// # Errors
    ///
    /// Values were missed, or no sender is left.
    pub fn recv(&mut self) -> Wait<impl Future<Output = Result<T, RecvError>>> {
        Wait::new(async move {
            loop {
                let shared = Arc::clone(&self.shared);
                // The wait begins before the look, so that no value is missed in between.
                let news = shared.news.notified();
                if let Some(result) = self.next() {
                    return result;
                }
                news.await;
            }
        })
    }

    /// Returns the next value, or `None` if it was not sent yet.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn try_recv(&mut self) -> Result<Option<T>, RecvError> {
        self.next().transpose()
    }

    fn next(&mut self) -> Option<Result<T, RecvError>> {
        let state = self.shared.state.lock();
        let oldest = state.sent - state.values.len() as u64;
        if self.next < oldest {
            let missed = oldest - self.next;
            self.next = oldest;
            return Some(Err(RecvError::Lagged(missed)));
        }
        let behind = state.sent - self.next;
        if behind == 0 {
            return (state.senders == 0).then_some(Err(RecvError::Closed));
        }
        let index = usize::try_from(self.next - oldest).unwrap_or(usize::MAX);
        let value = state.values.get(index).cloned()?;
        drop(state);
        self.next += 1;
        Some(Ok(Arc::try_unwrap(value).unwrap_or_else(|value| T::clone(&value))))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.state.lock().receivers += 1;
        Self {
            shared: Arc::clone(&self.shared),
            next: self.next,
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.state.lock().receivers -= 1;
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
