//! Permits, given in the order in which they were requested.
//!
//! ```text
//!   word:  ┌── free permits ──┬ marks ┬ CLOSED ┬ LINE ┐     LINE: a task waits, or it is closed:
//!          └──────────────────┴───────┴────────┴──────┘           all changes are made under the lock
//! ```
//!
//! # Invariants
//!
//! - While LINE is set, the word changes under the lock only. It is set when the list of waiters is not
//!   empty, and for ever once the semaphore is closed.
//! - When the lock is free, the first waiter wants more permits than there are.
//! - A mark says that a permit has that slot, in which it notes its task. It is set by the compare-and-swap
//!   that takes the permits, and cleared by the one that gives them back, so no other permit writes there
//!   meanwhile. The note is a hint for dumps; it is written after the mark, and blank before the mark is
//!   cleared.
//! - A waiter that is given permits while no mark is free has one of some further slots, whose marks are not
//!   in the word. It is reserved under the lock, and becomes free when the note is blank. So holders that
//!   have waited are known, and taking permits at once costs nothing for that.
//! - The first slot is in the semaphore, so that permits which are alone need no memory on the heap. Its copy
//!   beside the list is kept from the first wait on. The other slots are beside the list.

mod notes;

use super::error::{Closed, TryAcquireError};
use super::lazy_state::LazyState;
use super::marks::{CLOSED, LINE, MARK, MARKS, ONE, in_word, unnoted, vacant};
use super::owner::{FIRST, Holder};
use super::permit::{COUNT, Permit};
use super::requests::{PermitRequest, Requests};
use super::suspend::{Suspend, WaitOp};
use super::wait::Wait;
use super::wait_list::WaitList;
use super::wakers::Wakers;
use std::fmt;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync;
use warpweft_task::frame::Who;

/// In place of the number of permits: no holder is noted.
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
    /// How many permits there are, or [`UNNOTED`].
    all: AtomicUsize,
    /// The first slot.
    holder: Holder,
    list: LazyState<Requests>,
}

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

    /// As [`new`](Self::new), for what dumps call `kind`.
    pub(crate) fn of(permits: usize, kind: &'static str) -> Self {
        assert!(
            permits <= Self::MAX_PERMITS,
            "{permits} permits are more than Semaphore::MAX_PERMITS"
        );
        Self {
            word: AtomicUsize::new(permits * ONE + unnoted(permits)),
            all: AtomicUsize::new(permits),
            holder: Holder::default(),
            list: LazyState::new(kind),
        }
    }

    /// As [`of`](Self::of), for permits of tasks that the caller spawns: the taker of a permit is not its
    /// user.
    pub(crate) fn of_tasks(permits: usize, kind: &'static str) -> Self {
        let mut semaphore = Self::of(permits, kind);
        semaphore.all = AtomicUsize::new(UNNOTED);
        // There is no slot for a permit.
        semaphore.word = AtomicUsize::new(permits * ONE + MARKS);
        semaphore
    }

    /// As [`of_tasks`](Self::of_tasks), for permits of the parts of a scope, which `parts` identifies.
    pub(crate) fn of_parts(permits: usize, kind: &'static str, parts: Who) -> Self {
        let semaphore = Self::of_tasks(permits, kind);
        semaphore.holder.set(parts, permits);
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
        Suspend::new(Acquiring(self), PermitRequest::new(wanted))
    }

    /// Takes permits if enough are free and no task waits.
    ///
    /// # Errors
    ///
    /// The reason.
    #[inline]
    pub fn try_acquire(&self, permits: usize) -> Result<Permit<'_>, TryAcquireError> {
        match self.try_take(permits) {
            Some(permit) => Ok(permit),
            None => self.try_again(permits),
        }
    }

    /// Takes permits if enough are free and no task waits, unless there is no memory for its slot yet.
    #[inline]
    fn try_take(&self, permits: usize) -> Option<Permit<'_>> {
        let mut word = self.word.load(Ordering::Relaxed);
        // The common case, in few instructions: no other permit has the first slot.
        if word & (in_word(FIRST) | LINE) == 0 && word / ONE >= permits {
            match self.take(word, permits, FIRST) {
                Ok(permit) => return Some(permit),
                Err(now) => word = now,
            }
        }
        // LINE is not set, so neither is CLOSED; `permits` may be any number.
        while word & LINE == 0 && word / ONE >= permits {
            let mark = vacant(word);
            if mark > FIRST && self.list.beside().is_none() {
                return None;
            }
            match self.take(word, permits, mark) {
                Ok(permit) => return Some(permit),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Takes permits after all, or finds out why there are none.
    #[cold]
    fn try_again(&self, permits: usize) -> Result<Permit<'_>, TryAcquireError> {
        let mut permit = None;
        if self.free() >= permits {
            // There was no slot beside the list, or LINE is set. Whoever is about to wait sets it, and clears
            // it if it need not: only under the lock it means that a task waits.
            // In a forked child the lock may be lost, and then nobody gives permits back either.
            if let Some(mut requests) = self.list.node().state.lock_unless_lost()
                && requests.list.is_empty()
                && !self.is_closed()
            {
                permit = (self.take_first(&mut requests, permits))
                    // Nobody waits.
                    .inspect_err(|word| self.word.store(word & !LINE, Ordering::Release))
                    .ok();
            }
        }
        permit.ok_or_else(|| match self.is_closed() {
            // Read now: a caller that is refused sees what happened before `close`.
            true => TryAcquireError::Closed,
            false => TryAcquireError::NoPermits,
        })
    }

    /// Takes permits under the lock, where no task waits and the semaphore is open. If there are too few, it
    /// leaves LINE set, and returns the word.
    fn take_first(&self, requests: &mut Requests, permits: usize) -> Result<Permit<'_>, usize> {
        // From here on the word changes under the lock only, so a thread that gives permits back finds a
        // waiter that is put into the list now.
        let word = self.word.fetch_or(LINE, Ordering::Acquire);
        let (free, marks) = (word / ONE, word & MARKS);
        (requests.free, requests.all, requests.marks) = (free, self.all(), (marks / MARK) as u8);
        if permits > free {
            return Err(word);
        }
        let mut mark = vacant(marks);
        let left = (free - permits) * ONE + in_word(mark);
        if mark == 0 && requests.notes_waiters {
            mark = self.reserve(permits);
        }
        self.note_given(permits, mark);
        self.word.store(left | marks, Ordering::Release);
        Ok(Permit::new(self, permits, mark))
    }

    /// Takes permits from that word, with that mark. Returns the present word if it is another one.
    #[inline]
    fn take(&self, word: usize, permits: usize, mark: u8) -> Result<Permit<'_>, usize> {
        let left = word - permits * ONE + in_word(mark);
        // Ordering: Acquire pairs with the Release of the thread that gave permits back.
        self.word
            .compare_exchange_weak(word, left, Ordering::Acquire, Ordering::Relaxed)?;
        self.note(permits, mark);
        Ok(Permit::new(self, permits, mark))
    }

    /// Adds permits, and gives them to the waiters.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS), in use or free.
    pub fn add(&self, permits: usize) {
        let more = |all: usize| all.checked_add(permits).filter(|sum| *sum <= Self::MAX_PERMITS);
        let fits = match self.all.load(Ordering::Relaxed) {
            UNNOTED => more(self.free()).is_some(),
            _ => (self.all)
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
                .is_ok(),
        };
        assert!(
            fits,
            "{permits} permits more are more than Semaphore::MAX_PERMITS"
        );
        self.release(permits, 0);
    }

    /// Returns how many permits there are, if holders are noted.
    fn all(&self) -> usize {
        match self.all.load(Ordering::Relaxed) {
            UNNOTED => 0,
            all => all,
        }
    }

    /// Notes that this number of permits is kept for ever.
    pub(super) fn lose(&self, permits: usize) {
        if self.all.load(Ordering::Relaxed) != UNNOTED {
            self.all.fetch_sub(permits, Ordering::Relaxed);
        }
    }

    /// Returns what identifies it in dumps: 0 if no task has waited.
    pub(crate) fn object(&self) -> usize {
        self.list.object()
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
            claim.refuse();
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

    /// Gives permits back, and the mark. The uppermost byte of the number is not part of it.
    #[inline]
    pub(super) fn release(&self, permits: usize, mark: u8) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & LINE == 0 {
            let more = word + (permits << ONE.trailing_zeros()) - in_word(mark);
            // Ordering: Release passes on what was done with the permits.
            match self
                .word
                .compare_exchange_weak(word, more, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        self.release_to_others(permits & COUNT, mark);
    }

    /// Gives permits back that have another slot than the first one, or none.
    #[inline(never)]
    pub(super) fn release_beside(&self, permits: usize, mark: u8) {
        if mark != 0
            && let Some(holders) = self.list.beside()
        {
            // The odd marks are those of waiters.
            if mark & FIRST != 0 || self.word.load(Ordering::Relaxed) & LINE != 0 {
                return self.release_of_waiter(permits, mark);
            }
            holders.of(mark).forget();
        }
        self.release(permits, mark);
    }

    /// The same, for a permit that a waiter was given, or while others wait.
    #[inline(never)]
    fn release_of_waiter(&self, permits: usize, mut mark: u8) {
        if let Some(holders) = self.list.beside() {
            self.note_giver(holders, mark);
            mark = holders.forget(mark);
        }
        self.release(permits, mark);
    }

    #[cold]
    fn release_to_others(&self, permits: usize, mark: u8) {
        let mut wakers = Wakers::new();
        let Some(mut list) = self.list.node().state.lock_unless_lost() else {
            return;
        };
        self.serve(&mut list, permits, mark, &mut wakers);
        drop(list);
        wakers.wake();
    }

    /// Adds `more` permits, which had that mark, and serves the waiters as far as the permits suffice.
    fn serve(&self, requests: &mut Requests, more: usize, mark: u8, wakers: &mut Wakers) {
        // Ordering: Acquire and Release as outside of the lock. With LINE set, a second set would change
        // nothing. But LINE may just have been cleared, and then other threads change the word, so it is read
        // and written in one step.
        let word = self.word.fetch_or(LINE, Ordering::Acquire);
        let mut free = word / ONE + more;
        let mut marks = word & MARKS & !in_word(mark);
        if mark == FIRST
            && let Some(holders) = self.list.beside()
        {
            // A waiter may have copied it while the holder gave its permits back.
            holders.of(FIRST).forget();
        }
        let list = &mut requests.list;
        let mut notes = requests.notes_waiters;
        while list.front().is_some_and(|claim| claim.wanted() <= free) {
            if let Some((claim, waker)) = list.grant_front() {
                let mut mark = vacant(marks);
                marks |= in_word(mark);
                if mark == 0 && notes {
                    mark = self.reserve(claim.wanted());
                    notes = mark != 0;
                }
                claim.give(mark);
                free -= claim.wanted();
                wakers.push(waker);
            }
        }
        let flags = match word & CLOSED {
            0 if list.is_empty() => 0,
            closed => closed | LINE,
        };
        (requests.free, requests.all, requests.marks) = (free, self.all(), (marks / MARK) as u8);
        self.word.store(free * ONE + marks + flags, Ordering::Release);
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
        match self.0.try_take(claim.wanted()) {
            Some(permit) => Ok(Ok(permit)),
            None => Err(claim),
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
        match self.0.take_first(requests, claim.wanted()) {
            Ok(permit) => Ok(Ok(permit)),
            Err(word) => {
                if word & in_word(FIRST) != 0
                    && let Some(holders) = self.0.list.beside()
                {
                    holders.of(FIRST).copy(&self.0.holder);
                }
                Err(claim)
            }
        }
    }

    fn granted(&self, claim: PermitRequest) -> Self::Output {
        if claim.is_refused() {
            Err(Closed)
        } else {
            self.0.note_given(claim.wanted(), claim.mark());
            Ok(Permit::new(self.0, claim.wanted(), claim.mark()))
        }
    }

    fn left(
        &self,
        requests: &mut Requests,
        claim: PermitRequest,
        granted: bool,
        wakers: &mut Wakers,
    ) -> Option<PermitRequest> {
        let (back, mut mark) = if granted && !claim.is_refused() {
            (claim.wanted(), claim.mark())
        } else {
            (0, 0)
        };
        if let Some(holders) = self.0.list.beside().filter(|_| mark != 0) {
            mark = holders.forget(mark);
        }
        self.0.serve(requests, back, mark, wakers);
        None
    }
}
