//! How long tasks run, and how long they wait for a worker: histograms of a fixed size.
//!
//! # Invariants
//!
//! - A worker's histograms are written by the thread that carries the worker. A reader adds them up.
//! - Memory is bounded: a histogram has 976 counts, and a pool remembers the times of at most 8192 pushes.
//!   A push that finds its place taken is not sampled. So sampling does not depend on how long a task will
//!   wait.

use super::event::Push;
use std::time::Duration;
use warpweft_platform::counter::{Counter, Gauge};
use warpweft_platform::ticks::Scale;

/// The number of buckets of each power of two is 2 to this power, so a value is right to 1/16.
const SUB_BITS: u32 = 4;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (u64::BITS - SUB_BITS + 1) as usize * SUB;

/// Returns the bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let power = value.ilog2();
    (power - SUB_BITS + 1) as usize * SUB + ((value >> (power - SUB_BITS)) as usize & (SUB - 1))
}

/// Returns the least value of a bucket.
fn least(bucket: usize) -> u64 {
    let low = (bucket % SUB) as u64;
    match bucket / SUB {
        0 => low,
        high => (SUB as u64 + low) << (high - 1),
    }
}

/// Counts of values, in ticks.
#[derive(Debug)]
struct Histogram {
    counts: Box<[Counter]>,
    sum: Counter,
}

impl Histogram {
    fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| Counter::new()).collect(),
            sum: Counter::new(),
        }
    }

    #[inline]
    fn add(&self, ticks: u64) {
        self.counts[bucket(ticks)].add(1);
        self.sum.add(ticks);
    }
}

/// What is measured of each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// From the push of a new task to its first step.
    QueueDelay = 0,
    /// From a wake to the step.
    WakeToRun = 1,
    RunTime = 2,
}

/// The number of classes that are told apart: tasks without a priority, and the first priorities.
pub(crate) const CLASSES: usize = 8;

/// Returns the class of a task with that priority.
pub(crate) fn class(priority: Option<u8>) -> usize {
    priority
        .map_or(0, |priority| usize::from(priority) + 1)
        .min(CLASSES - 1)
}

/// The histograms of one worker: for each class and measure.
#[derive(Debug)]
pub(crate) struct Times(Box<[[Histogram; 3]]>);

impl Times {
    /// For a pool with so many priorities.
    pub(crate) fn new(priorities: u8) -> Self {
        let classes = class(Some(priorities.max(1) - 1)) * usize::from(priorities > 0) + 1;
        Self(
            (0..classes)
                .map(|_| std::array::from_fn(|_| Histogram::new()))
                .collect(),
        )
    }

    #[inline]
    pub(crate) fn add(&self, class: usize, measure: Measure, ticks: u64) {
        self.0[class.min(self.0.len() - 1)][measure as usize].add(ticks);
    }

    /// Adds the values to `sums`, which has an entry for each class and measure.
    pub(crate) fn add_to(&self, sums: &mut Vec<[Distribution; 3]>, scale: Scale) {
        sums.resize_with(self.0.len().max(sums.len()), Default::default);
        for (measures, sums) in self.0.iter().zip(sums) {
            for (histogram, sum) in measures.iter().zip(sums) {
                sum.add(histogram, scale);
            }
        }
    }
}

/// How a duration is distributed: counts in buckets, each at most 1/16 wide of its value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    count: u64,
    sum_ticks: u64,
    ns_per_tick: f64,
    /// The numbers of the buckets that are not empty, and their counts.
    buckets: Vec<(usize, u64)>,
}

impl Distribution {
    fn add(&mut self, histogram: &Histogram, scale: Scale) {
        let counts = histogram.counts.iter().enumerate();
        for (at, count) in counts
            .map(|(at, count)| (at, count.get()))
            .filter(|&(_, count)| count > 0)
        {
            self.put(at, count);
        }
        self.sum_ticks = self.sum_ticks.wrapping_add(histogram.sum.get());
        self.ns_per_tick = scale.span_ns(1);
    }

    fn put(&mut self, at: usize, count: u64) {
        self.count += count;
        match self.buckets.binary_search_by_key(&at, |&(other, _)| other) {
            Ok(place) => self.buckets[place].1 += count,
            Err(place) => self.buckets.insert(place, (at, count)),
        }
    }

    fn sum_ns(&self) -> f64 {
        self.sum_ticks as f64 * self.ns_per_tick
    }

    /// Returns the upper end of a bucket.
    fn end(&self, bucket: usize) -> Duration {
        let ticks = least(bucket).max(least((bucket + 1).min(BUCKETS - 1)));
        duration(ticks as f64 * self.ns_per_tick)
    }

    /// Returns the values that came after `earlier`, which is an earlier distribution of the same class of
    /// the same pool. With it a program reports what happened in an interval.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.recorder().measure_steps(true);
    /// let run_time = || runtime.metrics().pools[0].classes.first().map(|class| class.run_time.clone());
    /// let earlier = run_time().unwrap_or_default();
    /// runtime.spawn_job(|| ()).wait()?;
    /// let new = run_time().unwrap_or_default().since(&earlier);
    /// println!("{} steps, half of them at most {:?}", new.count(), new.quantile(0.5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bucket| {
            let found = earlier.buckets.binary_search_by_key(&bucket, |&(other, _)| other);
            found.map_or(0, |place| earlier.buckets[place].1)
        };
        let new = |&(bucket, count): &(usize, u64)| (bucket, count.saturating_sub(before(bucket)));
        let buckets: Vec<_> = self
            .buckets
            .iter()
            .map(new)
            .filter(|&(_, count)| count > 0)
            .collect();
        Self {
            count: buckets.iter().map(|&(_, count)| count).sum(),
            sum_ticks: self.sum_ticks.wrapping_sub(earlier.sum_ticks),
            ns_per_tick: self.ns_per_tick,
            buckets,
        }
    }

    /// Returns the values of both, such as those of several classes or pools of one process.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.recorder().measure_steps(true);
    /// runtime.spawn_job(|| ()).wait()?;
    /// let metrics = runtime.metrics();
    /// let classes = metrics.pools.iter().flat_map(|pool| &pool.classes);
    /// let none = warpweft::Distribution::default();
    /// let run_time = classes.fold(none, |sum, class| sum.plus(&class.run_time));
    /// println!("99 % of all steps took at most {:?}", run_time.quantile(0.99));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for &(at, count) in &other.buckets {
            sum.put(at, count);
        }
        sum.sum_ticks = sum.sum_ticks.wrapping_add(other.sum_ticks);
        if sum.ns_per_tick == 0.0 {
            sum.ns_per_tick = other.ns_per_tick;
        }
        sum
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all values.
    #[must_use]
    pub fn sum(&self) -> Duration {
        duration(self.sum_ns())
    }

    /// Returns the mean; zero without values.
    #[must_use]
    pub fn mean(&self) -> Duration {
        duration(self.sum_ns() / self.count.max(1) as f64)
    }

    /// Returns a value that the share `q` of all values does not exceed, at most 1/16 too large: 0.5 asks for
    /// the median, 0.99 for what one in a hundred exceeds. Zero without values; `q` beyond 0 and 1 counts as
    /// these.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0);
        let mut below = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            below += count;
            below as f64 >= rank
        });
        found
            .or(self.buckets.last())
            .map_or(Duration::ZERO, |&(bucket, _)| self.end(bucket))
    }

    /// Returns the buckets that are not empty, in ascending order: the upper end, and the number of values.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.buckets
            .iter()
            .map(|&(bucket, count)| (self.end(bucket), count))
    }
}

fn duration(ns: f64) -> Duration {
    Duration::try_from_secs_f64(ns / 1e9).unwrap_or(Duration::MAX)
}

/// When tasks were pushed: a table with a place for each of many addresses.
#[derive(Debug)]
pub(crate) struct PushTimes {
    places: Box<[Gauge]>,
    /// An entry that is older than this is of a task that ended without a step.
    stale: u64,
}

const PLACES: usize = 8192;
/// An entry: a part of the address, the lower part of the stamp, and whether it was a wake.
const STAMP: u32 = 43;
const STAMP_MASK: u64 = (1 << STAMP) - 1;

impl PushTimes {
    /// `stale` is a number of ticks after which an entry may be overwritten.
    pub(crate) fn new(stale: u64) -> Self {
        Self {
            places: (0..PLACES).map(|_| Gauge::default()).collect(),
            stale: stale.min(STAMP_MASK / 2),
        }
    }

    #[inline]
    fn place(&self, address: usize) -> (&Gauge, u64) {
        // Multiplied by the golden ratio, so that all bits of the address count.
        let hash = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tag = hash >> (STAMP + 1) << (STAMP + 1);
        (
            &self.places[(hash >> 20) as usize % PLACES],
            tag.max(1 << (STAMP + 1)),
        )
    }

    #[inline]
    pub(crate) fn pushed(&self, address: usize, push: Push, now: u64) {
        let (place, tag) = self.place(address);
        let there = place.get();
        let is_taken = there != 0 && there & !(STAMP_MASK << 1 | 1) != tag;
        if is_taken && now.wrapping_sub(there >> 1) & STAMP_MASK < self.stale {
            return;
        }
        place.set(tag | (now & STAMP_MASK) << 1 | u64::from(push == Push::Woken));
    }

    /// Returns how long ago the task was pushed, if that is known, and forgets it.
    #[inline]
    pub(crate) fn take(&self, address: usize, now: u64) -> Option<(Measure, u64)> {
        let (place, tag) = self.place(address);
        let there = place.get();
        if there & !(STAMP_MASK << 1 | 1) != tag {
            return None;
        }
        place.set(0);
        let measure = if there & 1 == 1 {
            Measure::WakeToRun
        } else {
            Measure::QueueDelay
        };
        let ticks = now.wrapping_sub(there >> 1) & STAMP_MASK;
        // A stamp of another CPU may be a little later than ours.
        Some((measure, if ticks > STAMP_MASK / 2 { 0 } else { ticks }))
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;
    use warpweft_platform::ticks::Pair;

    fn scale() -> Scale {
        Scale::new(
            Pair { ticks: 0, ns: 0 },
            Pair {
                ticks: 1000,
                ns: 1000,
            },
        )
    }

    #[test]
    fn each_value_is_in_its_bucket() {
        for power in 0..64 {
            for value in [
                1_u64 << power,
                (1 << power) - 1,
                (1 << power) + (1 << power) / 3,
                u64::MAX,
            ] {
                let at = bucket(value);
                assert!(least(at) <= value, "{value}");
                assert!(at + 1 == BUCKETS || value < least(at + 1), "{value}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!((0..BUCKETS).all(|at| bucket(least(at)) == at));
    }

    #[test]
    fn quantiles_are_right_to_a_sixteenth() {
        let times = Times::new(0);
        for value in 1..=1000 {
            times.add(0, Measure::RunTime, value);
        }
        let mut sums = Vec::new();
        times.add_to(&mut sums, scale());
        times.add_to(&mut sums, scale());
        let [.., run] = &sums[0];
        assert_eq!(
            (sums.len(), run.count(), run.sum()),
            (1, 2000, Duration::from_nanos(1_001_000))
        );
        assert!((500..=501).contains(&run.mean().as_nanos()));
        for (q, exact) in [
            (0.0, 1.0),
            (0.5, 500.0),
            (0.99, 990.0),
            (1.0, 1000.0),
            (7.0, 1000.0),
        ] {
            let found = run.quantile(q).as_nanos() as f64;
            assert!(
                found >= exact && found <= exact * 17.0 / 16.0 + 1.0,
                "{q}: {found} for {exact}"
            );
        }
        assert_eq!(run.buckets().map(|(_, count)| count).sum::<u64>(), 2000);
        assert_eq!(Distribution::default().quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn what_came_since_is_counted_bucket_by_bucket() {
        let times = Times::new(0);
        let now = |scale: Scale| {
            let mut sums = Vec::new();
            times.add_to(&mut sums, scale);
            let [.., run] = sums.swap_remove(0);
            run
        };
        (1..=100).for_each(|value| times.add(0, Measure::RunTime, value));
        let earlier = now(scale());
        times.add(0, Measure::RunTime, 50);
        times.add(0, Measure::RunTime, 1 << 20);
        // The rate of the clock is known better later, and the ends of the buckets move.
        let exact = Scale::new(
            Pair { ticks: 0, ns: 0 },
            Pair {
                ticks: 1000,
                ns: 1001,
            },
        );
        let new = now(exact).since(&earlier);
        assert_eq!(new.count(), 2);
        assert_eq!(new.buckets().map(|(_, count)| count).collect::<Vec<_>>(), [1, 1]);
        assert!(new.quantile(1.0) >= Duration::from_nanos(1 << 20));
        let sum = Duration::from_nanos((50 + (1 << 20)) * 1001 / 1000);
        assert!(
            new.sum().abs_diff(sum) < Duration::from_nanos(2),
            "{:?}",
            new.sum()
        );
        assert_eq!(now(exact).since(&now(exact)).count(), 0);
        assert_eq!(earlier.since(&Distribution::default()), earlier);
    }

    #[test]
    fn classes_are_bounded() {
        let times = Times::new(3);
        assert_eq!(times.0.len(), 4);
        assert_eq!(Times::new(0).0.len(), 1);
        assert_eq!(Times::new(255).0.len(), CLASSES);
        assert_eq!([None, Some(0), Some(6), Some(200)].map(class), [0, 1, 7, 7]);
        // A class that the pool does not have counts as the last.
        times.add(7, Measure::QueueDelay, 5);
        let mut sums = Vec::new();
        times.add_to(&mut sums, scale());
        assert_eq!(sums[3][0].count(), 1);
    }

    #[test]
    fn a_push_is_found_once_by_its_task() {
        let pushes = PushTimes::new(1000);
        pushes.pushed(0x7000_1000, Push::Spawned, 100);
        assert_eq!(pushes.take(0x7000_1040, 110), None);
        assert_eq!(pushes.take(0x7000_1000, 150), Some((Measure::QueueDelay, 50)));
        assert_eq!(pushes.take(0x7000_1000, 150), None);
        pushes.pushed(0x7000_1000, Push::Woken, 100);
        // The same task again, and a stamp from a CPU whose clock is a little behind.
        pushes.pushed(0x7000_1000, Push::Woken, 200);
        assert_eq!(pushes.take(0x7000_1000, 199), Some((Measure::WakeToRun, 0)));
    }

    #[test]
    fn a_place_is_kept_until_it_is_stale() {
        let pushes = PushTimes::new(1000);
        let first = 0x7000_1000_usize;
        let (place, _) = pushes.place(first);
        let second = (1..)
            .map(|n| first + n * 64)
            .find(|&at| std::ptr::eq(pushes.place(at).0, place));
        let second = second.expect("there are fewer places than addresses");
        pushes.pushed(first, Push::Spawned, 10);
        pushes.pushed(second, Push::Spawned, 20);
        assert_eq!(pushes.take(second, 30), None);
        pushes.pushed(second, Push::Spawned, 5000);
        assert_eq!(pushes.take(first, 5010), None);
        assert_eq!(pushes.take(second, 5010), Some((Measure::QueueDelay, 10)));
    }
}
