//! Notifications: an event ends the wait of one waiter, or of all.
//!
//! # Invariants
//!
//! - A notification is stored only while no task waits.
//! - `epoch` counts the notifications of all. It changes under the lock, and a wait that began in an earlier
//!   one is over.

use super::lazy_state::{LazyState, WaitState};
use super::suspend::{Suspend, WaitOp};
use super::wait::{Mapped, Wait};
use super::wait_list::WaitList;
use super::wakers::Wakers;
use crate::execution::current_task::current_task;
use crate::observe::raw::{RawWait, RawWhat};
use std::fmt;
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::sync::Mutex;
use warpweft_task::frame::Who;

/// Events without a value.
///
/// [`notify_one`](Notify::notify_one) ends one wait: the oldest, or the next one to begin if there is none
/// now. It does not count: a second call before that changes nothing. [`notify_all`](Notify::notify_all) ends
/// all waits that have begun.
///
/// For `notify_all` a wait begins with the call of [`notified`](Notify::notified), not when it is first
/// awaited. So nothing is missed between a look and the wait for a change. For `notify_one` it begins when it
/// is first polled: of two calls before that the second one changes nothing.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use warpweft::sync::Notify;
///
/// async fn until(is_ready: &AtomicBool, changed: &Notify) {
///     loop {
///         let change = changed.notified();
///         if is_ready.load(Ordering::Acquire) {
///             return;
///         }
///         change.await;
///     }
/// }
///
/// let (is_ready, changed) = (AtomicBool::new(false), Notify::new());
/// let change = changed.notified();
/// is_ready.store(true, Ordering::Release);
/// changed.notify_all();
/// change.wait();
/// warpweft::block_on(until(&is_ready, &changed));
/// ```
pub struct Notify {
    epoch: AtomicU64,
    state: LazyState<NotifyState>,
}

#[derive(Debug)]
pub(super) struct NotifyState {
    kind: &'static str,
    list: WaitList<Notification>,
    /// A notification found no waiter, and is kept for the next.
    stored: bool,
    /// The last task that notified, for dumps.
    last: Who,
}

/// How a waiter was notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notification {
    NotYet,
    /// It alone was notified.
    Alone,
    WithAll,
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}

impl Notify {
    /// Returns an object without a stored notification.
    #[must_use]
    pub fn new() -> Self {
        Self::of("notify")
    }

    /// As [`new`](Self::new), for what dumps call `kind`.
    pub(crate) fn of(kind: &'static str) -> Self {
        Self {
            epoch: AtomicU64::new(0),
            state: LazyState::new(kind),
        }
    }

    /// Waits for a notification.
    ///
    /// If it is dropped after it alone was notified, the notification goes to the next waiter.
    pub fn notified(&self) -> Wait<impl Future<Output = ()>> {
        Wait::new(Mapped::new(self.hear(true), drop))
    }

    /// Begins a wait. If it gives back a notification that no other task waits for, `store` keeps it for the
    /// next wait.
    pub(super) fn hear(&self, store: bool) -> Suspend<Hearing<'_>> {
        let hearing = Hearing {
            notify: self,
            store,
            // Ordering: Acquire pairs with `notify_all`: what was done before an older one is visible.
            epoch: self.epoch.load(Ordering::Acquire),
        };
        Suspend::new(hearing, Notification::NotYet)
    }

    /// Ends the oldest wait, or the next one.
    pub fn notify_one(&self) {
        self.tell_one(true);
    }

    /// Ends the oldest wait. If there is none, `store` ends the next one.
    pub(super) fn tell_one(&self, store: bool) {
        let mut wakers = Wakers::new();
        let Some(mut state) = self.state.node().state.lock_unless_lost() else {
            return;
        };
        state.last = current_task();
        state.tell_one(store, &mut wakers);
        drop(state);
        wakers.wake();
    }

    /// Ends all waits that have begun. Takes time in proportion to their number.
    pub fn notify_all(&self) {
        let mut wakers = Wakers::new();
        let Some(mut state) = self.state.node().state.lock_unless_lost() else {
            return;
        };
        // Ordering: Release passes on what happened to waiters that see the new epoch. Only this function
        // writes it, under the lock.
        self.epoch
            .store(self.epoch.load(Ordering::Relaxed) + 1, Ordering::Release);
        state.last = current_task();
        wakers.reserve(state.list.at_most());
        while let Some((told, waker)) = state.list.grant_front() {
            *told = Notification::WithAll;
            wakers.push(waker);
        }
        drop(state);
        wakers.wake();
    }
}

impl WaitState for NotifyState {
    type Beside = ();

    fn empty(kind: &'static str) -> Self {
        Self {
            kind,
            list: WaitList::new(),
            stored: false,
            last: Who::NOBODY,
        }
    }

    fn each(&self, (): &(), object: usize, see: &mut dyn FnMut(RawWait)) {
        self.list.each(
            object,
            |_| RawWhat::Event {
                kind: self.kind,
                last: self.last,
                made_at: None,
            },
            see,
        );
    }
}

impl NotifyState {
    fn tell_one(&mut self, store: bool, wakers: &mut Wakers) {
        match self.list.grant_front() {
            Some((told, waker)) => {
                *told = Notification::Alone;
                wakers.push(waker);
            }
            None => self.stored |= store,
        }
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").finish_non_exhaustive()
    }
}

pub(super) struct Hearing<'a> {
    notify: &'a Notify,
    store: bool,
    /// The epoch in which the wait began.
    epoch: u64,
}

impl WaitOp for Hearing<'_> {
    type State = NotifyState;
    type Item = Notification;
    type Output = Notification;

    fn state(&self) -> &Mutex<NotifyState> {
        &self.notify.state.node().state
    }

    fn list(state: &mut NotifyState) -> &mut WaitList<Notification> {
        &mut state.list
    }

    #[inline]
    fn try_now(&self, told: Notification) -> Result<Notification, Notification> {
        // Ordering: Acquire as in `hear`.
        if self.notify.epoch.load(Ordering::Acquire) == self.epoch {
            Err(told)
        } else {
            Ok(Notification::WithAll)
        }
    }

    fn recheck(
        &self,
        state: &mut NotifyState,
        told: Notification,
        _wakers: &mut Wakers,
    ) -> Result<Notification, Notification> {
        self.try_now(told).or_else(|told| {
            let told_alone = std::mem::take(&mut state.stored);
            told_alone.then_some(Notification::Alone).ok_or(told)
        })
    }

    fn granted(&self, told: Notification) -> Notification {
        told
    }

    fn left(
        &self,
        state: &mut NotifyState,
        told: Notification,
        granted: bool,
        wakers: &mut Wakers,
    ) -> Option<Notification> {
        if granted && told == Notification::Alone {
            state.tell_one(self.store, wakers);
        }
        None
    }
}
