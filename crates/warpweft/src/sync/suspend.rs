//! The one waiting primitive, on which every other file of this folder is built.
//!
//! ```text
//!             try_now ── there ──────────────────────────────────────────▶ Ready
//!                │ not there
//!                ▼ clone the waker; take the lock
//!             recheck ── there after all ─────────────────────────────────▶ Ready
//!                │ not there: enter the list, in the same critical section
//!                ▼
//!             Pending ── granted (out of the list, the grant in the item) ▶ Ready
//!                │    └─ woken (still in the list): again ── there ───────▶ Ready
//!                ▼ dropped: `left` passes on what it had
//!              gone
//! ```
//!
//! **The second look is a task switch finalizer** in the sense of Negele. Between the first look and the
//! entry in the list the condition may have changed, and the thread that changed it found no waiter. So the
//! condition is evaluated again once the entry is certain. In Negele's system, queues are lock-free, so the
//! finalizer runs after the insertion. Here [`WaitOp::recheck`] and the insertion are one critical section of
//! the list's lock. States that change without that lock (a word with compare-and-swap) get a flag for
//! waiters by the same compare-and-swap that finds the condition false.
//!
//! # Invariants
//!
//! - No foreign code runs under the lock. Wakers are cloned before it is taken, and called and dropped after
//!   it is released; the same holds for values of users. `will_wake` only compares addresses.
//! - A future holds a place exactly from `push` until `leave`; its `Drop` leaves.

use super::wait_list::{WaitList, WaiterId, WaiterState};
use super::wakers::Wakers;
use crate::execution::class::lend;
use crate::execution::current_task::current_task;
use crate::pool::lending;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use warpweft_platform::sync::{Mutex, MutexGuard};
use warpweft_task::budget::poll_budget;
use warpweft_task::frame::Who;

/// One kind of wait: how to test its condition, and what a waiter gets.
pub(crate) trait WaitOp {
    /// The state that the lock protects.
    type State;
    /// What a waiter brings, and finds when it has been granted.
    type Item;
    type Output;
    /// Returns the task that has what a waiter wants, if the waiter's priority is to be lent to it; the
    /// address is 0 if it is not known. Called without the lock.
    const OWNER: Option<fn(&Self) -> Who> = None;
    /// True for what a future may do in a loop for ever without waiting. See [`warpweft_task::budget`].
    const HAS_BUDGET: bool = false;

    fn state(&self) -> &Mutex<Self::State>;

    fn list(state: &mut Self::State) -> &mut WaitList<Self::Item>;

    /// Called before the first entry in the list, without the lock: enters the object in the register of
    /// those that dumps look at, if that has not been done.
    fn register(&self) {}

    /// Tries without the lock.
    ///
    /// # Errors
    ///
    /// It has to wait. Nothing is remembered, and the item is returned.
    fn try_now(&self, item: Self::Item) -> Result<Self::Output, Self::Item>;

    /// Looks again, under the lock.
    ///
    /// # Errors
    ///
    /// It has to wait. The caller enters the list with the item before the lock is released.
    fn recheck(
        &self,
        state: &mut Self::State,
        item: Self::Item,
        wakers: &mut Wakers,
    ) -> Result<Self::Output, Self::Item>;

    /// Called when a waiter that was granted takes its result and leaves.
    fn taken(&self, _state: &mut Self::State, _item: &Self::Item, _wakers: &mut Wakers) {}

    /// Returns the result of a waiter that was granted.
    fn granted(&self, item: Self::Item) -> Self::Output;

    /// A waiter in the list looks again. Returns `Some` if it has what it wanted, and leaves now.
    fn again(&self, _state: &mut Self::State, _place: &WaiterId) -> Option<Self::Output> {
        None
    }

    /// Called when a waiter that had been woken continues to wait.
    fn waits_on(&self, _state: &mut Self::State, _place: &WaiterId, _wakers: &mut Wakers) {}

    /// Called when a waiter has left the list without taking a grant; wakes the next one. `granted` is true
    /// if it was granted, and dropped before it looked. The caller drops the returned value outside the lock.
    fn left(
        &self,
        state: &mut Self::State,
        item: Self::Item,
        granted: bool,
        wakers: &mut Wakers,
    ) -> Option<Self::Item>;
}

/// The future of a wait.
#[derive(Debug)]
pub(crate) struct Suspend<A: WaitOp> {
    ask: A,
    /// What it brings, until it enters the list.
    item: Option<A::Item>,
    place: Option<WaiterId>,
}

// Nothing is pinned: no pointer refers to this.
impl<A: WaitOp> Unpin for Suspend<A> {}

impl<A: WaitOp> Suspend<A> {
    #[inline]
    pub(crate) fn new(ask: A, item: A::Item) -> Self {
        Self {
            ask,
            item: Some(item),
            place: None,
        }
    }

    #[cold]
    fn begin(&mut self, item: A::Item, cx: &Context<'_>) -> Poll<A::Output> {
        // If the clone panics, the item is lost with the caller, and no other waiter is affected.
        let waker = cx.waker().clone();
        self.ask.register();
        let mut wakers = Wakers::new();
        let mut state = self.ask.state().lock();
        match self.ask.recheck(&mut state, item, &mut wakers) {
            Ok(output) => {
                drop(state);
                wakers.wake();
                drop(waker);
                Poll::Ready(output)
            }
            Err(item) => {
                self.place = Some(A::list(&mut state).push(waker, item));
                drop(state);
                wakers.wake();
                self.lend();
                Poll::Pending
            }
        }
    }

    #[cold]
    fn resume(&mut self, cx: &Context<'_>) -> Poll<A::Output> {
        let mut fresh = None;
        loop {
            let Some(place) = &self.place else {
                panic!("a wait was polled again after it was over");
            };
            let mut wakers = Wakers::new();
            let mut state = self.ask.state().lock();
            let will_wake = match A::list(&mut state).look(place, cx.waker()) {
                WaiterState::Granted => {
                    let place = self
                        .place
                        .take()
                        .unwrap_or_else(|| unreachable!("just looked at"));
                    lend_no_more(&self.ask, &place, true);
                    let left = A::list(&mut state).leave(place);
                    self.ask.taken(&mut state, &left.item, &mut wakers);
                    drop(state);
                    wakers.wake();
                    return Poll::Ready(self.ask.granted(left.item));
                }
                WaiterState::InLine { will_wake } => will_wake,
            };
            if let Some(output) = self.ask.again(&mut state, place) {
                let place = self
                    .place
                    .take()
                    .unwrap_or_else(|| unreachable!("just looked at"));
                lend_no_more(&self.ask, &place, true);
                leave(&self.ask, place, state);
                return Poll::Ready(output);
            }
            if will_wake {
                drop(state);
                return Poll::Pending;
            }
            let Some(waker) = fresh.take() else {
                drop(state);
                fresh = Some(cx.waker().clone());
                continue;
            };
            let woken = A::list(&mut state).is_woken(place);
            let old = A::list(&mut state).set_waker(place, waker);
            if woken {
                self.ask.waits_on(&mut state, place, &mut wakers);
            }
            drop(state);
            wakers.wake();
            drop(old);
            if woken {
                // Another task was faster.
                self.lend();
            }
            return Poll::Pending;
        }
    }

    /// Lends the priority of this task to the owner of what it waits for.
    fn lend(&self) {
        let (Some(place), Some(owner)) = (&self.place, A::OWNER) else {
            return;
        };
        lend(lock_of(&self.ask), place.number(), owner(&self.ask));
    }

    #[cold]
    fn give_up(&mut self) {
        if let Some(place) = self.place.take() {
            lend_no_more(&self.ask, &place, false);
            if let Some(state) = self.ask.state().lock_unless_lost() {
                leave(&self.ask, place, state);
            }
        }
    }
}

/// Returns the address that identifies what is waited for.
fn lock_of<A: WaitOp>(ask: &A) -> usize {
    std::ptr::from_ref(ask.state()).addr()
}

/// Ends what [`Suspend::lend`] began. `got` is true if the task has what it waited for. The place is still
/// occupied, so no other waiter has it.
fn lend_no_more<A: WaitOp>(ask: &A, place: &WaiterId, got: bool) {
    if A::OWNER.is_some() {
        let owner = || got.then(|| current_task().id);
        lending::left(lock_of(ask), place.number(), owner);
    }
}

/// Leaves the list, or gives back what was granted, and then wakes the waiters that can continue.
fn leave<A: WaitOp>(ask: &A, place: WaiterId, mut state: MutexGuard<'_, A::State>) {
    let mut wakers = Wakers::new();
    let left = A::list(&mut state).leave(place);
    let rest = ask.left(&mut state, left.item, left.granted, &mut wakers);
    drop(state);
    wakers.wake();
    drop((left.waker, rest));
}

impl<A: WaitOp> Future for Suspend<A> {
    type Output = A::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<A::Output> {
        let this = self.get_mut();
        if A::HAS_BUDGET && this.item.is_some() {
            ready!(poll_budget(cx));
        }
        match this.item.take() {
            Some(item) => match this.ask.try_now(item) {
                Ok(output) => Poll::Ready(output),
                Err(item) => this.begin(item, cx),
            },
            None => this.resume(cx),
        }
    }
}

impl<A: WaitOp> Drop for Suspend<A> {
    #[inline]
    fn drop(&mut self) {
        if self.place.is_some() {
            self.give_up();
        }
    }
}
