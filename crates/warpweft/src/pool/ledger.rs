//! The ledger: how many tasks a pool's policy still holds when the pool has ended, and for how long its
//! memory must stay.
//!
//! ```text
//!   pushed: worker's counters, accesses ──┐
//!                                       ├── held = pushed − taken ──settle──▶ owed ──0──▶ the memory may go
//!   taken: worker's counters ───────────┘                                      ▲
//!   dropped by the policy, at any time ────────────────────────────────────────┘ −1 each
//! ```
//!
//! A policy is safe code that owns its tokens: it may keep one in a `static`, or hand it to another thread,
//! and drop it long after the pool. A dropped token asks its pool to end the task, so the pool's memory must
//! be there. Each way of a token into the policy's hands and out of them is counted already, in counters of
//! the worker that a policy cannot change ([`Count::is_of_pool`](warpweft_policy::Count::is_of_pool)). So
//! this costs nothing on a task's way: the sum is made once, at the end.
//!
//! # Invariants
//!
//! - The pool keeps itself alive from before its policy's state is dropped until `owed` is 0 after `settle`.
//! - Until `settle`, `owed` is never above 0: so only one of `settle` and the calls of `release_one` finds it
//!   at 0 afterwards.
//! - `release_one` is the last touch of the pool by who calls it.

use warpweft_platform::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Ledger {
    /// A number with a sign, in two's complement. Before `settle`: minus the tokens that the policy has
    /// dropped. Afterwards: how many the pool waits for.
    owed: AtomicU64,
    /// Nothing ends what the policy drops from here on but who drops it.
    over: AtomicBool,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            owed: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// The pool looks for the last time at what its policy has dropped, after this.
    pub(crate) fn set_over(&self) {
        self.over.store(true, Ordering::Relaxed);
        // Dekker: the pool writes `over` and looks at what was dropped; who drops, the other way round.
        fence(Ordering::SeqCst);
    }

    /// Whether who has dropped a task, before this was called, has to see to its end.
    pub(crate) fn is_over(&self) -> bool {
        // Pairs with the fence in `set_over`.
        fence(Ordering::SeqCst);
        self.over.load(Ordering::Relaxed)
    }

    /// One token, or one [orphaned](super::register::Register::orphan) shard, is not waited for any more.
    /// True: it was the last one, and the caller lets the pool go.
    #[must_use]
    pub(crate) fn release_one(&self) -> bool {
        // Ordering: Release, so that who lets the pool go sees all that was done to it; Acquire for being
        // that one.
        self.owed.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// How many tokens the policy holds now that it was given `held` in all which no worker took.
    pub(crate) fn remaining(&self, held: i64) -> i64 {
        held.wrapping_add(self.owed.load(Ordering::Acquire) as i64)
    }

    /// The pool has ended: `held` tokens were not taken by workers, and so many shards are orphaned. What is
    /// left of both.
    ///
    /// Called once.
    pub(crate) fn settle(&self, held: i64, orphaned: usize) -> i64 {
        let owed = held + i64::try_from(orphaned).unwrap_or(i64::MAX / 2);
        // Ordering: as in `release_one`.
        let before = self.owed.fetch_add(owed as u64, Ordering::AcqRel);
        owed.wrapping_add(before as i64)
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Ledger;

    #[test]
    fn what_came_home_before_the_end_is_not_waited_for() {
        let ledger = Ledger::new();
        assert!(!ledger.release_one() && !ledger.release_one());
        assert_eq!(ledger.remaining(2), 0);
        assert_eq!(ledger.settle(2, 0), 0);
    }

    #[test]
    fn the_last_one_lets_the_pool_go() {
        let ledger = Ledger::new();
        assert!(!ledger.release_one());
        assert_eq!(ledger.settle(3, 1), 3);
        assert!(!ledger.release_one() && !ledger.release_one());
        assert!(ledger.release_one());
    }
}
