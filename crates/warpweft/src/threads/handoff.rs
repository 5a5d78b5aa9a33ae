//! The word through which a thread without a worker is given one, and the sleep until then.
//!
//! Its states are drawn in `README.md` beside this file.
//!
//! # Invariants
//!
//! - A spare gets a worker only from the thread that took it out of the list of spares. An OPEN thread takes
//!   one from any thread, once. A BUSY one takes none: it looks at `called` and at its mailbox before it is
//!   OPEN or SPARE again.
//! - What a spare was assigned is taken out once: by its thread, or by the thread that assigned it and wants
//!   it back. The turn distinguishes that assignment from a later one, or an offer, of the same worker, which
//!   belongs to another thread.

use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::delay;
use warpweft_platform::park::Parker;

/// The thread carries a worker, or is not ready for one.
const BUSY: u32 = u32::MAX;
/// The thread is in the list of spares, or reserved.
const SPARE: u32 = u32::MAX - 1;
/// The thread takes a worker from any thread.
const OPEN: u32 = u32::MAX - 2;
/// The thread unwinds its fibers, and takes no worker any more.
const LAST: u32 = u32::MAX - 3;
/// The thread must continue without a worker: the pool closes.
const DETACHED: u32 = u32::MAX - 4;

/// The position of the turn in the word.
const TURN: u32 = 32;

/// An assignment, for the thread that may take it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Assigned(u64);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Handoff {
    word: AtomicU64,
    parker: Parker,
}

impl Handoff {
    /// Creates the word of a thread that will be given a worker by its creator.
    pub(crate) fn new() -> Self {
        Self::at_turn(0)
    }

    fn at_turn(turn: u32) -> Self {
        Self {
            word: AtomicU64::new(u64::from(turn) << TURN | u64::from(SPARE)),
            parker: Parker::new(),
        }
    }

    /// Gives a reserved spare a worker. `None` ends it.
    pub(crate) fn assign(&self, worker: Option<usize>) -> Assigned {
        // Ordering: Relaxed. No other thread changes the word of a spare, and the right to assign came with
        // the writes of its last holder.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(state_of(word), SPARE);
        let word = next_turn(word, worker);
        // Ordering: Release hands over what the giver did with the worker.
        self.word.store(word, Ordering::Release);
        delay::point("thread handle.assign: said");
        self.parker.unpark();
        Assigned(word)
    }

    /// Takes an assignment back. Returns true if the thread that sleeps here has not taken it up: it is a
    /// reserved spare again.
    pub(crate) fn take_back(&self, assigned: Assigned) -> bool {
        // Ordering: Relaxed. No other thread has touched the worker since the caller gave it away.
        self.word
            .compare_exchange(
                assigned.0,
                with_state(assigned.0, SPARE),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Changes the word if the state is `from`. Returns true if it was.
    fn change(&self, from: u32, to: impl Fn(u64) -> u64) -> bool {
        // Ordering: SeqCst; see `open` and `call`: either the giver finds the thread OPEN, or the thread sees
        // that it was called.
        self.word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
                (state_of(word) == from).then(|| to(word))
            })
            .is_ok()
    }

    /// Sets the calling thread's own state. No other thread may give it a worker meanwhile.
    fn set_state(&self, state: u32) {
        let word = self.word.load(Ordering::Relaxed);
        // Ordering: SeqCst, as in `change`.
        self.word.store(with_state(word, state), Ordering::SeqCst);
    }

    /// Gives an OPEN thread a worker. `None` lets it continue without one. Returns true if it takes it.
    pub(crate) fn offer(&self, worker: Option<usize>) -> bool {
        // A new turn: the same worker may have been assigned to the thread before, and the giver may still
        // try to take it back.
        let given = |word| next_turn(word, worker);
        let taken = self.change(OPEN, given) || worker.is_none() && self.change(LAST, given);
        if taken {
            delay::point("thread handle.offer: said");
            self.parker.unpark();
        }
        taken
    }

    /// Opens the word: the thread will wait, and takes a worker from any thread.
    pub(crate) fn open(&self) {
        self.set_state(OPEN);
    }

    /// Closes the word: the thread does not wait after all. Returns `false` if it was given a worker
    /// meanwhile.
    pub(crate) fn close(&self) -> bool {
        self.change(OPEN, |word| with_state(word, BUSY))
    }

    /// Notes that the thread enters itself in the list of spares, or was not wanted there.
    pub(crate) fn list(&self, as_spare: bool) {
        self.set_state(if as_spare { SPARE } else { BUSY });
    }

    /// Sleeps until the thread is given a worker, or `None`.
    pub(crate) fn wait(&self) -> Option<usize> {
        loop {
            self.parker.park();
            if let Some(given) = self.take() {
                return given;
            }
        }
    }

    /// Waits like `wait`, for about `ns` nanoseconds at most; under the checkers it does not sleep. The outer
    /// `None` means that nothing was given.
    pub(crate) fn wait_for(&self, ns: u64) -> Option<Option<usize>> {
        while self.parker.wait_for(ns) {
            self.parker.park();
            let given = self.take();
            if given.is_some() {
                return given;
            }
        }
        None
    }

    fn take(&self) -> Option<Option<usize>> {
        let word = self.word.load(Ordering::Relaxed);
        let given = state_of(word);
        if matches!(given, BUSY | OPEN | LAST | SPARE) {
            return None;
        }
        // Ordering: Acquire pairs with `assign` and `offer`. If it fails, the assignment was taken back.
        let taken =
            self.word
                .compare_exchange(word, with_state(word, BUSY), Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| (given != DETACHED).then_some(given as usize))
    }

    /// Notes that the thread unwinds its fibers and takes no worker any more.
    pub(crate) fn last(&self) {
        self.set_state(LAST);
    }

    /// Returns true if the thread is in the list of spares, or reserved.
    pub(crate) fn is_spare(&self) -> bool {
        state_of(self.word.load(Ordering::Relaxed)) == SPARE
    }

    /// Returns true if the thread waits nowhere, and is no spare: a frame of it may open the word. On the
    /// thread itself.
    pub(crate) fn is_busy(&self) -> bool {
        state_of(self.word.load(Ordering::Relaxed)) == BUSY
    }

    /// Returns true if the thread takes a worker from any thread.
    pub(crate) fn is_open(&self) -> bool {
        state_of(self.word.load(Ordering::SeqCst)) == OPEN
    }
}

fn state_of(word: u64) -> u32 {
    word as u32
}

fn with_state(word: u64, state: u32) -> u64 {
    word >> TURN << TURN | u64::from(state)
}

/// Returns the word for `worker` with the next turn.
fn next_turn(word: u64, worker: Option<usize>) -> u64 {
    let turn = ((word >> TURN) as u32).wrapping_add(1);
    u64::from(turn) << TURN | u64::from(number(worker))
}

/// Returns the state that means: you have this worker, or none.
fn number(worker: Option<usize>) -> u32 {
    // A pool has 4096 workers at most.
    worker.map_or(DETACHED, |worker| worker as u32)
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Handoff;

    #[test]
    fn what_was_taken_back_is_not_there() {
        let handoff = Handoff::new();
        let first = handoff.assign(Some(3));
        assert!(handoff.take_back(first));
        assert!(!handoff.take_back(first));
        // The wake-up of the assignment is still there. It does not count.
        assert_eq!(handoff.wait_for(1_000), None);
        handoff.assign(Some(4));
        assert_eq!(handoff.wait_for(u64::MAX), Some(Some(4)));
        handoff.list(true);
        handoff.assign(None);
        assert_eq!(handoff.wait(), None);
    }

    #[test]
    fn a_later_assignment_of_the_same_worker_is_somebody_elses() {
        for turn in [0, u32::MAX - 1, u32::MAX] {
            let handoff = Handoff::at_turn(turn);
            let mine = handoff.assign(Some(0));
            assert_eq!(handoff.wait(), Some(0));
            assert!(!handoff.take_back(mine));
            handoff.list(true);
            let theirs = handoff.assign(Some(0));
            assert_ne!(mine, theirs);
            assert!(!handoff.take_back(mine));
            assert_eq!(handoff.wait(), Some(0));
        }
    }

    #[test]
    fn an_offer_of_the_same_worker_is_somebody_elses() {
        let handoff = Handoff::new();
        let mine = handoff.assign(Some(0));
        assert_eq!(handoff.wait(), Some(0));
        // The thread blocks again, and the thread that carries that worker wakes it.
        handoff.open();
        assert!(handoff.offer(Some(0)));
        assert!(!handoff.take_back(mine));
        assert_eq!(handoff.wait(), Some(0));
    }

    #[test]
    fn only_a_thread_that_is_open_takes_what_is_offered() {
        let handoff = Handoff::new();
        assert!(!handoff.offer(Some(1)));
        handoff.assign(Some(2));
        assert!(!handoff.offer(Some(1)));
        assert_eq!(handoff.wait(), Some(2));
        handoff.open();
        assert!(handoff.is_open() && handoff.offer(Some(1)) && !handoff.offer(Some(3)));
        assert!(!handoff.close());
        assert_eq!(handoff.wait(), Some(1));
        handoff.open();
        assert!(handoff.close() && !handoff.offer(Some(1)));
        handoff.last();
        assert!(!handoff.offer(Some(1)) && handoff.offer(None));
        assert_eq!(handoff.wait(), None);
    }
}
