//! A monotonic clock in nanoseconds.

/// Nanoseconds since the first call in this process; it never goes back.
///
/// Costs one `clock_gettime` (about 20–30 ns). Under the model checkers time stands still at 0, because a
/// schedule must not depend on it.
#[must_use]
pub fn now_ns() -> u64 {
    #[cfg(any(warpweft_loom, warpweft_shuttle))]
    return 0;
    #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        // A process that lives 584 years saturates instead of wrapping.
        u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
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
