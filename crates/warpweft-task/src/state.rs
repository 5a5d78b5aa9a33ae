//! The state word of a task: all facts about it that two threads may change at the same time.
//!
//! The word, its flags and the states are drawn in `README.md` beside this file.
//!
//! # Invariants
//!
//! - Exactly one *runnable* (a `TaskRef`, or a step under way) exists while QUEUED or RUNNING is set. It
//!   holds one reference. No runnable exists while neither is set.
//! - A wake that finds QUEUED still performs a read-modify-write. What the waker wrote before must be visible
//!   to the step that follows, and only a release that `start` acquires makes it so.
//! - The handle sets WAKER, and only while COMPLETE is clear. While it is set the handle does not write the
//!   waker field; the thread that sets COMPLETE over it owns the waker.
//! - A task whose cancellation was granted before its end never reports that it returned.
//! - The reference count never reaches zero on an unfinished task: the last reference becomes a runnable that
//!   cancels it.

mod joiner;
pub(crate) mod look;
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::clock::{STAMP_BITS, stamp_less_one};
use warpweft_platform::hint::cold_path;

/// The runnable is in a queue, or on its way there.
const QUEUED: u64 = 1 << 0;
/// A step is under way, or the task has never run.
const RUNNING: u64 = 1 << 1;
/// It was woken while RUNNING: it is pushed again when the step ends.
const NOTIFIED: u64 = 1 << 2;
/// It has ended; the result is in its place.
const COMPLETE: u64 = 1 << 3;
/// A join handle exists; it owns the result after the end.
const HANDLE: u64 = 1 << 4;
/// The waker field holds the joiner's waker.
const WAKER: u64 = 1 << 5;
/// Its cancellation was requested.
const CANCELLED: u64 = 1 << 6;
const REFERENCE: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct State(AtomicU64);

/// What the holder of the runnable does when it starts a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Go,
    Cancelled,
}

/// What happens to the runnable of a task whose step left it pending.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Suspend {
    /// It is asleep; the runnable is gone.
    Idle,
    /// It was woken meanwhile: the runnable is pushed again.
    Again,
    /// No reference is left that could wake or join it: the caller cancels it with the runnable.
    Orphan,
}

/// What the caller must do after it dropped a reference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    Nothing,
    /// It was the last one and the task has ended.
    Free,
    /// It was the last one and the task sleeps: the reference became a runnable, to be pushed and cancelled.
    Orphan,
}

/// What the caller must do after it dropped the handle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandleDropped {
    Nothing,
    /// The task has ended: the caller drops the result, and then the handle's reference.
    Ended,
    /// The caller clears the waker field, and then drops the handle's reference.
    TakeWaker,
    /// The reference became a runnable, as in [`Dropped::Orphan`].
    Orphan,
}

/// What the caller must do after a wake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Nothing,
    /// The caller has a runnable now and pushes it.
    Push,
    /// The waker was the last reference to a task that has ended.
    Free,
}

/// What the thread that ends a task must do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// The reference is given up; touch the task no more.
    Published,
    /// The reference was the last one.
    Free,
    /// The caller owns the joiner's waker now, and still holds the reference.
    Wake,
    /// The handle went away: drop the result first, then complete again.
    Unwanted,
    /// Its cancellation was requested and its handle exists: record the cancellation, then complete again.
    Cancelled,
}

/// The outcome of the fast way to end a task: one load and one attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The runnable's is the only reference, and there is no handle. Nothing was changed; the caller frees
    /// the task.
    Sole,
    /// As [`Completed::Published`].
    Published,
    /// As [`Completed::Wake`].
    Wake,
    /// More work is left, or the word has changed. Nothing was changed, and [`State::complete`] does it.
    Otherwise,
}

fn references(state: u64) -> u64 {
    state >> 32
}

fn ended(state: u64) -> u64 {
    state & !(QUEUED | RUNNING | NOTIFIED) | COMPLETE
}

/// Takes away RUNNING and one reference, and notes the time.
#[inline]
fn asleep(state: u64) -> u64 {
    (state & !(RUNNING | u64::from(STAMP_BITS))).wrapping_add(stamp_less_one())
}

impl State {
    /// A fresh task: one runnable, and a handle if `handle`.
    pub(crate) fn new(handle: bool) -> Self {
        Self(AtomicU64::new(if handle {
            RUNNING | HANDLE | (2 * REFERENCE)
        } else {
            RUNNING | REFERENCE
        }))
    }

    /// Returns true if its cancellation was requested. For the holder of the runnable the answer is final;
    /// for others it is a hint.
    pub(crate) fn is_cancelled(&self) -> bool {
        // Ordering: Relaxed; cancelling hands nothing over.
        self.0.load(Ordering::Relaxed) & CANCELLED != 0
    }

    pub(crate) fn is_complete(&self) -> bool {
        // Ordering: Acquire pairs with the release in `complete`, so that the result may be read.
        self.0.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// The holder of the runnable starts a step.
    pub(crate) fn start(&self) -> Start {
        // Ordering: only the holder of the runnable clears QUEUED, so a relaxed load is exact in that bit.
        let mut state = self.0.load(Ordering::Relaxed);
        if state & QUEUED != 0 {
            // Clears QUEUED and sets RUNNING.
            // Ordering: Acquire pairs with the release of every wake, also of one that found it QUEUED.
            state = self.0.fetch_add(RUNNING - QUEUED, Ordering::Acquire);
        }
        if state & CANCELLED != 0 {
            Start::Cancelled
        } else {
            Start::Go
        }
    }

    /// Returns true if the running task was woken already, so its suspension need not be reported.
    pub(crate) fn is_notified(&self) -> bool {
        // Ordering: a hint; `suspend` decides.
        self.0.load(Ordering::Relaxed) & NOTIFIED != 0
    }

    /// The step left the task pending.
    #[inline]
    pub(crate) fn suspend(&self) -> Suspend {
        let state = self.0.load(Ordering::Acquire);
        // Mostly no other thread touches the word. So there is one attempt here, and the loop is out of line.
        if state & NOTIFIED != 0 {
            // The task stays RUNNING and not QUEUED until we change that.
            // Ordering: as in `suspend_anyhow`.
            self.0.fetch_sub(NOTIFIED + RUNNING - QUEUED, Ordering::AcqRel);
            return Suspend::Again;
        }
        if state < 2 * REFERENCE {
            cold_path();
            return self.suspend_anyhow();
        }
        let asleep = asleep(state);
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
                // No other thread has a reference, so no thread can change the word: it stays RUNNING.
                return Suspend::Orphan;
            } else {
                (asleep(state), Suspend::Idle)
            };
            // Ordering: Release hands the future to the thread that starts the next step; Acquire takes what
            // the wakers that set NOTIFIED wrote.
            match self
                .0
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return outcome,
                Err(now) => state = now,
            }
        }
    }

    /// Consumes a waker; its reference becomes the runnable's where one is needed.
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
            // Mostly the task sleeps: test for that first.
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

    /// Wakes without consuming the waker. Returns true if the caller has a runnable now and must push it.
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

    /// Requests cancellation. `Some(true)`: the task slept, and the caller has a runnable now and must push
    /// it. `None`: it had ended.
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

    /// Returns true if the task slept: the caller, its pool, has a runnable now and ends the task.
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
        // Ordering: Relaxed; a new reference is made from one that exists, and nothing needs to be seen.
        let before = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        if references(before) >= u64::from(u32::MAX) / 2 {
            // Two thousand million live wakers of one task are a leak; wrapping would be a use after free.
            std::process::abort();
        }
    }

    /// Drops the handle, and its reference where that can be done at once.
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
                // This is the only reference, and a runnable has one: so the task sleeps. The reference
                // becomes a runnable.
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

    /// Gives up a reference that is not the runnable's.
    pub(crate) fn drop_reference(&self) -> Dropped {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            let (next, outcome) = if references(state) > 1 {
                (state - REFERENCE, Dropped::Nothing)
            } else if state & COMPLETE != 0 {
                // This is the only reference: no other thread can touch the word.
                return Dropped::Free;
            } else {
                // As in `drop_handle`: the task sleeps, and the reference becomes a runnable.
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

    /// Ends the task with one load and one attempt, if nothing else is left to do. The caller holds the
    /// runnable, and the result is in its place.
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

    /// Ends the task. The caller holds the runnable. The result is in its place, or dropped if `unwanted`.
    /// `cancelled`: the task records that it was cancelled, or why else it has no result.
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

    /// The next state and the outcome when a task with a handle ends.
    #[inline]
    fn completed(state: u64) -> (u64, End) {
        if state & WAKER != 0 {
            (ended(state), End::Wake)
        } else {
            (ended(state) - REFERENCE, End::Published)
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
    fn the_last_suspension_is_noted_and_nothing_else_is_changed() {
        use warpweft_platform::clock::{now_ns, stamp};
        let state = State::new(true);
        for _ in 0..5 {
            state.add_reference();
            let _ = now_ns();
            let before = stamp();
            assert_eq!(state.suspend(), Suspend::Idle);
            let seen = state.look_on();
            assert!(!seen.running && !seen.queued && !seen.complete && !seen.cancelled);
            assert_eq!(seen.wakers, 1);
            let noted = seen.stamped & STAMP_BITS;
            assert!(noted != 0 && [before, stamp()].contains(&noted), "{noted:#x}");
            assert_eq!(state.wake_by_value(), Woken::Push);
            assert_eq!(state.start(), Start::Go);
        }
        assert_eq!(state.complete(false, false), Completed::Published);
        assert_eq!(state.drop_reference(), Dropped::Free);
    }

    #[test]
    fn the_last_reference_to_a_sleeping_task_becomes_a_runnable() {
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
