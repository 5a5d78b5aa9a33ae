//! The latest value of something, and notifications of its changes.
//!
//! # Invariants
//!
//! - The version counts changes. It changes, and the loss of all senders is noted, before all are notified.

use super::error::{Closed, SendError};
use super::notify::Notify;
use super::wait::Wait;
use std::fmt;
use warpweft_platform::sync::{Arc, Mutex};

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
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            value: Arc::new(first),
            version: 0,
            senders: 1,
            receivers: 1,
        }),
        news: Notify::new(),
    });
    let receiver = Receiver {
        shared: Arc::clone(&shared),
        seen: 0,
    };
    (Sender(shared), receiver)
}

struct Shared<T> {
    state: Mutex<State<T>>,
    news: Notify,
}

struct State<T> {
    /// The value is shared, so that a reader holds no lock, and no `drop` runs under it.
    value: Arc<T>,
    version: u64,
    senders: usize,
    receivers: usize,
}

/// The end that changes the value.
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Changes the value. Never waits. Takes time in proportion to the waiters.
    ///
    /// # Errors
    ///
    /// There is no receiver now. The value is returned, and the old one stays.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = self.0.state.lock();
        if state.receivers == 0 {
            drop(state);
            return Err(SendError(value));
        }
        let old = std::mem::replace(&mut state.value, Arc::new(value));
        state.version += 1;
        drop(state);
        self.0.news.notify_all();
        drop(old);
        Ok(())
    }

    /// Returns the latest value.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.state.lock().value)
    }

    /// Returns another receiver, which has seen the present value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        let mut state = self.0.state.lock();
        state.receivers += 1;
        Receiver {
            shared: Arc::clone(&self.0),
            seen: state.version,
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

/// Reads the value, and waits for changes. A clone has seen what the original has.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that was seen last.
    seen: u64,
}

impl<T> Receiver<T> {
    /// Returns the latest value, which counts as seen. It is not locked, and may be kept.
    #[must_use]
    pub fn get(&mut self) -> Arc<T> {
        let state = self.shared.state.lock();
        self.seen = state.version;
        Arc::clone(&state.value)
    }

    /// Returns true if there is a value that was not seen.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.shared.state.lock().version != self.seen
    }

    /// Waits for a value that was not seen. It counts as seen then.
    ///
    /// If the wait is dropped before it is ready, nothing counts as seen.
    ///
    /// # Errors
    ///
    /// The latest value was seen, and no sender is left to change it.
    pub fn changed(&mut self) -> Wait<impl Future<Output = Result<(), Closed>>> {
        Wait::new(async move {
            loop {
                let shared = Arc::clone(&self.shared);
                // The wait begins before the look, so that no change is missed in between.
                let news = shared.news.notified();
                let (version, senders) = {
                    let state = shared.state.lock();
                    (state.version, state.senders)
                };
                if version != self.seen {
                    self.seen = version;
                    return Ok(());
                }
                if senders == 0 {
                    return Err(Closed);
                }
                news.await;
            }
        })
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.state.lock().receivers += 1;
        Self {
            shared: Arc::clone(&self.shared),
            seen: self.seen,
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
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}
