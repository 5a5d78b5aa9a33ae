//! A condition variable: waits for a change of what a mutex protects, with the mutex unlocked meanwhile.

use super::mutex::MutexGuard;
use super::notify::{Notification, Notify};
use super::wait::Wait;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Lets tasks that hold a [`Mutex`](super::Mutex) wait until its value is what they need.
///
/// The task that changes the value notifies one waiter or all. A notification without a waiter is lost,
/// because the value itself informs later tasks.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Arc;
/// use warpweft::{Runtime, sync::{Condvar, Mutex}};
///
/// let runtime = Runtime::builder().workers(1).build()?;
/// let queue = Arc::new((Mutex::new(VecDeque::new()), Condvar::new()));
/// let consumer = {
///     let queue = Arc::clone(&queue);
///     runtime.spawn(async move {
///         let (queue, filled) = &*queue;
///         let mut items = filled.wait_while(queue.lock().await, |items| items.is_empty()).await;
///         items.pop_front()
///     })
/// };
/// queue.0.lock().wait().push_back(7);
/// queue.1.notify_one();
/// assert_eq!(consumer.wait()?, Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Condvar(Notify);

impl Condvar {
    /// Returns a condition variable without waiters.
    #[must_use]
    pub fn new() -> Self {
        Self(Notify::of("condvar"))
    }

    /// Enters the list of waiters, unlocks the mutex, waits for a notification, and locks again.
    ///
    /// It does not return without a notification. But others may lock first, so check the value again, as
    /// [`wait_while`](Self::wait_while) does.
    ///
    /// If the wait is dropped before it is ready, it does not lock again, and a notification to it alone goes
    /// to the next waiter.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> Wait<impl Future<Output = MutexGuard<'a, T>>> {
        Wait::new(self.hear(guard))
    }

    /// Waits as long as `condition` returns true for the value.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Wait<impl Future<Output = MutexGuard<'a, T>>> {
        Wait::new(async move {
            let mut guard = guard;
            while condition(&mut guard) {
                guard = self.hear(guard).await;
            }
            guard
        })
    }

    async fn hear<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = MutexGuard::mutex(&guard);
        let mut hearing = self.0.hear(false);
        // It enters the list before it unlocks, so a task that changes the value under the lock finds it.
        let early = poll_fn(|cx| Poll::Ready(Pin::new(&mut hearing).poll(cx))).await;
        drop(guard);
        let told = match early {
            Poll::Ready(told) => told,
            Poll::Pending => hearing.await,
        };
        let heard = PendingNotification {
            notify: &self.0,
            told,
        };
        let guard = mutex.lock().await;
        std::mem::forget(heard);
        guard
    }

    /// Ends the oldest wait, if there is one.
    pub fn notify_one(&self) {
        self.0.tell_one(false);
    }

    /// Ends all waits. Takes time in proportion to their number.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A notification whose waiter has not checked the value yet. If it is dropped, it goes to the next waiter.
struct PendingNotification<'a> {
    notify: &'a Notify,
    told: Notification,
}

impl Drop for PendingNotification<'_> {
    fn drop(&mut self) {
        if self.told == Notification::Alone {
            self.notify.tell_one(false);
        }
    }
}
