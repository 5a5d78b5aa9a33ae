//! A monotonic clock in nanoseconds.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

/// The length of a stamp's unit in nanoseconds is two to the power of this: about a quarter of a second.
const UNIT_BITS: u32 = 28;
/// The lowest bit of a [`stamp`] in its word.
const STAMP_SHIFT: u32 = 7;

/// -1 in the upper half of a word.
const LESS_ONE: u64 = (u32::MAX as u64) << 32;

/// The bits of a word that a [`stamp`] has: 24 of the lower half, above the first seven.
pub const STAMP_BITS: u32 = 0x00FF_FFFF << STAMP_SHIFT;

/// Returns the nanoseconds since the first call in this process. The value never decreases.
///
/// Costs one `clock_gettime` (about 20–30 ns). Under the model checkers the time is always 0, because a
/// schedule must not depend on it.
#[must_use]
pub fn now_ns() -> u64 {
    #[cfg(any(warpweft_loom, warpweft_shuttle))]
    return 0;
    #[cfg(warpweft_sim)]
    return warpweft_sim::now_ns();
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    recent::note(ns_at(Instant::now()))
}

/// Returns the time of the last call of [`now_ns`] in this process, which any thread may have made. It is up
/// to 4 ms older than that. Costs one load.
///
/// It is for threads that run tasks of a runtime: a worker reads the clock when it wakes up, and while
/// workers run, they or the monitor read it every few milliseconds. While all of them sleep, no thread reads
/// it. Elsewhere there is [`coarse_ns`].
#[inline]
#[must_use]
pub fn recent_ns() -> u64 {
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    return now_ns();
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    recent::ns()
}

/// Returns the stamp of [`recent_ns`]: a rough time that has room in a word beside other bits. All bits but
/// [`STAMP_BITS`] are 0. Costs one load.
///
/// Under the model checkers and the simulator, where a schedule must not depend on it, the stamp is 0: an
/// unknown time.
#[inline]
#[must_use]
pub fn stamp() -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "the stamp is in the lower half")]
    let stamp = stamp_less_one() as u32;
    stamp
}

/// Returns a word with the [`stamp`] in its lower half, and -1 in its upper half. Its wrapping sum with a
/// word that has a count in the upper half, and none of [`STAMP_BITS`], counts one down and adds the stamp.
#[inline]
#[must_use]
pub fn stamp_less_one() -> u64 {
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    return LESS_ONE;
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    recent::stamp()
}

/// Returns the end of a [`stamp`]'s quarter of a second on the clock of [`now_ns`], and at most `now`. What
/// was stamped has lasted since then or longer, unless its thread lost the CPU between the last reading of
/// the clock and the stamp. The other bits of `word` do not matter.
///
/// Stamps repeat after 52 days: what is older seems younger by a multiple of that. `None` is an unknown time.
#[must_use]
pub fn stamped_ns(word: u32, now: u64) -> Option<u64> {
    let stamp = word & STAMP_BITS;
    if stamp == 0 {
        return None;
    }
    let age = stamp_of(now).wrapping_sub(stamp) & STAMP_BITS;
    let units = u64::from(age >> STAMP_SHIFT);
    let begin = (now >> UNIT_BITS).saturating_sub(units) << UNIT_BITS;
    Some(now.min(begin + (1 << UNIT_BITS)))
}

/// The unit of that time. No time is in unit 0 until the numbers repeat.
fn stamp_of(ns: u64) -> u32 {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the bits above are cut off on purpose"
    )]
    let unit = (ns >> UNIT_BITS) as u32;
    unit.wrapping_add(1) << STAMP_SHIFT & STAMP_BITS
}

#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
mod recent {
    use super::{LESS_ONE, stamp_of};
    use crate::atomic::{AtomicU64, Ordering};
    use crate::hint::cold_path;

    /// A store takes the line from all threads that read it: so there is one in this time at most.
    const EACH_NS: u64 = 1 << 22;

    /// When a reading of the clock is kept again: `EACH_NS` after the last one that was kept.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    /// The stamp of that one, with -1 in the upper half.
    static STAMP: AtomicU64 = AtomicU64::new(LESS_ONE);

    /// Keeps that time. Returns it.
    #[inline]
    pub(super) fn note(ns: u64) -> u64 {
        // Ordering: Relaxed, also below. If two threads store at the same time, the older one may remain.
        if ns >= NEXT.load(Ordering::Relaxed) {
            cold_path();
            NEXT.store(ns.saturating_add(EACH_NS), Ordering::Relaxed);
            STAMP.store(LESS_ONE | u64::from(stamp_of(ns)), Ordering::Relaxed);
        }
        ns
    }

    #[inline]
    pub(super) fn ns() -> u64 {
        NEXT.load(Ordering::Relaxed).saturating_sub(EACH_NS)
    }

    #[inline]
    pub(super) fn stamp() -> u64 {
        STAMP.load(Ordering::Relaxed)
    }
}

/// As [`now_ns`], but the value may be up to 10 ms old, and the call is cheaper: some 8 ns on Linux.
#[must_use]
pub fn coarse_ns() -> u64 {
    #[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
    {
        /// By how much the system's clock is ahead of that of `now_ns`.
        static OFFSET: OnceLock<Option<u64>> = OnceLock::new();
        // The clock of `now_ns` is read first, so the difference is never too small, and the result never in
        // the future. A thread that loses its CPU in between makes it too large: hence the least of some.
        let offset = || {
            let difference = |_| {
                let before = now_ns();
                system_ns(libc::CLOCK_MONOTONIC).map(|ns| ns.saturating_sub(before))
            };
            (0..4).filter_map(difference).min()
        };
        if let Some(offset) = *OFFSET.get_or_init(offset)
            && let Some(ns) = system_ns(libc::CLOCK_MONOTONIC_COARSE)
        {
            return ns.saturating_sub(offset);
        }
    }
    now_ns()
}

/// Returns the time of one of the system's clocks.
#[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
fn system_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one `timespec`, and only during the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    #[allow(clippy::cast_sign_loss, reason = "these clocks have no negative values")]
    let ns = || time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    (result == 0).then(ns)
}

/// Returns that moment on the clock of [`now_ns`]: 0 if it was before the first call, `u64::MAX` (in 584
/// years) if it is after the clock's end.
#[must_use]
pub fn ns_at(moment: Instant) -> u64 {
    let start = *START.get_or_init(Instant::now);
    u64::try_from(moment.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX)
}

/// Returns that moment of the clock of [`now_ns`] as an `Instant`, if the system's clock can represent it.
#[must_use]
pub fn moment(ns: u64) -> Option<Instant> {
    START
        .get_or_init(Instant::now)
        .checked_add(Duration::from_nanos(ns))
}

/// Returns for how long the calling thread has had a CPU, in nanoseconds; `None` if the system does not
/// report it and under the checkers. Costs a system call on Linux, 0.1 to 0.3 µs.
#[must_use]
pub fn thread_cpu_ns() -> Option<u64> {
    #[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
    {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel writes one `timespec`, and only during the call.
        let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        if result != 0 {
            return None;
        }
        let (seconds, ns) = (
            u64::try_from(time.tv_sec).ok()?,
            u64::try_from(time.tv_nsec).ok()?,
        );
        seconds.checked_mul(1_000_000_000)?.checked_add(ns)
    }
    #[cfg(not(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))))]
    None
}

#[cfg(test)]
mod tests {
    use super::{STAMP_BITS, UNIT_BITS, now_ns, recent_ns, stamp, stamp_less_one, stamp_of, stamped_ns};

    #[test]
    fn the_last_reading_is_kept() {
        let before = now_ns();
        let (recent, word) = (recent_ns(), stamp());
        let (earliest, after) = (before.saturating_sub(1 << 22), now_ns());
        assert!((earliest..=after).contains(&recent), "{before} {recent}");
        let since = stamped_ns(word, after).expect("the clock was read");
        assert!((earliest..=after).contains(&since), "{before} {since}");
    }

    #[test]
    fn a_sum_counts_down_and_adds_the_stamp() {
        let word: u64 = 7 << 32 | 0x41;
        let sum = word.wrapping_add(stamp_less_one());
        assert_eq!((sum >> 32, sum & 0x7F), (6, 0x41));
    }

    #[test]
    fn what_was_stamped_lasts_at_least_as_long_as_told() {
        let (unit, all) = (1_u64 << UNIT_BITS, 1_u64 << (UNIT_BITS + 24));
        for stamped in [
            0,
            1,
            unit - 1,
            unit,
            7 * unit + 5,
            all - 2 * unit,
            all - unit - 1,
            5 * all + 9,
        ] {
            for later in [0, 1, unit, 3 * unit + 1, 1000 * unit, all - 2 * unit] {
                let (word, now) = (stamp_of(stamped), stamped + later);
                let since = stamped_ns(word, now).expect("a known time");
                assert_eq!(stamped_ns(word | !STAMP_BITS, now), Some(since));
                assert!(stamped <= since && since <= now, "{stamped} {now}: {since}");
                assert!(since - stamped <= unit, "{stamped} {now}: {since}");
            }
        }
    }

    #[test]
    fn a_stamp_has_its_bits_alone_and_none_is_unknown() {
        for ns in [0, 1 << UNIT_BITS, u64::MAX] {
            assert_eq!(stamp_of(ns) & !STAMP_BITS, 0);
        }
        assert_eq!(stamped_ns(!STAMP_BITS, 5), None);
    }

    #[test]
    fn never_goes_back() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
