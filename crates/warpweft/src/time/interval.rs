//! [`Interval`]: ticks at a fixed period.

use super::sleep::{Sleep, nanoseconds};
use crate::driver::timers::NEVER;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use warpweft_platform::clock;

/// The behaviour of an [`Interval`] when its ticks were missed: a tick came when the next one was due, or
/// later. A smaller delay of a tick changes none of the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissedTicks {
    /// Missed ticks come at once, one after the other, until it has caught up: the number of ticks is right.
    #[default]
    Burst,
    /// The next tick comes a whole period after the late one: the distance is right.
    Delay,
    /// Missed ticks are skipped: the phase is right.
    Skip,
}

/// Returns an interval that ticks once per period; the first tick comes at once.
///
/// A period under a microsecond counts as one microsecond.
///
/// ```
/// use std::time::Duration;
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let mut beat = warpweft::time::interval(Duration::from_millis(1));
///     for _ in 0..3 {
///         beat.tick().await;
///     }
/// });
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn interval(period: Duration) -> Interval {
    Interval::new(clock::now_ns(), period)
}

/// As [`interval`], but the first tick comes at `start`. A start that lies before the first use of this
/// crate's clock in the process counts as that moment.
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(clock::ns_at(start), period)
}

/// A sequence of ticks; see [`interval`].
#[derive(Debug)]
pub struct Interval {
    next_ns: u64,
    period_ns: u64,
    missed: MissedTicks,
    sleep: Option<Sleep>,
}

impl Interval {
    fn new(start_ns: u64, period: Duration) -> Self {
        Self {
            next_ns: start_ns,
            period_ns: nanoseconds(period).max(1_000),
            missed: MissedTicks::Burst,
            sleep: None,
        }
    }

    /// Sets what happens to missed ticks.
    #[must_use]
    pub fn missed_ticks(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Returns the time between two ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// Waits for the next tick, and returns the moment for which it was due. If the future is dropped, its
    /// tick is not lost.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let due = self.next_ns;
        let sleep = self.sleep.get_or_insert_with(|| Sleep::until_ns(due));
        ready!(Pin::new(sleep).poll(cx));
        self.sleep = None;
        self.next_ns = next(due, clock::now_ns(), self.period_ns, self.missed);
        // The clock can represent every moment that it has shown.
        Poll::Ready(clock::moment(due).unwrap_or_else(Instant::now))
    }
}

/// Returns the tick after the one that was `due` and came at `now`.
fn next(due: u64, now: u64, period: u64, missed: MissedTicks) -> u64 {
    let next = due.saturating_add(period);
    if next > now {
        return next;
    }
    match missed {
        MissedTicks::Burst => next,
        MissedTicks::Delay => now.saturating_add(period),
        MissedTicks::Skip => {
            let skipped = (now - due) / period;
            // The result is at most the end of the clock: then the tick never comes.
            (skipped + 1)
                .checked_mul(period)
                .and_then(|ns| due.checked_add(ns))
                .unwrap_or(NEVER)
        }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{MissedTicks, next};

    #[test]
    fn in_time_they_are_all_alike() {
        for missed in [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip] {
            assert_eq!(next(100, 104, 10, missed), 110);
            assert_eq!(next(u64::MAX - 3, u64::MAX - 3, 10, missed), u64::MAX);
            assert_eq!(next(5, u64::MAX - 1, u64::MAX, missed), u64::MAX);
        }
    }

    #[test]
    fn late_they_differ() {
        assert_eq!(next(100, 137, 10, MissedTicks::Burst), 110);
        assert_eq!(next(100, 137, 10, MissedTicks::Delay), 147);
        assert_eq!(next(100, 137, 10, MissedTicks::Skip), 140);
        assert_eq!(next(100, 140, 10, MissedTicks::Skip), 150);
        assert_eq!(next(0, u64::MAX, u64::MAX / 2, MissedTicks::Skip), u64::MAX);
    }
}
