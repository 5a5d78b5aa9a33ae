//! The settings of admission by delay.

use std::fmt;
use std::time::Duration;

/// How long tasks that ask for admission may wait until they start: see
/// [`Builder::admission`](crate::Builder::admission).
///
/// ```
/// use std::time::Duration;
/// use warpweft::QueueDelay;
/// let delay = QueueDelay::new().target(Duration::from_millis(20));
/// assert_eq!(delay.interval, Duration::from_millis(100));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueDelay {
    /// The delay, from spawn to start, that is still good. The default is 5 ms.
    pub target: Duration,
    /// For how long the mean delay must be above the target until tasks are refused, and for how long none
    /// must be refused until all are admitted again. The default is 100 ms.
    pub interval: Duration,
}

impl Default for QueueDelay {
    fn default() -> Self {
        Self::new()
    }
}

impl QueueDelay {
    /// Returns the defaults: a target of 5 ms, and an interval of 100 ms.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        }
    }

    /// Sets the target: more than zero, and at most the interval. A good one is a few times what a task
    /// takes, and less than what a client notices.
    #[must_use]
    pub const fn target(mut self, target: Duration) -> Self {
        self.target = target;
        self
    }

    /// Sets the interval. A burst that is worked off within it is not refused. A good one is longer than any
    /// burst that is expected, and at least ten times the target.
    #[must_use]
    pub const fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// # Errors
    ///
    /// Nothing could be admitted with these times, or nothing refused.
    pub(crate) fn check(self) -> Result<Self, QueueDelayError> {
        let Self { target, interval } = self;
        if target.is_zero() {
            Err(QueueDelayError::Target)
        } else if interval.is_zero() {
            Err(QueueDelayError::Interval)
        } else if target > interval {
            Err(QueueDelayError::TargetAboveInterval { target, interval })
        } else {
            Ok(self)
        }
    }
}

/// What is wrong with a [`QueueDelay`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueDelayError {
    /// The target is zero.
    Target,
    /// The interval is zero.
    Interval,
    /// The target is above the interval.
    TargetAboveInterval {
        /// The target.
        target: Duration,
        /// The interval.
        interval: Duration,
    },
}

impl fmt::Display for QueueDelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target => f.write_str(
                "admission with a target of 0: each task waits longer than that; it may be more than 0, such as 5 ms",
            ),
            Self::Interval => f.write_str(
                "admission with an interval of 0: one late task would be an overload; it may be more than 0, \
                 such as 100 ms",
            ),
            Self::TargetAboveInterval { target, interval } => write!(
                f,
                "admission with a target of {target:?}, above its interval of {interval:?}: no delay of an \
                 interval could be judged; the interval may be the target or longer, better ten times as long"
            ),
        }
    }
}

impl std::error::Error for QueueDelayError {}
