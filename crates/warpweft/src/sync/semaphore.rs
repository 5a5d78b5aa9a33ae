//! Permits, given in the order in which they were requested.
//!
//! ```text
//!   word:  ┌───── free permits ─────┬ CLOSED ┬ LINE ┐     LINE: a task waits, or it is closed:
//!          └────────────────────────┴────────┴──────┘           all changes are made under the lock
//! ```
//!
//! # Invariants
//!
//! - While LINE is set, the word changes under the lock only. It is set when the list of waiters is not
//!   empty, and for ever once the semaphore is closed.
//! - When the lock is free, the first waiter wants more permits than there are.
//! - `holder` notes the task that took permits while all were free, until it gives them back: meanwhile not
//!   all are free, so no other task is noted. It is a hint for reports. Its copy in the list is kept from the
//!   first wait on.

use super::error::Closed;
use super::lazy_state::LazyState;
use super::owner::Holder;
use super::requests::{PermitRequest, Requests};
use super::suspend::{Suspend, WaitOp};
use super::wait::Wait;
use super::wait_list::WaitList;
use super::wakers::Wakers;
use crate::execution::current_task::current_task;
use crate::pool::donation;
use std::fmt;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync;
use warpweft_task::frame::Who;

const LINE: usize = 1;
/// No permits are given any more. Never cleared.
const CLOSED: usize = 2;
const ONE: usize = 4;
/// In place of the word when all permits are free: no holder is noted. No word is equal to it.
const UNNOTED: usize = usize::MAX;

/// A number of permits. A task waits until it has those that it needs.
///
/// **First come, first served**, also by weight: requests for few permits do not overtake a request for many,
/// so that one is served when enough have come back.
///
/// Acquiring and releasing cost one compare-and-swap each as long as no task waits.
///
/// ```
/// use warpweft::sync::Semaphore;
///
/// let connections = Semaphore::new(2);
/// let one = connections.acquire(1).wait()?;
/// assert!(connections.try_acquire(2).is_err());
/// drop(one);
/// assert_eq!(connections.try_acquire(2)?.count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Semaphore {
    word: AtomicUsize,
    /// The word when all permits are free, or [`UNNOTED`].
    all: AtomicUsize,
    holder: Holder,
    list: LazyState<Requests>,
}

/// The reason why permits were not given at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryAcquireError {
    /// Too few are free, or others wait for them.
    NoPermits,
    /// The semaphore is closed.
    Closed,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::NoPermits => "too few permits are free, or others wait for them",
            TryAcquireError::Closed => "the semaphore was closed",
        })
    }
}

impl std::error::Error for TryAcquireError {}

impl Semaphore {
    /// The largest number of permits.
    pub const MAX_PERMITS: usize = usize::MAX / (2 * ONE);

    /// Returns a semaphore with `permits` free permits.
    ///
    /// # Panics
    ///
    /// If that is more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self::of(permits, "semaphore")
    }

    /// As [`new`](Self::new), for what reports call `kind`.
    pub(crate) fn of(permits: usize, kind: &'static str) -> Self {
        assert!(
            permits <= Self::MAX_PERMITS,
            "{permits} permits are more than Semaphore::MAX_PERMITS"
        );
        Self {
            word: AtomicUsize::new(permits * ONE),
            all: AtomicUsize::new(permits * ONE),
            holder: Holder::default(),
            list: LazyState::new(kind),
        }
    }

    /// As [`of`](Self::of), for permits of tasks that the caller spawns: the taker of a permit is not its
    /// user.
    pub(crate) fn of_tasks(permits: usize, kind: &'static str) -> Self {
        let mut semaphore = Self::of(permits, kind);
        semaphore.all = AtomicUsize::new(UNNOTED);
        semaphore
    }

    /// Waits for `permits` permits. The number may be more than exist: others may be [added](Self::add).
    ///
    /// If the wait is dropped before it is ready, it leaves the list, and permits that it had been given go
    /// to the next waiter.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the semaphore was closed before or meanwhile.
    ///
    /// # Panics
    ///
    /// At once, if `permits` is more than [`MAX_PERMITS`](Self::MAX_PERMITS): it would block itself and later
    /// waiters for ever.
    pub fn acquire(&self, permits: usize) -> Wait<impl Future<Output = Result<Permit<'_>, Closed>>> {
        assert!(
            permits <= Self::MAX_PERMITS,
            "{permits} permits are more than Semaphore::MAX_PERMITS"
        );
        Wait::new(self.claim(permits))
    }

    /// Returns the wait itself.
    #[inline]
    pub(crate) fn claim(&self, wanted: usize) -> Suspend<Acquiring<'_>> {
        let claim = PermitRequest {
            wanted,
            refused: false,
            is_sole: false,
        };
        Suspend::new(Acquiring(self), claim)
    }

    /// Takes permits if enough are free and no task waits.
    ///
    /// # Errors
    ///
    /// The reason.
    #[inline]
    pub fn try_acquire(&self, permits: usize) -> Result<Permit<'_>, TryAcquireError> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & LINE != 0 {
                // Read again, as `is_closed` does: a caller that is refused sees what happened before
                // `close`.
                return Err(if self.is_closed() {
                    TryAcquireError::Closed
                } else {
                    TryAcquireError::NoPermits
                });
            }
            // LINE is not set, so neither is CLOSED; `permits` may be any number.
            if word / ONE < permits {
                return Err(TryAcquireError::NoPermits);
            }
            // Ordering: Acquire pairs with the Release of the thread that gave permits back.
            match self.word.compare_exchange_weak(
                word,
                word - permits * ONE,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(self.permit(permits, self.is_sole(word, permits))),
                Err(now) => word = now,
            }
        }
    }

    /// Adds permits, and gives them to the waiters.
    ///
    /// # Panics
    ///
    /// If more than [`MAX_PERMITS`](Self::MAX_PERMITS) would be free.
    pub fn add(&self, permits: usize) {
        let fits = self.free().checked_add(permits);
        assert!(
            fits.is_some_and(|sum| sum <= Self::MAX_PERMITS),
            "{permits} permits more are more than Semaphore::MAX_PERMITS"
        );
        if self.all.load(Ordering::Relaxed) != UNNOTED {
            self.all.fetch_add(permits * ONE, Ordering::Relaxed);
        }
        self.release(permits);
    }

    /// Returns true if a caller that takes this number of permits from that word is the only one to have any.
    #[inline]
    fn is_sole(&self, word: usize, permits: usize) -> bool {
        word == self.all.load(Ordering::Relaxed) && permits > 0
    }

    /// Returns the permit of a caller that has taken this number.
    #[inline]
    fn permit(&self, count: usize, is_sole: bool) -> Permit<'_> {
        if is_sole {
            let who = current_task();
            self.holder.set(who, count);
            if let Some(holder) = self.list.beside() {
                holder.set(who, count);
            }
        }
        Permit {
            semaphore: self,
            count,
            is_sole,
        }
    }

    /// Notes that the only holder has none any more.
    #[inline]
    fn forget_holder(&self) {
        self.holder.forget();
        if let Some(holder) = self.list.beside() {
            holder.forget();
            donation::released(std::ptr::from_ref(&self.list.node().state).addr());
        }
    }

    /// Returns how many permits there are, if holders are noted.
    fn all(&self) -> usize {
        match self.all.load(Ordering::Relaxed) {
            UNNOTED => 0,
            all => all / ONE,
        }
    }

    /// Returns how many permits are free now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.word.load(Ordering::Relaxed) / ONE
    }

    /// Closes the semaphore. Waiters and later callers get [`Closed`], and see what happened before. Permits
    /// that are in use stay valid.
    pub fn close(&self) {
        let mut wakers = Wakers::new();
        let mut list = self.list.node().state.lock();
        // Ordering: Release, because a caller that is refused must see what happened before.
        self.word.fetch_or(CLOSED | LINE, Ordering::Release);
        wakers.reserve(list.list.at_most());
        while let Some((claim, waker)) = list.list.grant_front() {
            claim.refused = true;
            wakers.push(waker);
        }
        drop(list);
        wakers.wake();
    }

    /// Returns true if it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // Ordering: Acquire pairs with the Release of `close`.
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    #[inline]
    pub(super) fn release(&self, permits: usize) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & LINE == 0 {
            // Ordering: Release passes on what was done with the permits.
            match self.word.compare_exchange_weak(
                word,
                word + permits * ONE,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        self.release_to_others(permits);
    }

    #[cold]
    fn release_to_others(&self, permits: usize) {
        let mut wakers = Wakers::new();
        let mut list = self.list.node().state.lock();
        self.serve(&mut list, permits, &mut wakers);
        drop(list);
        wakers.wake();
    }

    /// Adds `more` permits, and serves the waiters as far as the permits suffice.
    fn serve(&self, requests: &mut Requests, more: usize, wakers: &mut Wakers) {
        // Ordering: Acquire and Release as outside of the lock. With LINE set, a second set would change
        // nothing. But LINE may just have been cleared, and then other threads change the word, so it is read
        // and written in one step.
        let word = self.word.fetch_or(LINE, Ordering::Acquire);
        let mut free = word / ONE + more;
        if self.is_sole(free * ONE, 1)
            && let Some(holder) = self.list.beside()
        {
            // A waiter may have copied it while the holder gave its permits back.
            holder.forget();
        }
        let list = &mut requests.list;
        while list.front().is_some_and(|claim| claim.wanted <= free) {
            if let Some((claim, waker)) = list.grant_front() {
                claim.is_sole = self.is_sole(free * ONE, claim.wanted);
                free -= claim.wanted;
                wakers.push(waker);
            }
        }
        let flags = match word & CLOSED {
            0 if list.is_empty() => 0,
            closed => closed | LINE,
        };
        (requests.free, requests.all) = (free, self.all());
        self.word.store(free * ONE + flags, Ordering::Release);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("free", &self.free()).finish()
    }
}

pub(crate) struct Acquiring<'a>(&'a Semaphore);

impl<'a> WaitOp for Acquiring<'a> {
    type State = Requests;
    type Item = PermitRequest;
    type Output = Result<Permit<'a>, Closed>;
    const OWNER: Option<fn(&Self) -> Who> = Some(|this| this.0.holder.get().0);

    fn state(&self) -> &sync::Mutex<Requests> {
        &self.0.list.node().state
    }

    fn list(requests: &mut Requests) -> &mut WaitList<PermitRequest> {
        &mut requests.list
    }

    #[inline]
    fn try_now(&self, claim: PermitRequest) -> Result<Self::Output, PermitRequest> {
        match self.0.try_acquire(claim.wanted) {
            Ok(permit) => Ok(Ok(permit)),
            Err(TryAcquireError::Closed) => Ok(Err(Closed)),
            Err(TryAcquireError::NoPermits) => Err(claim),
        }
    }

    fn recheck(
        &self,
        requests: &mut Requests,
        claim: PermitRequest,
        _wakers: &mut Wakers,
    ) -> Result<Self::Output, PermitRequest> {
        if self.0.is_closed() {
            return Ok(Err(Closed));
        }
        if !requests.list.is_empty() {
            return Err(claim);
        }
        // From here on the word changes under the lock only, so a thread that gives permits back finds this
        // waiter.
        let free = self.0.word.fetch_or(LINE, Ordering::Acquire) / ONE;
        (requests.free, requests.all) = (free, self.0.all());
        if claim.wanted > free {
            if let Some(holder) = self.0.list.beside() {
                holder.copy(&self.0.holder);
            }
            return Err(claim);
        }
        let permit = self
            .0
            .permit(claim.wanted, self.0.is_sole(free * ONE, claim.wanted));
        self.0.word.store((free - claim.wanted) * ONE, Ordering::Release);
        Ok(Ok(permit))
    }

    fn granted(&self, claim: PermitRequest) -> Self::Output {
        if claim.refused {
            Err(Closed)
        } else {
            Ok(self.0.permit(claim.wanted, claim.is_sole))
        }
    }

    fn left(
        &self,
        requests: &mut Requests,
        claim: PermitRequest,
        granted: bool,
        wakers: &mut Wakers,
    ) -> Option<PermitRequest> {
        let back = if granted && !claim.refused {
            claim.wanted
        } else {
            0
        };
        self.0.serve(requests, back, wakers);
        None
    }
}

/// Permits of a [`Semaphore`], which are given back when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the permits back"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    count: usize,
    /// The semaphore's note of its holder is of this permit.
    is_sole: bool,
}

impl Permit<'_> {
    /// Returns the number of permits.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Gives all but `count` of them back. There are at least that many.
    pub(super) fn keep(mut self, count: usize) -> Self {
        let rest = self.count - count;
        self.count = count;
        if self.is_sole {
            self.semaphore.holder.keeps(count);
            if let Some(holder) = self.semaphore.list.beside() {
                holder.keeps(count);
            }
        }
        self.semaphore.release(rest);
        self
    }

    /// Keeps the permits for ever; [`Semaphore::add`] can add as many again.
    pub fn forget(self) {
        let all = &self.semaphore.all;
        if all.load(Ordering::Relaxed) != UNNOTED {
            all.fetch_sub(self.count * ONE, Ordering::Relaxed);
        }
        if self.is_sole {
            self.semaphore.forget_holder();
        }
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_sole {
            self.semaphore.forget_holder();
        }
        if self.count > 0 {
            self.semaphore.release(self.count);
        }
    }
}
