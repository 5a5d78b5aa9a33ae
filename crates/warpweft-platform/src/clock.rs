//! A monotonic clock in nanoseconds.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

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
    ns_at(Instant::now())
}

/// As [`now_ns`], but the value may be up to 10 ms old, and the call is cheaper: some 8 ns on Linux.
#[must_use]
pub fn coarse_ns() -> u64 {
    #[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
    {
        static OFFSET: OnceLock<u64> = OnceLock::new();
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel writes one `timespec`, and only during the call.
        let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
        if result == 0 {
            #[allow(clippy::cast_sign_loss, reason = "this clock has no negative values")]
            let ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            return ns.saturating_sub(*OFFSET.get_or_init(|| ns.saturating_sub(now_ns())));
        }
    }
    now_ns()
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
    #[test]
    fn never_goes_back() {
        let mut last = super::now_ns();
        for _ in 0..10_000 {
            let now = super::now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
