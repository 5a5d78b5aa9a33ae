//! Statistics over repeated runs: medians, quartiles, paired ratios, and what may be said about them.
//!
//! Runs on a shared machine are neither normal nor independent of the minute they ran in. So everything here
//! is by rank (medians, quartiles), and contestants are compared within a round (paired), where the machine
//! was the same for both.

use serde::Serialize;

/// Fewer pairs than this show nothing: see [`Ratio::interval`].
pub(crate) const PAIRS_NEEDED: usize = 6;

/// The least difference that is worth advice.
pub(crate) const LEAST: f64 = 0.03;

/// Median and quartiles of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// A quarter of the sample is no greater.
    pub(crate) low: f64,
    /// The middle.
    pub(crate) median: f64,
    /// A quarter of the sample is no smaller.
    pub(crate) high: f64,
    /// The size of the sample.
    pub(crate) runs: usize,
}

/// The quantile of an ascending sample, linear between neighbours; `sorted` is not empty.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = at.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// The sample in ascending order, without what is no number.
fn ascending(sample: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = sample.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Median and quartiles; `None` for an empty sample.
pub(crate) fn spread(sample: &[f64]) -> Option<Spread> {
    let sorted = ascending(sample);
    if sorted.is_empty() {
        return None;
    }
    Some(Spread {
        low: quantile(&sorted, 0.25),
        median: quantile(&sorted, 0.5),
        high: quantile(&sorted, 0.75),
        runs: sorted.len(),
    })
}

/// The median; `None` for an empty sample.
pub(crate) fn median(sample: &[f64]) -> Option<f64> {
    spread(sample).map(|spread| spread.median)
}

/// A ratio of two contestants, measured in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    /// The median of the ratios.
    pub(crate) median: f64,
    /// The interval that holds the true median with at least 95 %, or with what was asked for; `None` for too
    /// few pairs.
    pub(crate) interval: Option<(f64, f64)>,
    /// The number of pairs.
    pub(crate) pairs: usize,
}

impl Ratio {
    /// Returns true if the pairs show a difference: the interval is on one side of 1.
    pub(crate) fn is_shown(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }
}

/// The pairs that are needed to show a difference in one of `comparisons`: see [`family_error`].
pub(crate) fn pairs_needed(comparisons: usize) -> usize {
    least_sample(family_error(comparisons))
}

/// The error of each of `comparisons` with which none of all is wrong with 95 % (Bonferroni).
pub(crate) fn family_error(comparisons: usize) -> f64 {
    ERROR / comparisons.max(1) as f64
}

/// The share of cases in which an interval of [`paired_ratio`] may miss the true median.
const ERROR: f64 = 0.05;

/// The interval that misses the true median with a probability of at most `error`, by rank; `None` if the
/// sample is too small for that.
pub(crate) fn median_interval(sample: &[f64], error: f64) -> Option<(f64, f64)> {
    let sorted = ascending(sample);
    let rank = interval_rank(sorted.len(), error)?;
    Some((sorted[rank], sorted[sorted.len() - 1 - rank]))
}

/// The least size of a sample for which [`median_interval`] knows an interval.
pub(crate) fn least_sample(error: f64) -> usize {
    (1..).find(|n| interval_rank(*n, error).is_some()).unwrap_or(1)
}

/// The ratio `above / below` over the rounds in which both ran; `None` when there is no such round.
///
/// Both slices hold one entry per round; `None` is a run that was set aside or failed.
pub(crate) fn paired_ratio(above: &[Option<f64>], below: &[Option<f64>]) -> Option<Ratio> {
    paired_ratio_within(above, below, ERROR)
}

/// The same with an interval that misses the true median with a probability of at most `error`.
pub(crate) fn paired_ratio_within(above: &[Option<f64>], below: &[Option<f64>], error: f64) -> Option<Ratio> {
    let ratios: Vec<f64> = above
        .iter()
        .zip(below)
        .filter_map(|(a, b)| Some((*a)? / (*b)?))
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect();
    let sorted = ascending(&ratios);
    if sorted.is_empty() {
        return None;
    }
    Some(Ratio {
        median: quantile(&sorted, 0.5),
        interval: median_interval(&sorted, error),
        pairs: sorted.len(),
    })
}

/// The number of values to leave out at each end so that the rest misses the true median with a
/// probability of at most `error`.
///
/// The number of values below the true median is binomial(n, 1/2); the interval from the (k+1)-th smallest to
/// the (k+1)-th greatest misses it with probability 2·P(B ≤ k). No assumption about the distribution. For an
/// error of 5 % even the whole range is not enough below six values.
fn interval_rank(n: usize, error: f64) -> Option<usize> {
    // By logarithms: of more than a thousand values the probability of none is less than any `f64`.
    let mut logarithm = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = logarithm.exp();
    if 2.0 * tail > error {
        return None;
    }
    for rank in 0..n / 2 {
        logarithm += ((n - rank) as f64 / (rank + 1) as f64).ln();
        tail += logarithm.exp();
        if 2.0 * tail > error {
            return Some(rank);
        }
    }
    Some(n.saturating_sub(1) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_neighbours() {
        let spread = spread(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            (spread.low, spread.median, spread.high, spread.runs),
            (1.75, 2.5, 3.25, 4)
        );
    }

    #[test]
    fn one_value_is_its_own_spread_and_none_has_none() {
        let one = spread(&[5.0]).unwrap();
        assert_eq!((one.low, one.median, one.high), (5.0, 5.0, 5.0));
        assert!(spread(&[]).is_none());
        assert!(spread(&[f64::NAN, f64::INFINITY]).is_none());
    }

    #[test]
    fn the_interval_of_very_many_values_is_that_of_the_normal_distribution() {
        for n in [1000, 2000, 20_000, 1_000_000] {
            let rank = interval_rank(n, 0.05).expect("they are enough") as f64;
            let expected = n as f64 / 2.0 - 1.96 * (n as f64).sqrt() / 2.0;
            assert!((rank - expected).abs() < 2.0, "{n}: {rank} and {expected}");
        }
        let sorted: Vec<f64> = (0..5000).map(f64::from).collect();
        let (low, high) = median_interval(&sorted, 0.05).expect("they are enough");
        assert!(
            low < 2500.0 && 2499.0 < high && high - low < 200.0,
            "{low} {high}"
        );
    }

    #[test]
    fn the_interval_of_ten_leaves_one_out_at_each_end() {
        // 2·P(B ≤ 1) = 2·11/1024 = 2.1 %, 2·P(B ≤ 2) = 2·56/1024 = 10.9 %.
        assert_eq!(interval_rank(10, ERROR), Some(1));
        assert_eq!(interval_rank(PAIRS_NEEDED - 1, ERROR), None);
        assert_eq!(interval_rank(PAIRS_NEEDED, ERROR), Some(0));
        assert_eq!(interval_rank(20, ERROR), Some(5));
    }

    #[test]
    fn a_smaller_error_needs_more_values_and_a_wider_interval() {
        // 2·2⁻ⁿ ≤ 0.001 from eleven values on.
        assert_eq!((least_sample(ERROR), least_sample(0.001)), (PAIRS_NEEDED, 11));
        let sample: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(median_interval(&sample, ERROR), Some((6.0, 15.0)));
        // 2·P(B ≤ 2) = 2·211/2²⁰ = 0.04 %, 2·P(B ≤ 3) = 0.26 %.
        assert_eq!(median_interval(&sample, 0.001), Some((3.0, 18.0)));
        assert_eq!(median_interval(&sample[..10], 0.001), None);
    }

    #[test]
    fn more_comparisons_need_more_pairs() {
        assert_eq!([0, 1, 3, 20, 50].map(pairs_needed), [6, 6, 7, 10, 11]);
        let (slow, fast) = ([Some(1.1); 8], [Some(1.0); 8]);
        assert!(paired_ratio_within(&slow, &fast, family_error(6)).is_some_and(|ratio| ratio.is_shown()));
        assert!(!paired_ratio_within(&slow, &fast, family_error(20)).is_some_and(|ratio| ratio.is_shown()));
    }

    #[test]
    fn a_steady_difference_is_shown_and_noise_is_not() {
        let slow: Vec<Option<f64>> = (0..10).map(|i| Some(100.0 + f64::from(i))).collect();
        let fast: Vec<Option<f64>> = slow.iter().map(|v| v.map(|v| v * 1.1)).collect();
        let ratio = paired_ratio(&fast, &slow).unwrap();
        assert!((ratio.median - 1.1).abs() < 1e-9 && ratio.is_shown());

        let noisy: Vec<Option<f64>> = slow
            .iter()
            .enumerate()
            .map(|(i, v)| v.map(|v| if i % 2 == 0 { v * 1.1 } else { v * 0.9 }))
            .collect();
        assert!(!paired_ratio(&noisy, &slow).unwrap().is_shown());
    }

    #[test]
    fn pairing_takes_the_machine_out() {
        // The machine gets ten times slower half-way; the ratio within a round does not notice.
        let phase = |i: usize| if i < 5 { 1.0 } else { 10.0 };
        let a: Vec<Option<f64>> = (0..10).map(|i| Some(2.0 * phase(i))).collect();
        let b: Vec<Option<f64>> = (0..10).map(|i| Some(phase(i))).collect();
        let ratio = paired_ratio(&a, &b).unwrap();
        assert_eq!((ratio.median, ratio.interval), (2.0, Some((2.0, 2.0))));
    }

    #[test]
    fn rounds_that_one_missed_are_no_pairs() {
        let a = [Some(2.0), None, Some(4.0)];
        let b = [Some(1.0), Some(1.0), None];
        assert_eq!(paired_ratio(&a, &b).unwrap().pairs, 1);
        assert!(paired_ratio(&[None], &[Some(1.0)]).is_none());
    }

    #[test]
    fn few_pairs_show_nothing() {
        let a = [Some(2.0); 5];
        let b = [Some(1.0); 5];
        assert!(!paired_ratio(&a, &b).unwrap().is_shown());
    }
}
