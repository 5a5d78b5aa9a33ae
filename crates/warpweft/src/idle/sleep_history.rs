//! What a worker remembers of its last sleeps, so that it knows beforehand whether the next one will be
//! short.

use std::cell::Cell;

/// The length of a brief park, and of the sleeps that are short, in nanoseconds.
pub(crate) const BRIEF_PARK_NS: u64 = 1_000_000;

/// The number of short sleeps in a row after which the next one is expected to be short.
const IN_A_ROW: u32 = 2;

/// The number of the last sleeps in a row that were short, and the end of the last one. Its owner is the
/// thread that carries the worker.
#[derive(Debug, Default)]
pub(crate) struct SleepHistory {
    short: Cell<u32>,
    woke_ns: Cell<u64>,
}

impl SleepHistory {
    /// Notes a sleep from `since_ns` to `now_ns`, at whose end there was something to do.
    pub(crate) fn slept(&self, since_ns: u64, now_ns: u64) {
        self.woke_ns.set(now_ns);
        let short = if now_ns.saturating_sub(since_ns) < BRIEF_PARK_NS {
            self.short.get().saturating_add(1)
        } else {
            0
        };
        self.short.set(short);
    }

    /// Returns the time at which the last sleep ended, or 0.
    pub(crate) fn woke_ns(&self) -> u64 {
        self.woke_ns.get()
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
            history.slept(5, 4 + BRIEF_PARK_NS);
        }
        assert!(history.expects_a_short_one());
        history.slept(5, 5 + BRIEF_PARK_NS);
        assert!(!history.expects_a_short_one());
        assert_eq!(history.woke_ns(), 5 + BRIEF_PARK_NS);
    }
}
