//! A limit of events per time, for the whole process.

// Not the checkers' atomics: it is a static, and no correctness depends on it.
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Admits an event if the last one that it has admitted is long enough ago, and counts those that are left
/// out. It takes no lock, so a forked child may use it.
#[derive(Debug)]
pub struct Rate {
    /// From when on the next event is admitted.
    next_ns: AtomicU64,
    left_out: AtomicUsize,
}

impl Rate {
    /// Makes one that admits the first event.
    #[must_use]
    #[allow(
        clippy::new_without_default,
        reason = "it is in a static, and `default` is no const fn"
    )]
    pub const fn new() -> Self {
        Self {
            next_ns: AtomicU64::new(0),
            left_out: AtomicUsize::new(0),
        }
    }

    /// Asks for an event at `now_ns`, a reading of [`clock::now_ns`](crate::clock::now_ns), after which there
    /// is none for `pause_ns`. Returns true if it is admitted.
    pub fn admit(&self, now_ns: u64, pause_ns: u64) -> bool {
        let next = |next_ns| (now_ns >= next_ns).then(|| now_ns.saturating_add(pause_ns));
        let order = Ordering::Relaxed;
        self.next_ns.fetch_update(order, order, next).is_ok()
    }

    /// As [`admit`](Self::admit), but up to `burst` events may come at once. Each is paid for by a pause, so
    /// that in the long run there is one per pause.
    pub fn admit_burst(&self, now_ns: u64, pause_ns: u64, burst: u64) -> bool {
        let ahead_ns = pause_ns.saturating_mul(burst.saturating_sub(1));
        let next = |next_ns: u64| {
            let is_admitted = next_ns <= now_ns.saturating_add(ahead_ns);
            is_admitted.then(|| next_ns.max(now_ns).saturating_add(pause_ns))
        };
        let order = Ordering::Relaxed;
        self.next_ns.fetch_update(order, order, next).is_ok()
    }

    /// Counts an event that is left out.
    pub fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many events were left out since the last call.
    pub fn take_left_out(&self) -> usize {
        self.left_out.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;

    #[test]
    fn one_event_is_admitted_in_each_interval() {
        let rate = Rate::new();
        let admitted = (0..100).filter(|&now| rate.admit(now, 10)).collect::<Vec<_>>();
        assert_eq!(admitted, (0..10).map(|n| 10 * n).collect::<Vec<_>>());
        assert!(rate.admit(u64::MAX, u64::MAX) && !rate.admit(u64::MAX - 1, 1));
    }

    #[test]
    fn a_burst_is_paid_for_by_pauses() {
        let rate = Rate::new();
        let admitted = |now| (0..10).filter(|_| rate.admit_burst(now, 10, 4)).count();
        assert_eq!([1000, 1005, 1010, 1035, 2000].map(admitted), [4, 0, 1, 2, 4]);
        let single = Rate::new();
        let admitted = (0..100).filter(|&now| single.admit_burst(now, 10, 1));
        assert_eq!(
            admitted.collect::<Vec<_>>(),
            (0..10).map(|n| 10 * n).collect::<Vec<_>>()
        );
    }

    #[test]
    fn what_is_left_out_is_counted_once() {
        let rate = Rate::new();
        rate.leave_out();
        rate.leave_out();
        assert_eq!((rate.take_left_out(), rate.take_left_out()), (2, 0));
    }
}
