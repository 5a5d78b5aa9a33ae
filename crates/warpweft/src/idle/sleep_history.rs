//! What a worker remembers of its last sleeps, so that it knows beforehand whether the next one will be
//! short.

use std::cell::Cell;

/// The length of a brief park, and of the sleeps that are short, in nanoseconds.
pub(crate) const BRIEF_PARK_NS: u64 = 100_000;

/// The number of short sleeps in a row after which the next one is expected to be short.
const IN_A_ROW: u32 = 2;

/// The number of the last sleeps in a row that were short. Its owner is the thread that carries the worker.
#[derive(Debug, Default)]
pub(crate) struct SleepHistory {
    short: Cell<u32>,
}

impl SleepHistory {
    /// Notes a sleep of `ns` nanoseconds, at whose end there was something to do.
    pub(crate) fn slept(&self, ns: u64) {
        let short = if ns < BRIEF_PARK_NS {
            self.short.get().saturating_add(1)
        } else {
            0
        };
        self.short.set(short);
    }

    /// Returns true if the next sleep is likely to be short.
    pub(crate) fn expects_a_short_one(&self) -> bool {
        self.short.get() >= IN_A_ROW
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{BRIEF_PARK_NS, IN_A_ROW, SleepHistory};

    #[test]
    fn short_sleeps_in_a_row_promise_another() {
        let history = SleepHistory::default();
        for _ in 0..IN_A_ROW {
            assert!(!history.expects_a_short_one());
            history.slept(BRIEF_PARK_NS - 1);
        }
        assert!(history.expects_a_short_one());
        history.slept(BRIEF_PARK_NS);
        assert!(!history.expects_a_short_one());
    }
}
