//! The two ends of a channel on which every receiver sees what is sent: what `broadcast` and `watch` share.
//!
//! # Invariants
//!
//! - `sent` counts what was sent. It changes, and so does the last of `senders`, before all waiters are
//!   notified. So a wait that begins before a look at the state misses nothing.

use super::notify::Notify;
use std::future::poll_fn;
use warpweft_platform::sync::{Arc, Mutex, MutexGuard};
use warpweft_task::budget::poll_budget;

/// What is behind the lock. `V` is what a channel keeps of what was sent.
pub(super) struct FeedState<V> {
    pub(super) values: V,
    /// How much was ever sent.
    pub(super) sent: u64,
    pub(super) senders: usize,
    pub(super) receivers: usize,
}

struct Feed<V> {
    state: Mutex<FeedState<V>>,
    news: Notify,
}

/// The end of those that send.
pub(super) struct SendEnd<V>(Arc<Feed<V>>);

/// The end of one receiver. A clone continues from the same place.
pub(super) struct ReceiveEnd<V> {
    shared: Arc<Feed<V>>,
    /// How much of what was sent the receiver is done with.
    pub(super) seen: u64,
}

/// Makes a channel with one sender and one receiver, which dumps call `kind`.
pub(super) fn ends<V>(values: V, kind: &'static str) -> (SendEnd<V>, ReceiveEnd<V>) {
    let shared = Arc::new(Feed {
        state: Mutex::new(FeedState {
            values,
            sent: 0,
            senders: 1,
            receivers: 1,
        }),
        news: Notify::of(kind),
    });
    let receiver = ReceiveEnd {
        shared: Arc::clone(&shared),
        seen: 0,
    };
    (SendEnd(shared), receiver)
}

impl<V> SendEnd<V> {
    /// Sends a value, which `keep` puts into the others. Returns the number of receivers and what `keep` has
    /// taken out, so that it is dropped without the lock. If there is no receiver, the value is returned.
    pub(super) fn send<T, R>(&self, value: T, keep: impl FnOnce(&mut V, T) -> R) -> Result<(usize, R), T> {
        let mut state = self.lock();
        let receivers = state.receivers;
        if receivers == 0 {
            return Err(value);
        }
        let out = keep(&mut state.values, value);
        state.sent += 1;
        drop(state);
        self.0.news.notify_all();
        Ok((receivers, out))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, FeedState<V>> {
        self.0.state.lock()
    }

    /// Returns another receiver, of what is sent from now on.
    pub(super) fn subscribe(&self) -> ReceiveEnd<V> {
        let mut state = self.lock();
        state.receivers += 1;
        ReceiveEnd {
            shared: Arc::clone(&self.0),
            seen: state.sent,
        }
    }
}

impl<V> Clone for SendEnd<V> {
    fn clone(&self) -> Self {
        self.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<V> Drop for SendEnd<V> {
    fn drop(&mut self) {
        // As all destructors here in a forked child whose parent's thread has the lock, it does nothing.
        let Some(mut state) = self.0.state.lock_unless_lost() else {
            return;
        };
        state.senders -= 1;
        let last = state.senders == 0;
        drop(state);
        if last {
            self.0.news.notify_all();
        }
    }
}

impl<V> ReceiveEnd<V> {
    pub(super) fn lock(&self) -> MutexGuard<'_, FeedState<V>> {
        self.shared.state.lock()
    }

    /// Waits until `look` returns something. It looks now, and after each notification. A row of calls that
    /// find something at once is pending now and then, so that others go on: see [`warpweft_task::budget`].
    pub(super) async fn wait_until<R>(&mut self, mut look: impl FnMut(&mut Self) -> Option<R>) -> R {
        poll_fn(|cx| poll_budget(cx)).await;
        loop {
            let shared = Arc::clone(&self.shared);
            // The wait begins before the look, so that nothing is missed in between.
            let news = shared.news.notified();
            if let Some(result) = look(self) {
                return result;
            }
            news.await;
        }
    }
}

impl<V> Clone for ReceiveEnd<V> {
    fn clone(&self) -> Self {
        self.lock().receivers += 1;
        Self {
            shared: Arc::clone(&self.shared),
            seen: self.seen,
        }
    }
}

impl<V> Drop for ReceiveEnd<V> {
    fn drop(&mut self) {
        if let Some(mut state) = self.shared.state.lock_unless_lost() {
            state.receivers -= 1;
        }
    }
}
