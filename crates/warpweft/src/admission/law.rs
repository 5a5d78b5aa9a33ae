//! The control law of admission by delay: what is let in, by how long those before it have waited.
//!
//! It has neither clock nor threads: each call is told the time, in nanoseconds. The times may go back a
//! little from one call to the next, because callers read their clocks before they get the lock.
//!
//! ```text
//!                 for an interval the mean delay was above the target
//!   calm: all ────────────────────────────────────────────────────▶ overloaded: as many
//!   are let in ◀──────────────────────────────────────────────────  as start within the target
//!                 an interval without a refusal                     may wait, and one always
//! ```
//!
//! # Invariants
//!
//! - What asks while none waits is let in.
//! - The last one that waits is not late.

/// A delay of less than this part of the target is that of a queue without anything in front.
const HAD_TO_WAIT: u64 = 8;
/// When a started one is late, in targets.
const LATE: u64 = 2;
/// The mean delay takes an eighth of each new one. The least delay would not do: a worker with little to do
/// starts some at once, while others wait behind busy ones.
const DELAY_WEIGHT: u64 = 8;
/// The mean time between two starts takes a 32nd of each new one. With a larger part it is low by chance now
/// and then, and a crowd fills the queue up to the longest that was ever allowed.
const WEIGHT: u64 = 32;
/// A time between two starts counts for at most 8 times the mean: a stall is not how long tasks take.
const OUTLIER: u64 = 8;
/// The least mean, in nanoseconds, so that a part of it is not zero.
const LEAST: u64 = 1_000;

/// What the law decides of one that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Run,
    /// It has waited so long, in nanoseconds, that it should end at once.
    Late(u64),
}

/// The state of one class. See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Law {
    target: u64,
    interval: u64,
    /// How many were let in and have not started.
    waiting: u64,
    /// Since when some wait.
    waits_since: u64,
    /// When one started last.
    started: u64,
    /// When one started last that was not late.
    ran: u64,
    /// The mean time between two starts while some wait.
    spacing: Option<u64>,
    /// The mean of the last delays.
    mean_delay: u64,
    /// Since when the mean delay is above the target, or nothing starts.
    above_since: Option<u64>,
    /// When one was refused or late last, if the class is overloaded.
    refused: Option<u64>,
    /// The last delay.
    delay: u64,
}

impl Law {
    /// `target` and `interval` are in nanoseconds.
    pub(crate) fn new(target: u64, interval: u64) -> Self {
        Self {
            target,
            interval,
            waiting: 0,
            waits_since: 0,
            started: 0,
            ran: 0,
            spacing: None,
            mean_delay: 0,
            above_since: None,
            refused: None,
            delay: 0,
        }
    }

    /// Returns how many were let in and have not started.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Returns true if some are refused.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.refused.is_some()
    }

    /// Returns the delay of the one that started last.
    pub(crate) fn delay(&self) -> u64 {
        self.delay
    }

    /// Lets one in that comes now.
    ///
    /// # Errors
    ///
    /// It is refused: it would probably wait for so long.
    pub(crate) fn ask(&mut self, now: u64) -> Result<(), u64> {
        if self.waiting == 0 {
            // None waited, and none came: what was measured before does not count for this one.
            if now.saturating_sub(self.started) >= self.interval {
                self.above_since = None;
                self.mean_delay = 0;
            }
            self.waits_since = now;
        }
        let stalled = self.stalled(now);
        if stalled > self.target {
            self.is_above(now - (stalled - self.target), now);
        }
        if self
            .refused
            .is_some_and(|refused| now.saturating_sub(refused) >= self.interval)
        {
            self.refused = None;
            self.above_since = None;
        }
        // Zero, if none waits.
        let wait = self
            .spacing
            .unwrap_or(0)
            .saturating_mul(self.waiting)
            .max(stalled);
        if self.refused.is_some() && wait > self.target {
            self.refused = Some(now);
            return Err(wait);
        }
        self.waiting += 1;
        Ok(())
    }

    /// Notes that one starts that was let in at `asked`. If `may_shed` is false, it is never late.
    pub(crate) fn start(&mut self, asked: u64, now: u64, may_shed: bool) -> Start {
        self.waiting = self.waiting.saturating_sub(1);
        let delay = now.saturating_sub(asked);
        self.delay = delay;
        self.started = now;
        self.mean_delay = self.mean_delay - self.mean_delay / DELAY_WEIGHT + delay / DELAY_WEIGHT;
        if self.mean_delay > self.target {
            self.is_above(now, now);
        } else {
            self.above_since = None;
        }
        if may_shed && self.is_overloaded() && self.waiting > 0 && delay > self.target.saturating_mul(LATE) {
            self.refused = Some(now);
            return Start::Late(delay);
        }
        // During an overload, a task that had to wait came while all workers were busy. So they were busy
        // since the last start. Otherwise they may have been idle until some tasks waited.
        let had_to_wait = delay > self.target / HAD_TO_WAIT;
        let busy_since = if had_to_wait && self.is_overloaded() && self.spacing.is_some() {
            self.ran
        } else {
            self.ran.max(self.waits_since)
        };
        let gap = now.saturating_sub(busy_since);
        self.ran = now;
        let mean = self.spacing.unwrap_or(gap.min(self.interval)).max(LEAST);
        let gap = gap.min(mean.saturating_mul(OUTLIER));
        self.spacing = Some(mean - mean / WEIGHT + gap / WEIGHT);
        Start::Run
    }

    /// Notes that one that was let in will not start.
    pub(crate) fn forget(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Returns for how long some have waited and none has started: the first of them waits at least as long.
    fn stalled(&self, now: u64) -> u64 {
        if self.waiting == 0 {
            return 0;
        }
        now.saturating_sub(self.started.max(self.waits_since))
    }

    /// Notes that delays are above the target, since `since` or before.
    fn is_above(&mut self, since: u64, now: u64) {
        let since = *self.above_since.get_or_insert(since);
        if self.refused.is_none() && now.saturating_sub(since) >= self.interval {
            self.refused = Some(now);
        }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests;
