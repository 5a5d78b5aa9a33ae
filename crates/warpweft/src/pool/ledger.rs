//! The ledger: the number of tasks that a policy still holds when its pool has ended. The pool's memory stays
//! until that number is zero.
//!
//! ```text
//!   pushed: worker's counters, accesses ──┐
//!                                       ├── held = pushed − taken ──settle──▶ owed ──0──▶ the memory may go
//!   taken: worker's counters ───────────┘                                      ▲
//!   dropped by the policy, at any time ────────────────────────────────────────┘ −1 each
//! ```
//!
//! A policy is safe code that owns its `TaskRef`s. It may keep one in a `static`, or hand it to another
//! thread, and drop it long after the pool. A dropped `TaskRef` asks its pool to end the task, so the pool's
//! memory must be there. Each transition into and out of the policy's hands is counted already, in counters
//! of the worker that a policy cannot change ([`Count::is_of_pool`](warpweft_policy::Count::is_of_pool)). So
//! the ledger costs nothing per task: the sum is made once, at the end.
//!
//! # Invariants
//!
//! - The pool keeps itself alive from before its policy's state is dropped until `owed` is 0 after `settle`.
//! - Until `settle`, `owed` is never above 0. So afterwards only one of `settle` and the calls of
//!   `release_one` finds it at 0.
//! - `release_one` is its caller's last touch of the pool.

use warpweft_platform::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Ledger {
    /// A signed number, in two's complement. Before `settle`: minus the number of tasks that the policy has
    /// dropped. Afterwards: the number of tasks that the pool waits for.
    owed: AtomicU64,
    /// From here on a thread that drops a task must end it itself.
    over: AtomicBool,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            owed: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Announces that the pool is about to look for the last time at what its policy has dropped.
    pub(crate) fn set_over(&self) {
        self.over.store(true, Ordering::Relaxed);
        // Dekker: the pool writes `over` and looks at what was dropped; a thread that drops a task does the
        // reverse.
        fence(Ordering::SeqCst);
    }

    /// Returns true if the caller, which has dropped a task before, must end it.
    pub(crate) fn is_over(&self) -> bool {
        // Pairs with the fence in `set_over`.
        fence(Ordering::SeqCst);
        self.over.load(Ordering::Relaxed)
    }

    /// Releases one task, or one [orphaned](super::owned_tasks::OwnedTasks::orphan) shard. Returns true if it
    /// was the last one: then the caller lets the pool go.
    #[must_use]
    pub(crate) fn release_one(&self) -> bool {
        // Ordering: Release, so that the thread that lets the pool go sees all that was done to it; Acquire,
        // because the caller may be that thread.
        self.owed.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Returns the number of tasks that the policy holds now, if it was given `held` in all that no worker
    /// took.
    pub(crate) fn remaining(&self, held: i64) -> i64 {
        held.wrapping_add(self.owed.load(Ordering::Acquire) as i64)
    }

    /// Settles the ledger, once, when the pool has ended. `held` tasks were not taken by workers, and
    /// `orphaned` shards have entries left. Returns what is left of both.
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
    fn what_came_back_before_the_end_is_not_waited_for() {
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
