//! How long a step of a task takes, by the code that the task runs.
//!
//! ```text
//!   code of a task ──hash──▶ entry:  │ part of the code : 32 │ expected nanoseconds : 32 │
//! ```
//!
//! Two codes that share an entry displace each other. A code without an entry is unknown. A program in which
//! no library is loaded at run time places its codes alike in all of its processes.
//!
//! # Invariants
//!
//! - All here are hints: an entry that another worker has just changed, or that two workers change at once,
//!   costs a task its best place and nothing else.
//! - A sample counts a sixteenth, and as sixteen times the expected time at most: a step from which the
//!   system took the CPU away doubles the expected time at most.

use warpweft_platform::counter::Gauge;

const ENTRIES: usize = 256;
/// From this expected time on a code is long, in nanoseconds.
pub(super) const LONG_NS: u64 = 1 << 15;
/// After a step of a long code the workers ask for what is expected for this many times as long as such a
/// step takes. A code that comes more seldom makes less than one task in sixty wait, whatever the order.
pub(super) const KEPT_TIMES: u64 = 64;
/// But for so long at most, in nanoseconds.
pub(super) const KEPT_NS: u64 = 1_000_000_000;
/// By how many bits a sample counts less than what is known.
const WEIGHT_BITS: u32 = 4;
/// A sample counts as this many times the expected time at most.
const MOST: u64 = 16;

pub(super) struct StepTimes {
    entries: Box<[Gauge]>,
    /// Until when a long code may come again, on the workers' clock; 0 before the first one.
    long_until_ns: Gauge,
}

impl StepTimes {
    pub(super) fn new() -> Self {
        let entries = (0..ENTRIES).map(|_| Gauge::new()).collect();
        Self {
            entries,
            long_until_ns: Gauge::new(),
        }
    }

    /// Returns true if some code was found to be long lately: [`KEPT_TIMES`] times its length ago at most,
    /// and [`KEPT_NS`].
    pub(super) fn any_long(&self, now_ns: u64) -> bool {
        now_ns < self.long_until_ns.get()
    }

    /// Returns the entry of a code, and what the entry has of it.
    #[inline]
    fn place(&self, code: usize) -> (&Gauge, u64) {
        // The distance from a function of this library is the same in each process of a program, wherever the
        // system loads it. So a simulated run can be repeated.
        let code = code.wrapping_sub(Self::new as fn() -> Self as usize);
        // Fibonacci hashing: the upper bits depend on all bits of the distance.
        let hash = (code as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let entry = &self.entries[(hash >> (u64::BITS - ENTRIES.ilog2())) as usize];
        (entry, hash & u64::from(u32::MAX) | 1)
    }

    /// Returns the expected time of a step of that code in nanoseconds; `None` if it is unknown.
    #[inline]
    pub(super) fn expected(&self, code: usize) -> Option<u64> {
        let (entry, part) = self.place(code);
        let value = entry.get();
        (value >> u32::BITS == part).then_some(value & u64::from(u32::MAX))
    }

    /// Learns that a step of that code took so many nanoseconds until now. Returns true if the code is long.
    pub(super) fn learn(&self, code: usize, took_ns: u64, now_ns: u64) -> bool {
        let expected = match self.expected(code) {
            None => took_ns,
            Some(before) => {
                let sample = took_ns.min(before.max(MOST).saturating_mul(MOST));
                before - (before >> WEIGHT_BITS) + (sample >> WEIGHT_BITS)
            }
        };
        let is_long = expected >= LONG_NS;
        if is_long {
            let until_ns = now_ns.saturating_add(expected.saturating_mul(KEPT_TIMES).min(KEPT_NS));
            if until_ns > self.long_until_ns.get() {
                self.long_until_ns.set(until_ns);
            }
        }
        let (entry, part) = self.place(code);
        let most = u64::from(u32::MAX);
        entry.set(part << u32::BITS | expected.min(most));
        is_long
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{ENTRIES, KEPT_NS, KEPT_TIMES, LONG_NS, StepTimes};

    #[test]
    fn the_first_sample_is_what_is_expected() {
        let times = StepTimes::new();
        assert_eq!(times.expected(0x1000), None);
        times.learn(0x1000, 20_000_000, 1);
        assert_eq!(times.expected(0x1000), Some(20_000_000));
        assert_eq!(times.expected(0x1008), None);
    }

    #[test]
    fn one_long_step_doubles_it_at_most_and_many_prevail() {
        let times = StepTimes::new();
        times.learn(8, 1600, 1);
        times.learn(8, u64::MAX, 1);
        assert!(
            times.expected(8) <= Some(2 * 1600 + 1600),
            "{:?}",
            times.expected(8)
        );
        for _ in 0..200 {
            times.learn(8, 1_000_000, 1);
        }
        assert!(times.expected(8) > Some(900_000), "{:?}", times.expected(8));
        for _ in 0..200 {
            times.learn(8, 1600, 1);
        }
        assert!(times.expected(8) < Some(2 * 1600), "{:?}", times.expected(8));
    }

    #[test]
    fn the_last_long_one_is_noted_for_a_while() {
        let times = StepTimes::new();
        assert!(!times.learn(8, LONG_NS - 1, 5));
        assert!(!times.any_long(5));
        assert!(times.learn(16, LONG_NS, 7));
        let until = 7 + KEPT_TIMES * LONG_NS;
        assert!(times.any_long(7) && times.any_long(until - 1));
        assert!(!times.any_long(until));
        assert!(!times.learn(8, 1, until));
        assert!(!times.any_long(until), "a short one is none");
        assert!(times.learn(24, u64::MAX, until));
        assert!(times.learn(16, LONG_NS, until), "does not shorten it");
        assert!(times.any_long(until + KEPT_NS - 1) && !times.any_long(until + KEPT_NS));
    }

    #[test]
    fn times_without_a_measure_and_the_longest_are_kept() {
        let times = StepTimes::new();
        times.learn(8, 0, 1);
        assert_eq!(times.expected(8), Some(0));
        for _ in 0..100 {
            times.learn(8, 1000, 1);
        }
        assert!(times.expected(8) > Some(500), "it does not stay at nothing");
        times.learn(16, u64::MAX, 1);
        assert!(times.expected(16) > Some(4_000_000_000), "it does not wrap");
    }

    #[test]
    fn many_codes_displace_and_never_mix() {
        let times = StepTimes::new();
        for code in 1..=4 * ENTRIES {
            times.learn(code * 8, code as u64, 1);
        }
        let known = (1..=4 * ENTRIES).filter(|code| match times.expected(code * 8) {
            None => false,
            Some(expected) => {
                assert_eq!(expected, *code as u64);
                true
            }
        });
        assert!(known.count() > ENTRIES / 2);
    }
}
