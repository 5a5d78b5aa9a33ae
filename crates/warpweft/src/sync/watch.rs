//! The latest value of something, and notifications of its changes.

use super::error::{Closed, SendError};
use super::feed::{ReceiveEnd, SendEnd, ends};
use super::wait::Wait;
use std::fmt;
use std::sync::Arc;

/// Returns a channel for a value that changes. Receivers see the latest value, and miss the values in
/// between.
///
/// ```
/// use warpweft::sync::watch;
///
/// let (sender, mut receiver) = watch::channel("starting");
/// assert_eq!(*receiver.get(), "starting");
/// sender.send("ready")?;
/// sender.send("serving")?;
/// receiver.changed().wait()?;
/// assert_eq!(*receiver.get(), "serving");
/// drop(sender);
/// assert!(receiver.changed().wait().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn channel<T>(first: T) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = ends(Arc::new(first), "watch channel");
    (Sender(sender), Receiver(receiver))
}

/// The end that changes the value.
// The value is shared, so that a reader holds no lock, and no `drop` runs under it.
pub struct Sender<T>(SendEnd<Arc<T>>);

impl<T> Sender<T> {
    /// Changes the value. Never waits. Takes time in proportion to the waiters.
    ///
    /// # Errors
    ///
    /// There is no receiver now. The value is returned, and the old one stays.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let replace = |latest: &mut Arc<T>, value| std::mem::replace(latest, Arc::new(value));
        self.0.send(value, replace).map(drop).map_err(SendError)
    }

    /// Returns the latest value.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().values)
    }

    /// Returns another receiver, which has seen the present value.
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

/// Reads the value, and waits for changes. A clone has seen what the original has.
pub struct Receiver<T>(ReceiveEnd<Arc<T>>);

impl<T> Receiver<T> {
    /// Returns the latest value, which counts as seen. It is not locked, and may be kept.
    #[must_use]
    pub fn get(&mut self) -> Arc<T> {
        let state = self.0.lock();
        let (value, sent) = (Arc::clone(&state.values), state.sent);
        drop(state);
        self.0.seen = sent;
        value
    }

    /// Returns true if there is a value that was not seen.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.0.lock().sent != self.0.seen
    }

    /// Waits for a value that was not seen. It counts as seen then.
    ///
    /// If the wait is dropped before it is ready, nothing counts as seen.
    ///
    /// # Errors
    ///
    /// The latest value was seen, and no sender is left to change it.
    pub fn changed(&mut self) -> Wait<impl Future<Output = Result<(), Closed>>> {
        Wait::new(self.0.wait_until(|receiver| {
            let state = receiver.lock();
            let (sent, senders) = (state.sent, state.senders);
            drop(state);
            if std::mem::replace(&mut receiver.seen, sent) != sent {
                return Some(Ok(()));
            }
            (senders == 0).then_some(Err(Closed))
        }))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("seen", &self.0.seen)
            .finish_non_exhaustive()
    }
}
