//! Where a thread without a worker sleeps until it is given one.
//!
//! ```text
//!    bits 63..32: turn                    bits 31..0: worker
//!   ┌────────────────────────────────────┬─────────────────────────────────────┐
//!   │ how often something was assigned   │ a number, NOTHING, or ADRIFT        │
//!   └────────────────────────────────────┴─────────────────────────────────────┘
//!       assign(w): turn + 1, w        wait: w ─▶ NOTHING        take_back: w ─▶ NOTHING, if the turn is still the same
//! ```
//!
//! # Invariants
//!
//! - Only one thread at a time has the right to assign here: who reserved the spare thread, or who runs the blocked
//!   thread's token.
//! - What was assigned is taken out once: by the thread that sleeps here, or by who assigned it and wants it back. The turn
//!   tells the own assignment from a later one of the same worker, which is somebody else's.

use std::sync::Arc;
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::delay;
use warpweft_platform::park::Parker;

/// Nothing was assigned yet.
const NOTHING: u64 = 0xffff_ffff;
/// Go on without a worker.
const ADRIFT: u64 = NOTHING - 1;
const TURN: u32 = 32;

#[derive(Debug)]
pub(crate) struct Berth {
    word: AtomicU64,
    parker: Parker,
}

/// An assignment, for who wants it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Assigned(u64);

impl Berth {
    pub(crate) fn new() -> Arc<Self> {
        Self::at_turn(0)
    }

    fn at_turn(turn: u32) -> Arc<Self> {
        Arc::new(Self {
            word: AtomicU64::new(u64::from(turn) << TURN | NOTHING),
            parker: Parker::new(),
        })
    }

    /// Gives the thread a worker, or `None`: it is to go on, or to end, without one. At most once per `wait`, except that
    /// what was [taken back](Self::take_back) does not count.
    pub(crate) fn assign(&self, worker: Option<usize>) -> Assigned {
        // Ordering: Relaxed. The turn changes here only, and the right to assign came with what the one before did.
        let turn = (self.word.load(Ordering::Relaxed) >> TURN) as u32;
        let worker = worker.map_or(ADRIFT, |worker| worker as u64);
        let word = u64::from(turn.wrapping_add(1)) << TURN | worker;
        // Ordering: Release hands over what the giver did with the worker. A store would do, but loom does not know that it
        // comes after the `fetch_or` that found nothing.
        self.word.swap(word, Ordering::Release);
        delay::point("berth.assign: said");
        self.parker.unpark();
        Assigned(word)
    }

    /// Sleeps until `assign`.
    pub(crate) fn wait(&self) -> Option<usize> {
        loop {
            self.parker.park();
            if let Some(assigned) = self.take() {
                return assigned;
            }
        }
    }

    /// The same for about `ns` nanoseconds at most; under the checkers it does not sleep. The outer `None`: nothing was assigned.
    pub(crate) fn wait_for(&self, ns: u64) -> Option<Option<usize>> {
        while self.parker.wait_for(ns) {
            self.parker.park();
            let assigned = self.take();
            if assigned.is_some() {
                return assigned;
            }
        }
        None
    }

    /// What was assigned, if it was.
    fn take(&self) -> Option<Option<usize>> {
        // Ordering: Acquire pairs with `assign`. The turn stays.
        match self.word.fetch_or(NOTHING, Ordering::Acquire) & NOTHING {
            NOTHING => None,
            ADRIFT => Some(None),
            worker => Some(Some(worker as usize)),
        }
    }

    /// Takes an assignment back: true if the thread that sleeps here has not taken it up. It sleeps on then.
    pub(crate) fn take_back(&self, assigned: Assigned) -> bool {
        // Ordering: Relaxed. Nobody has touched the worker since the caller gave it away.
        self.word
            .compare_exchange(
                assigned.0,
                assigned.0 | NOTHING,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Berth;

    #[test]
    fn what_was_taken_back_is_not_there() {
        let berth = Berth::new();
        let first = berth.assign(Some(3));
        assert!(berth.take_back(first));
        assert!(!berth.take_back(first));
        // The token of the assignment is still there: it does not count.
        assert_eq!(berth.wait_for(1_000), None);
        berth.assign(Some(4));
        assert_eq!(berth.wait_for(u64::MAX), Some(Some(4)));
        berth.assign(None);
        assert_eq!(berth.wait(), None);
    }

    #[test]
    fn a_later_assignment_of_the_same_worker_is_somebody_elses() {
        for turn in [0, u32::MAX - 1, u32::MAX] {
            let berth = Berth::at_turn(turn);
            let mine = berth.assign(Some(0));
            assert_eq!(berth.wait(), Some(0));
            assert!(!berth.take_back(mine));
            let theirs = berth.assign(Some(0));
            assert_ne!(mine, theirs);
            assert!(!berth.take_back(mine));
            assert_eq!(berth.wait(), Some(0));
        }
    }
}
