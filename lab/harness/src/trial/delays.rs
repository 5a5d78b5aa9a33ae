//! How long the steps of a program took and waited: counts in buckets, which several pools and rounds add up.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// How long the steps of a program took and waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Delays {
    /// From the push of a new task to its first step.
    pub queue_delay: BucketCounts,
    /// From a wake to the step that follows.
    pub wake_to_run: BucketCounts,
    /// Of a step.
    pub run_time: BucketCounts,
}

impl Delays {
    /// Adds the steps of another pool or round.
    pub(crate) fn add(&mut self, other: &Self) {
        self.queue_delay.add(&other.queue_delay);
        self.wake_to_run.add(&other.wake_to_run);
        self.run_time.add(&other.run_time);
    }
}

/// How many values are in each bucket, by the upper end of the bucket in nanoseconds. As data it is its
/// [`Quantiles`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts(BTreeMap<u64, u64>);

impl FromIterator<(u64, u64)> for BucketCounts {
    /// From the upper ends of buckets, in nanoseconds, and the number of values in each.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(buckets: I) -> Self {
        let mut counts = Self::default();
        for (end, count) in buckets.into_iter().filter(|(_, count)| *count > 0) {
            *counts.0.entry(end).or_default() += count;
        }
        counts
    }
}

impl BucketCounts {
    fn add(&mut self, other: &Self) {
        for (end, count) in &other.0 {
            *self.0.entry(*end).or_default() += count;
        }
    }

    /// Returns the distribution in short; `None` without values.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let count: u64 = self.0.values().sum();
        let value = |percent: u64| {
            let rank = (count * percent).div_ceil(100).max(1);
            let mut below = 0;
            let found = self.0.iter().find(|(_, count)| {
                below += **count;
                below >= rank
            });
            found.map(|(end, _)| *end)
        };
        Some(Quantiles {
            count,
            p50_ns: value(50)?,
            p99_ns: value(99)?,
        })
    }
}

impl Serialize for BucketCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.quantiles().serialize(serializer)
    }
}

/// A distribution in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// The number of values.
    pub count: u64,
    /// The median, in nanoseconds.
    pub p50_ns: u64,
    /// What one value in a hundred exceeds, in nanoseconds.
    pub p99_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_before_a_quantile_is_taken() {
        let of = |buckets: &[(u64, u64)]| buckets.iter().copied().collect::<BucketCounts>();
        let mut all = of(&[(10, 97), (20, 1)]);
        assert_eq!(all.quantiles().map(|it| (it.count, it.p99_ns)), Some((98, 20)));
        all.add(&of(&[(10, 1), (500, 1)]));
        let quantiles = all.quantiles().unwrap();
        assert_eq!(quantiles.count, 100);
        assert_eq!((quantiles.p50_ns, quantiles.p99_ns), (10, 20));
        all.add(&of(&[(500, 98)]));
        let quantiles = all.quantiles().unwrap();
        assert_eq!((quantiles.p50_ns, quantiles.p99_ns), (20, 500));
        assert_eq!(of(&[(7, 0)]).quantiles(), None);
    }
}
