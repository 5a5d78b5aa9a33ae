//! A cheap clock for stamps: the processor's time-stamp counter where it can be trusted.
//!
//! # Invariants
//!
//! - A stamp means nothing by itself. [`Scale`] turns stamps into nanoseconds of [`now_ns`].
//! - The counter is used only if the processor says that it runs at a constant rate in all of its states.
//!   Linux keeps the counters of all CPUs equal, or the processor does not say so.

use crate::clock::now_ns;

/// The clock of stamps of this process. It is a plain value, so that reading it needs no static.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickClock {
    counter: bool,
}

impl TickClock {
    /// Asks the processor which clock there is. Costs up to 0.1 µs, or more in a virtual machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counter: cfg!(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim, miri))) && has_counter(),
        }
    }

    /// Returns a stamp. Costs 5 to 10 ns with the processor's counter, otherwise as [`now_ns`].
    #[inline]
    #[must_use]
    pub fn now(self) -> u64 {
        #[cfg(all(
            target_arch = "x86_64",
            not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))
        ))]
        if self.counter {
            // SAFETY: each processor of this architecture has the instruction.
            return unsafe { core::arch::x86_64::_rdtsc() };
        }
        now_ns()
    }

    /// Returns a pair of a stamp and the time at which it was taken. Of a few attempts it is the one that
    /// took the least time.
    #[must_use]
    pub fn pair(self) -> Pair {
        let attempt = || {
            let before = self.now();
            let ns = now_ns();
            let after = self.now();
            (
                after.wrapping_sub(before),
                before.wrapping_add(after.wrapping_sub(before) / 2),
                ns,
            )
        };
        let best = (0..5).map(|_| attempt()).min();
        let (_, ticks, ns) = best.unwrap_or_else(attempt);
        Pair { ticks, ns }
    }
}

impl Default for TickClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns true if the processor's counter runs at a constant rate.
#[cfg(all(
    target_arch = "x86_64",
    not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))
))]
fn has_counter() -> bool {
    /// The leaf about the processor's power management.
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    use core::arch::x86_64::__cpuid;
    #[allow(unused_unsafe, reason = "it is a safe function in later compilers")]
    // SAFETY: each processor of this architecture has the instruction, and leaf 0x8000_0000.
    let last = unsafe { __cpuid(0x8000_0000) }.eax;
    #[allow(unused_unsafe, reason = "as above")]
    // SAFETY: as above, and the leaf exists.
    let power = || unsafe { __cpuid(POWER) }.edx;
    last >= POWER && power() & INVARIANT != 0
}

#[cfg(not(all(
    target_arch = "x86_64",
    not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))
)))]
fn has_counter() -> bool {
    false
}

/// A stamp and the time of [`now_ns`] at which it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The stamp.
    pub ticks: u64,
    /// The time.
    pub ns: u64,
}

/// Turns stamps into nanoseconds, by two pairs.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    now: Pair,
    ns_per_tick: f64,
}

impl Scale {
    /// Makes the scale from a pair at the beginning and one from now. The longer ago the first one was, the
    /// better: after a millisecond the rate is right to about 0.01 %.
    #[must_use]
    pub fn new(start: Pair, now: Pair) -> Self {
        let (ticks, ns) = (
            now.ticks.wrapping_sub(start.ticks),
            now.ns.saturating_sub(start.ns),
        );
        let ns_per_tick = if ticks == 0 || ns == 0 {
            1.0
        } else {
            ns as f64 / ticks as f64
        };
        Self { now, ns_per_tick }
    }

    /// Returns the length of a number of ticks in nanoseconds.
    #[must_use]
    pub fn span_ns(self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    /// Returns the length of a number of nanoseconds in ticks.
    #[must_use]
    pub fn ticks(self, ns: f64) -> f64 {
        ns / self.ns_per_tick
    }

    /// Returns the time of a stamp that is at most 2⁶³ ticks from the second pair.
    #[must_use]
    pub fn ns_at(self, stamp: u64) -> u64 {
        let ago = self.now.ticks.wrapping_sub(stamp).cast_signed();
        let ns = ago.unsigned_abs() as f64 * self.ns_per_tick;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is not negative, and saturates"
        )]
        let ns = ns as u64;
        if ago < 0 {
            self.now.ns.saturating_add(ns)
        } else {
            self.now.ns.saturating_sub(ns)
        }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
mod tests {
    use super::{Pair, Scale, TickClock};
    use crate::clock::now_ns;

    #[test]
    fn stamps_are_times() {
        let clock = TickClock::new();
        let start = clock.pair();
        let before = now_ns();
        while now_ns() - before < 5_000_000 {}
        let (early, stamp, late) = (now_ns(), clock.now(), now_ns());
        let scale = Scale::new(start, clock.pair());
        let ns = scale.ns_at(stamp);
        // The clocks may disagree by what a pair took, which is long if the system took the CPU away.
        let slack = 1_000_000;
        assert!(ns + slack >= early && ns <= late + slack, "{early} {ns} {late}");
    }

    #[test]
    fn a_scale_is_a_straight_line() {
        let scale = Scale::new(Pair { ticks: 100, ns: 1000 }, Pair { ticks: 300, ns: 1100 });
        assert_eq!(
            [300, 100, 500].map(|stamp| scale.ns_at(stamp)),
            [1100, 1000, 1200]
        );
        assert_eq!((scale.span_ns(10), scale.ticks(5.0)), (5.0, 10.0));
        // A counter that wraps, and one that has not moved.
        let scale = Scale::new(
            Pair {
                ticks: u64::MAX - 1,
                ns: 0,
            },
            Pair { ticks: 8, ns: 20 },
        );
        assert_eq!([u64::MAX - 1, 3].map(|stamp| scale.ns_at(stamp)), [0, 10]);
        let same = Pair { ticks: 5, ns: 7 };
        assert_eq!(Scale::new(same, same).ns_at(5), 7);
    }
}
