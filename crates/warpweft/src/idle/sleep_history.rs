//! What a worker remembers of its last sleeps, so that it knows beforehand whether the next one will be
//! short.

use std::cell::Cell;

/// The length of a brief park, and of the sleeps that are short, in nanoseconds.
pub(crate) const BRIEF_PARK_NS: u64 = 1_000_000;

/// From this length on, in nanoseconds, a sleep is long: a search of that length would cost far more than to
/// fall asleep and be woken.
const LONG_NS: u64 = 100_000;

/// The number of sleeps of one kind in a row after which the next one is expected to be of that kind.
const IN_A_ROW: u32 = 2;

/// The numbers of the last sleeps in a row that were short, and that were long, and the end of the last one.
/// Its owner is the thread that carries the worker.
#[derive(Debug, Default)]
pub(crate) struct SleepHistory {
    short: Cell<u32>,
    long: Cell<u32>,
    woke_ns: Cell<u64>,
}

/// Counts sleeps of one kind in a row.
fn count(in_a_row: &Cell<u32>, one_more: bool) {
    in_a_row.set(if one_more {
        in_a_row.get().saturating_add(1)
    } else {
        0
    });
}

impl SleepHistory {
    /// Notes a sleep from `since_ns` to `now_ns`, at whose end there was something to do.
    pub(crate) fn slept(&self, since_ns: u64, now_ns: u64) {
        self.woke_ns.set(now_ns);
        let length_ns = now_ns.saturating_sub(since_ns);
        count(&self.short, length_ns < BRIEF_PARK_NS);
        count(&self.long, length_ns >= LONG_NS);
    }

    /// Returns the time at which the last sleep ended, or 0.
    pub(crate) fn woke_ns(&self) -> u64 {
        self.woke_ns.get()
    }

    /// Returns true if the next sleep is likely to be short.
    pub(crate) fn expects_a_short_one(&self) -> bool {
        self.short.get() >= IN_A_ROW
    }

    /// Returns true if the next sleep is likely to be long, so that a search before it is in vain.
    pub(crate) fn expects_a_long_one(&self) -> bool {
        self.long.get() >= IN_A_ROW
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{BRIEF_PARK_NS, IN_A_ROW, LONG_NS, SleepHistory};

    #[test]
    fn short_sleeps_in_a_row_promise_another() {
        let history = SleepHistory::default();
        for _ in 0..IN_A_ROW {
            assert!(!history.expects_a_short_one());
            history.slept(5, 4 + BRIEF_PARK_NS);
        }
        assert!(history.expects_a_short_one());
        history.slept(5, 5 + BRIEF_PARK_NS);
        assert!(!history.expects_a_short_one());
        assert_eq!(history.woke_ns(), 5 + BRIEF_PARK_NS);
    }

    #[test]
    fn long_sleeps_in_a_row_promise_another() {
        let history = SleepHistory::default();
        for _ in 0..IN_A_ROW {
            assert!(!history.expects_a_long_one());
            history.slept(5, 5 + LONG_NS);
        }
        assert!(
            history.expects_a_long_one() && history.expects_a_short_one(),
            "both may hold"
        );
        history.slept(5, 4 + LONG_NS);
        assert!(!history.expects_a_long_one());
    }
}
