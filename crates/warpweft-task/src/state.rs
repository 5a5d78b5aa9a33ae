//! The state word: everything that two threads may want to know of a task at once.
//!
//! ```text
//!  63         32 31      7 6         5     4      3        2        1       0
//! ┌─────────────┬─────────┬─────────┬─────┬──────┬────────┬────────┬───────┬──────┐
//! │ references  │ (unused)│CANCELLED│WAKER│HANDLE│COMPLETE│NOTIFIED│RUNNING│QUEUED│
//! └─────────────┴─────────┴─────────┴─────┴──────┴────────┴────────┴───────┴──────┘
//!
//!   fresh (RUNNING) ──step──▶ pending ──▶ IDLE ──wake──▶ QUEUED ──start──▶ RUNNING ──▶ … ──▶ COMPLETE
//!                                └─ NOTIFIED meanwhile ─────────▶ QUEUED
//! ```
//!
//! A fresh task counts as RUNNING from its birth: no waker of it exists yet, so nothing has to be told apart,
//! and its first step needs no read-modify-write.
//!
//! # Invariants
//!
//! - Exactly one *token* (a `TaskRef`, or a step under way) exists while QUEUED or RUNNING is set; it holds
//!   one reference. No token exists while neither is set.
//! - A wake that finds QUEUED still performs a read-modify-write: what the waker wrote before must be visible
//!   to the step that follows, and only a release that `start` acquires makes it so.
//! - WAKER is set by the handle and only while COMPLETE is clear. While it is set the handle does not write
//!   the waker field; whoever sets COMPLETE over it owns the waker.
//! - A task whose cancellation was granted before its end never says that it returned: who completes it hears
//!   of CANCELLED first.
//! - The reference count never reaches zero on an unfinished task: the last reference turns into a token that
//!   cancels it.

use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::hint::cold_path;

/// A token is in a queue, or on its way there.
const QUEUED: u64 = 1 << 0;
/// A step is under way, or the task has never run.
const RUNNING: u64 = 1 << 1;
/// It was woken while RUNNING: it goes back to a queue when the step ends.
const NOTIFIED: u64 = 1 << 2;
/// It has ended; the result is in its place.
const COMPLETE: u64 = 1 << 3;
/// A join handle exists; it owns the result after the end.
const HANDLE: u64 = 1 << 4;
/// The waker field holds the joiner's waker.
const WAKER: u64 = 1 << 5;
/// Somebody asked for its cancellation.
const CANCELLED: u64 = 1 << 6;
const REFERENCE: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct State(AtomicU64);

/// What the holder of a token finds when it starts a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Go,
    Cancelled,
}

/// What becomes of a token whose step left the task pending.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Suspend {
    /// It is asleep; the token is gone.
    Idle,
    /// It was woken meanwhile: the token goes back to a queue.
    Again,
    /// Nobody is left who could wake or join it: the token is there to cancel it.
    Orphan,
}

/// What a dropped reference leaves to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    Nothing,
    /// It was the last one and the task has ended.
    Free,
    /// It was the last one and the task sleeps: the reference became a token, to be pushed and cancelled.
    Orphan,
}

/// What a dropped handle leaves to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandleDropped {
    Nothing,
    /// The task has ended: the result is the handle's to drop, and then its reference.
    Ended,
    /// The waker field is the handle's to clear, and then its reference.
    TakeWaker,
    /// The reference became a token, as in [`Dropped::Orphan`].
    Orphan,
}

/// What a wake leaves to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Nothing,
    /// The caller has a token now and pushes it.
    Push,
    /// The waker was the last reference to a task that has ended.
    Free,
}

/// What the end of a task leaves to do for the one who ended it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// The reference is given up; touch the task no more.
    Published,
    /// The reference was the last one.
    Free,
    /// The joiner's waker is the caller's now; the reference is still held.
    Wake,
    /// The handle went away: drop the result first, then complete again.
    Unwanted,
    /// Its cancellation was asked for, and its handle is there: see to it that the task says so, then
    /// complete again.
    Cancelled,
}

/// What the end of a task came to where one look and one attempt were enough.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The token's is the only reference, and there is no handle: nothing was changed, and the task is the
    /// caller's to free.
    Sole,
    /// As [`Completed::Published`].
    Published,
    /// As [`Completed::Wake`].
    Wake,
    /// Something has to be seen to, or the word has changed: nothing was changed, and [`State::complete`]
    /// does it.
    Otherwise,
}

fn references(state: u64) -> u64 {
    state >> 32
}

fn ended(state: u64) -> u64 {
    state & !(QUEUED | RUNNING | NOTIFIED) | COMPLETE
}

impl State {
    /// A fresh task: one token, and a handle if `handle`.
    pub(crate) fn new(handle: bool) -> Self {
        Self(AtomicU64::new(if handle {
            RUNNING | HANDLE | (2 * REFERENCE)
        } else {
            RUNNING | REFERENCE
        }))
    }

    /// Whether somebody has asked for its cancellation. A hint for whoever does not hold the token; for who
    /// does, it is for ever.
    pub(crate) fn is_cancelled(&self) -> bool {
        // Ordering: Relaxed; cancelling hands nothing over.
        self.0.load(Ordering::Relaxed) & CANCELLED != 0
    }

    pub(crate) fn is_complete(&self) -> bool {
        // Ordering: Acquire pairs with the release in `complete`, so that the result may be read.
        self.0.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// The token's holder starts a step.
    pub(crate) fn start(&self) -> Start {
        // Ordering: only the token's holder clears QUEUED, so a relaxed look is exact in that bit.
        let mut state = self.0.load(Ordering::Relaxed);
        if state & QUEUED != 0 {
            // QUEUED out, RUNNING in.
            // Ordering: Acquire pairs with the release of every wake, also of one that found it QUEUED.
            state = self.0.fetch_add(RUNNING - QUEUED, Ordering::Acquire);
        }
        if state & CANCELLED != 0 {
            Start::Cancelled
        } else {
            Start::Go
        }
    }

    /// Whether the running task was woken already, so that its suspension need not be told to anyone.
    pub(crate) fn is_notified(&self) -> bool {
        // Ordering: a hint; `suspend` decides.
        self.0.load(Ordering::Relaxed) & NOTIFIED != 0
    }

    /// The step left the task pending.
    #[inline]
    pub(crate) fn suspend(&self) -> Suspend {
        let state = self.0.load(Ordering::Acquire);
        // Mostly nobody else touches the word: one attempt, and the loop out of the way.
        if state & NOTIFIED != 0 {
            // It stays so, RUNNING and not QUEUED, until we say otherwise.
            // Ordering: as in `suspend_anyhow`.
            self.0.fetch_sub(NOTIFIED + RUNNING - QUEUED, Ordering::AcqRel);
            return Suspend::Again;
        }
        if state < 2 * REFERENCE {
            cold_path();
            return self.suspend_anyhow();
        }
        // RUNNING, which it is, and one reference.
        let asleep = state - (RUNNING + REFERENCE);
        // Ordering: as in `suspend_anyhow`.
        let swap = self
            .0
            .compare_exchange_weak(state, asleep, Ordering::AcqRel, Ordering::Acquire);
        match swap {
            Ok(_) => Suspend::Idle,
            Err(_) => self.suspend_anyhow(),
        }
    }

    #[inline(never)]
    fn suspend_anyhow(&self) -> Suspend {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            let (next, outcome) = if state & NOTIFIED != 0 {
                (state & !(NOTIFIED | RUNNING) | QUEUED, Suspend::Again)
            } else if references(state) == 1 {
                // Nobody else has a reference, so nobody can change the word: it stays RUNNING.
                return Suspend::Orphan;
            } else {
                ((state & !RUNNING) - REFERENCE, Suspend::Idle)
            };
            // Ordering: Release hands the future to whoever starts the next step; Acquire takes what the
            // wakers that set NOTIFIED wrote.
            match self
                .0
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return outcome,
                Err(now) => state = now,
            }
        }
    }

    /// A waker is consumed; its reference becomes the token's where one is needed.
    pub(crate) fn wake_by_value(&self) -> Woken {
        let mut state = self.0.load(Ordering::Acquire);
        // Ordering: Release, for the step that follows must see what the waker did; Acquire for freeing.
        let change = |state: &mut u64, next| {
            self.0
                .compare_exchange_weak(*state, next, Ordering::AcqRel, Ordering::Acquire)
                .map_err(|now| *state = now)
                .is_ok()
        };
        loop {
            // Mostly it sleeps: one look, and nothing to be chosen between.
            if state & (COMPLETE | QUEUED | RUNNING) == 0 {
                let next = state | QUEUED;
                if change(&mut state, next) {
                    return Woken::Push;
                }
                continue;
            }
            let (next, outcome) = if state & COMPLETE != 0 {
                let outcome = if references(state) == 1 {
                    Woken::Free
                } else {
                    Woken::Nothing
                };
                (state - REFERENCE, outcome)
            } else if state & QUEUED != 0 {
                (state - REFERENCE, Woken::Nothing)
            } else {
                ((state | NOTIFIED) - REFERENCE, Woken::Nothing)
            };
            if change(&mut state, next) {
                return outcome;
            }
        }
    }

    /// A waker wakes and lives on. True: the caller has a token now and pushes it.
    pub(crate) fn wake_by_ref(&self) -> bool {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            let (next, push) = if state & COMPLETE != 0 {
                return false;
            } else if state & QUEUED != 0 {
                // The same value again: a release that `start` acquires (see the invariants).
                (state, false)
            } else if state & RUNNING != 0 {
                (state | NOTIFIED, false)
            } else {
                ((state | QUEUED) + REFERENCE, true)
            };
            // Ordering: as in `wake_by_value`.
            match self
                .0
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return push,
                Err(now) => state = now,
            }
        }
    }

    /// Asks for cancellation. `Some(true)`: the task slept, and the caller has a token now and pushes it.
    /// `None`: it had ended.
    pub(crate) fn cancel(&self) -> Option<bool> {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            let (next, push) = if state & COMPLETE != 0 {
                return None;
            } else if state & (QUEUED | RUNNING) == 0 {
                ((state | CANCELLED | QUEUED) + REFERENCE, true)
            } else if state & RUNNING != 0 {
                // A pending step must not put it to sleep again.
                (state | CANCELLED | NOTIFIED, false)
            } else {
                (state | CANCELLED, false)
            };
            // Ordering: as in `wake_by_value`; cancelling is a wake.
            match self
                .0
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(push),
                Err(now) => state = now,
            }
        }
    }

    /// The pool ends the task if it sleeps: true, and the caller has a token now.
    pub(crate) fn claim_asleep(&self) -> bool {
        // Ordering: as in `wake_by_value`; it is a wake, of a task that will not run again.
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                let asleep = state & (COMPLETE | QUEUED | RUNNING) == 0;
                asleep.then_some((state | CANCELLED | QUEUED) + REFERENCE)
            })
            .is_ok()
    }

    pub(crate) fn add_reference(&self) {
        // Ordering: a new reference is made from one that exists; nothing needs to be seen.
        let before = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        if references(before) >= u64::from(u32::MAX) / 2 {
            // Two thousand million live wakers of one task are a leak; wrapping would be a use after free.
            std::process::abort();
        }
    }

    /// The handle goes away, and with it its reference where that can be done at once.
    pub(crate) fn drop_handle(&self) -> HandleDropped {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            let (next, outcome) = if state & COMPLETE != 0 {
                return HandleDropped::Ended;
            } else if state & WAKER != 0 {
                (state & !(HANDLE | WAKER), HandleDropped::TakeWaker)
            } else if references(state) > 1 {
                ((state & !HANDLE) - REFERENCE, HandleDropped::Nothing)
            } else {
                // The only reference, and tokens have one each: it sleeps. The reference becomes a token.
                (state & !HANDLE | QUEUED | CANCELLED, HandleDropped::Orphan)
            };
            // Ordering: Release gives up what the handle did; Acquire takes the result where the task has
            // ended.
            match self
                .0
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return outcome,
                Err(now) => state = now,
            }
        }
    }

    /// Gives up a reference that is not the token's.
    pub(crate) fn drop_reference(&self) -> Dropped {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            let (next, outcome) = if references(state) > 1 {
                (state - REFERENCE, Dropped::Nothing)
            } else if state & COMPLETE != 0 {
                // The only reference: nobody else can touch the word.
                return Dropped::Free;
            } else {
                // The only reference, and tokens have one each: it sleeps. The reference becomes a token.
                (state | QUEUED | CANCELLED, Dropped::Orphan)
            };
            // Ordering: Release gives up what this reference did; Acquire takes what the others did, for
            // freeing.
            match self
                .0
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return outcome,
                Err(now) => state = now,
            }
        }
    }

    /// The token's holder ends the task, if nothing has to be seen to: one look, and one attempt. The result
    /// is in its place.
    #[inline]
    pub(crate) fn end(&self) -> End {
        let state = self.0.load(Ordering::Acquire);
        if state & (HANDLE | CANCELLED) != HANDLE {
            let is_sole = references(state) == 1 && state & HANDLE == 0;
            return if is_sole { End::Sole } else { End::Otherwise };
        }
        let (next, completed) = Self::completed(state);
        // Ordering: as in `complete`.
        match self
            .0
            .compare_exchange(state, next, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => completed,
            Err(_) => End::Otherwise,
        }
    }

    /// The token's holder ends the task; the result is in its place, or dropped if `unwanted`. `cancelled`:
    /// the task says that it was cancelled, or why else it has no result.
    pub(crate) fn complete(&self, unwanted: bool, cancelled: bool) -> Completed {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            let (next, outcome) = if state & HANDLE != 0 {
                if state & CANCELLED != 0 && !cancelled {
                    return Completed::Cancelled;
                }
                match Self::completed(state) {
                    (next, End::Wake) => (next, Completed::Wake),
                    (next, _) => (next, Completed::Published),
                }
            } else {
                if !unwanted {
                    return Completed::Unwanted;
                }
                let outcome = if references(state) == 1 {
                    Completed::Free
                } else {
                    Completed::Published
                };
                (ended(state) - REFERENCE, outcome)
            };
            // Ordering: Release publishes the result; Acquire takes the waker that the handle published with
            // WAKER.
            match self
                .0
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return outcome,
                Err(now) => state = now,
            }
        }
    }

    /// What the end of a task with a handle comes to.
    #[inline]
    fn completed(state: u64) -> (u64, End) {
        if state & WAKER != 0 {
            (ended(state), End::Wake)
        } else {
            (ended(state) - REFERENCE, End::Published)
        }
    }

    /// The handle looks: `Err` if the task has ended, else whether the waker field is in the runner's hands.
    pub(crate) fn look(&self) -> Result<bool, ()> {
        // Ordering: Acquire pairs with the release in `complete`.
        let state = self.0.load(Ordering::Acquire);
        if state & COMPLETE != 0 {
            Err(())
        } else {
            Ok(state & WAKER != 0)
        }
    }

    /// The handle has written the waker field and hands it over; `Err`: the task has ended, it is the
    /// handle's still.
    pub(crate) fn set_waker(&self) -> Result<(), ()> {
        self.change_waker(|state| state | WAKER)
    }

    /// The handle takes the waker field back in order to write it; `Err`: the task has ended, it is the
    /// runner's.
    pub(crate) fn unset_waker(&self) -> Result<(), ()> {
        self.change_waker(|state| state & !WAKER)
    }

    fn change_waker(&self, change: impl Fn(u64) -> u64) -> Result<(), ()> {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            if state & COMPLETE != 0 {
                return Err(());
            }
            // Ordering: Release publishes the waker field to `complete`; Acquire on failure for the result.
            match self
                .0
                .compare_exchange_weak(state, change(state), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_task_needs_no_start() {
        let state = State::new(true);
        assert_eq!(state.start(), Start::Go);
        assert_eq!(state.complete(false, false), Completed::Published);
        assert!(state.is_complete());
        assert_eq!(state.drop_reference(), Dropped::Free);
    }

    #[test]
    fn a_wake_while_running_sends_it_back_once() {
        let state = State::new(true);
        state.add_reference();
        assert!(!state.wake_by_ref());
        assert!(!state.wake_by_ref());
        assert_eq!(state.suspend(), Suspend::Again);
        assert_eq!(state.start(), Start::Go);
        assert_eq!(state.suspend(), Suspend::Idle);
        assert_eq!(state.wake_by_value(), Woken::Push);
    }

    #[test]
    fn the_last_reference_to_a_sleeping_task_becomes_a_token() {
        let state = State::new(false);
        assert_eq!(state.suspend(), Suspend::Orphan);
        state.add_reference();
        assert_eq!(state.suspend(), Suspend::Idle);
        assert_eq!(state.drop_reference(), Dropped::Orphan);
        assert_eq!(state.start(), Start::Cancelled);
        assert_eq!(state.complete(true, false), Completed::Free);
    }

    #[test]
    fn cancelling_wakes_a_sleeper_and_marks_a_runner() {
        let state = State::new(true);
        assert_eq!(state.cancel(), Some(false));
        assert_eq!(state.start(), Start::Cancelled);
        let state = State::new(true);
        assert_eq!(state.suspend(), Suspend::Idle);
        assert_eq!(state.cancel(), Some(true));
        assert_eq!(state.cancel(), Some(false));
        assert_eq!(state.start(), Start::Cancelled);
        assert_eq!(state.complete(false, true), Completed::Published);
        assert_eq!(state.cancel(), None);
    }

    #[test]
    fn a_task_that_was_cancelled_in_its_last_step_says_so() {
        let state = State::new(true);
        assert_eq!(state.start(), Start::Go);
        assert_eq!(state.cancel(), Some(false));
        assert_eq!(state.complete(false, false), Completed::Cancelled);
        assert_eq!(state.complete(false, true), Completed::Published);
        let state = State::new(true);
        assert_eq!(state.cancel(), Some(false));
        assert_eq!(state.drop_handle(), HandleDropped::Nothing);
        assert_eq!(state.complete(false, false), Completed::Unwanted);
        assert_eq!(state.complete(true, false), Completed::Free);
    }

    #[test]
    fn only_a_sleeper_is_claimed() {
        let state = State::new(true);
        assert!(!state.claim_asleep());
        assert_eq!(state.suspend(), Suspend::Idle);
        assert!(state.claim_asleep());
        assert!(!state.claim_asleep());
        assert_eq!(state.complete(false, true), Completed::Published);
        assert!(!state.claim_asleep());
    }

    #[test]
    fn an_unwanted_result_is_dropped_by_the_runner() {
        let state = State::new(true);
        assert_eq!(state.drop_handle(), HandleDropped::Nothing);
        assert_eq!(state.complete(false, false), Completed::Unwanted);
        assert_eq!(state.complete(true, false), Completed::Free);
    }
}
