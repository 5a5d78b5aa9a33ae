//! Latencies: buckets that a handler can fill for a few nanoseconds, and the figures read from them.
//!
//! ```text
//!  value (ns)   0 … 255      256 … 511    512 … 1023    …   2^39 … 2^40
//!  buckets      one each     128 of 2     128 of 4      …   128 of 2^32
//! ```
//!
//! The layout is that of an HDR histogram with 128 buckets per octave: a value is off by less than 0.4 % when
//! it is read back as the middle of its bucket. The buckets of all threads are merged into an
//! [`hdrhistogram::Histogram`] after the run, which knows how to read percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Buckets per octave, as a power of two.
const OCTAVE_BITS: u32 = 7;
/// Values of this many bits or more are counted in the last bucket: 2^40 ns are 18 minutes.
const VALUE_BITS: u32 = 40;
/// The number of buckets.
pub const BUCKETS: usize = ((VALUE_BITS - OCTAVE_BITS + 1) as usize) << OCTAVE_BITS;

/// The bucket of a value, below [`BUCKETS`] always.
#[inline]
pub fn bucket_of(nanos: u64) -> usize {
    let value = nanos.min((1 << VALUE_BITS) - 1);
    let bits = u64::BITS - value.leading_zeros();
    let shift = bits.saturating_sub(OCTAVE_BITS + 1);
    ((shift as usize) << OCTAVE_BITS) + (value >> shift) as usize
}

/// The middle of a bucket: the value for all it counted.
pub fn middle_of(bucket: usize) -> u64 {
    let shift = (bucket >> OCTAVE_BITS).saturating_sub(1);
    let lowest = ((bucket - (shift << OCTAVE_BITS)) as u64) << shift;
    lowest + ((1_u64 << shift) >> 1)
}

/// The percentiles that are drawn, as shares; a plot of all buckets would show no more.
const DRAWN: [f64; 26] = [
    0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.985, 0.99,
    0.995, 0.9975, 0.999, 0.9995, 0.99975, 0.9999, 0.99999, 1.0,
];

/// The latencies of one run, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The number of latencies.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 99 % were no longer.
    pub p99: u64,
    /// 99.9 % were no longer.
    pub p999: u64,
    /// 99.99 % were no longer.
    pub p9999: u64,
    /// The longest.
    pub max: u64,
    /// Points of the curve: (share, nanoseconds), rising.
    pub curve: Vec<(f64, u64)>,
}

/// An empty histogram that takes every value of a bucket.
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1 << (VALUE_BITS + 1), 3).expect("the bounds are constants that fit")
}

/// Reads the figures from a histogram; `None` when it is empty.
pub(crate) fn read(histogram: &Histogram<u64>) -> Option<Latency> {
    if histogram.is_empty() {
        return None;
    }
    let at = |share: f64| histogram.value_at_quantile(share);
    Some(Latency {
        count: histogram.len(),
        mean: histogram.mean(),
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        p9999: at(0.9999),
        max: histogram.max(),
        curve: DRAWN.iter().map(|share| (*share, at(*share))).collect(),
    })
}

/// Adds `count` values of a bucket to a histogram.
pub fn add_bucket(histogram: &mut Histogram<u64>, bucket: usize, count: u64) {
    histogram.saturating_record_n(middle_of(bucket).max(1), count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_ordered() {
        let mut last = bucket_of(0);
        assert_eq!(last, 0);
        for value in 1..200_000_u64 {
            let bucket = bucket_of(value);
            assert!(
                bucket == last || bucket == last + 1,
                "{value} jumps from {last} to {bucket}"
            );
            last = bucket;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_middle_of_a_bucket_is_in_it_and_near_the_value() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..100_000 {
            let bits = random.u32(1..40);
            let value = random.u64(..1 << bits);
            let middle = middle_of(bucket_of(value));
            assert_eq!(bucket_of(middle), bucket_of(value));
            assert!(
                middle.abs_diff(value) as f64 <= value as f64 * 0.004 + 0.5,
                "{value} became {middle}"
            );
        }
    }

    #[test]
    fn percentiles_agree_with_the_sorted_values() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut draw = || {
            let bits = random.u32(4..24);
            100 + random.u64(..1 << bits)
        };
        let mut values: Vec<u64> = (0..50_000).map(|_| draw()).collect();
        let mut histogram = empty_histogram();
        for value in &values {
            add_bucket(&mut histogram, bucket_of(*value), 1);
        }
        values.sort_unstable();
        let latency = read(&histogram).unwrap();
        assert_eq!(latency.count, 50_000);
        for (share, read) in [(0.5, latency.p50), (0.99, latency.p99), (0.999, latency.p999)] {
            let exact = values[((values.len() as f64 * share).ceil() as usize) - 1];
            let off = read.abs_diff(exact) as f64 / exact as f64;
            assert!(off < 0.006, "p{share}: {read} against {exact}");
        }
        assert!(
            latency.curve.windows(2).all(|pair| pair[0].1 <= pair[1].1),
            "the curve rises"
        );
    }

    #[test]
    fn nothing_measured_is_nothing_read() {
        assert!(read(&empty_histogram()).is_none());
    }
}
