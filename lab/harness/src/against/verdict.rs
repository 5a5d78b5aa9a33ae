//! What may be said about a row: a loss, a gain, or neither, from ratios within rounds.
//!
//! A ratio is a *cost*: this program over the baseline where less is better, the baseline over this program
//! where more is. So above 1 this program is worse, whatever the figure.
//!
//! The test is the sign test, turned into an interval: by rank, an interval holds the true median of the
//! costs but for a known probability, whatever their distribution. It needs pairs that are independent of
//! each other. It needs no quiet machine: what disturbs a round disturbs both of its runs.
//!
//! Two things would make that probability larger than it says, and both are paid for:
//!
//! - Rows are many. [`ERROR`] is the probability that *any* verdict of a session is wrong, shared equally by
//!   all figures.
//! - A row that is not decided gets more rounds, and so is looked at several times. The k-th look spends
//!   2⁻ᵏ of the figure's share. So the intervals of all looks hold the true median together, and what they
//!   have in common is what is known: a later look takes nothing back.

use serde::Serialize;

use crate::plan::Better;
use crate::stats::{Spread, least_sample, median_interval, spread};

/// The probability that any verdict of a session is wrong.
pub(crate) const ERROR: f64 = 0.05;

/// The outcome for a figure of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The interval is above 1: this program is worse.
    Loss,
    /// The interval is below 1: this program is better.
    Gain,
    /// The interval holds 1.
    NotToldApart,
}

impl Verdict {
    /// Returns the verdict in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Gain => "gain",
            Self::NotToldApart => "not told apart",
        }
    }
}

/// The costs of a figure, and what they show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Judged {
    /// Median and quartiles of the costs.
    pub(crate) cost: Spread,
    /// The interval that holds the true median: what those of all looks have in common; `None` for too few
    /// pairs.
    pub(crate) interval: Option<(f64, f64)>,
    /// The probability that the interval misses it, spent by all looks together.
    pub(crate) error: f64,
    /// What that means.
    pub(crate) verdict: Verdict,
}

impl Judged {
    /// Judges costs with that error; `None` if there are none.
    pub(crate) fn of(costs: &[f64], error: f64) -> Option<Self> {
        let interval = median_interval(costs, error);
        Some(Self {
            cost: spread(costs)?,
            interval,
            error,
            verdict: verdict(interval),
        })
    }

    /// The same after an earlier look at fewer pairs.
    pub(crate) fn after(self, earlier: Self) -> Self {
        let interval = match (earlier.interval, self.interval) {
            // One of two that have nothing in common is wrong: the earlier one stands.
            (Some(a), Some(b)) => Some((a.0.max(b.0), a.1.min(b.1)))
                .filter(|(low, high)| low <= high)
                .or(Some(a)),
            (earlier, later) => earlier.or(later),
        };
        Self {
            cost: self.cost,
            interval,
            error: earlier.error + self.error,
            verdict: verdict(interval),
        }
    }

    /// Returns true if the loss is greater than this share, such as 0.03.
    pub(crate) fn loses_more_than(&self, share: f64) -> bool {
        self.interval.is_some_and(|(low, _)| low > 1.0 + share)
    }

    /// Returns true if more pairs could still change what matters: whether there is a loss of more than
    /// `margin`, or a difference at all where a gain of as much is possible.
    pub(crate) fn is_open(&self, margin: f64) -> bool {
        let Some((low, high)) = self.interval else {
            return true;
        };
        let holds = |value: f64| low <= value && value <= high;
        holds(1.0 + margin) || (holds(1.0) && holds(1.0 / (1.0 + margin)))
    }
}

/// The verdict on an interval of the median cost.
pub(crate) fn verdict(interval: Option<(f64, f64)>) -> Verdict {
    match interval {
        Some((low, _)) if low > 1.0 => Verdict::Loss,
        Some((_, high)) if high < 1.0 => Verdict::Gain,
        _ => Verdict::NotToldApart,
    }
}

/// The cost of a pair of figures; `None` if one is no positive number.
pub(crate) fn cost(better: Better, baseline: f64, this: f64) -> Option<f64> {
    let cost = match better {
        Better::Less => this / baseline,
        Better::More => baseline / this,
    };
    Some(cost).filter(|cost| cost.is_finite() && *cost > 0.0)
}

/// A cost as this program over the baseline, in the figure's own direction.
pub(crate) fn as_ratio(better: Better, cost: f64) -> f64 {
    match better {
        Better::Less => cost,
        Better::More => 1.0 / cost,
    }
}

/// When figures are looked at, and which error each look spends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    share: f64,
}

impl Looks {
    /// Looks at this number of figures.
    pub(crate) fn at(figures: usize) -> Self {
        Self {
            share: ERROR / figures.max(1) as f64,
        }
    }

    /// The error that a figure may spend in all.
    pub(crate) fn share(self) -> f64 {
        self.share
    }

    /// The error that the look of this number, from 0, spends.
    pub(crate) fn error(self, look: u32) -> f64 {
        self.share / 2.0_f64.powi(look.saturating_add(1).min(900) as i32)
    }

    /// The pairs that the look of this number needs: as many as show anything for the first one, half as many
    /// again for each later one.
    pub(crate) fn pairs(self, look: u32) -> usize {
        let first = least_sample(self.error(0)) as f64;
        let wanted = (first * 1.5_f64.powi(look.min(40) as i32)).ceil() as usize;
        wanted.max(least_sample(self.error(look)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs around `middle`, a hundredth to either side.
    fn around(middle: f64, count: usize) -> Vec<f64> {
        (0..count)
            .map(|at| middle * (1.0 + 0.01 * (at as f64 / count as f64 - 0.5)))
            .collect()
    }

    #[test]
    fn a_loss_a_gain_and_neither_are_told_from_the_pairs() {
        let judged = |middle: f64| Judged::of(&around(middle, 20), 0.001).unwrap();
        assert_eq!(judged(1.05).verdict, Verdict::Loss);
        assert_eq!(judged(0.9).verdict, Verdict::Gain);
        assert_eq!(judged(1.0).verdict, Verdict::NotToldApart);
        assert!(judged(1.05).loses_more_than(0.03) && !judged(1.05).loses_more_than(0.06));
        assert!(!judged(1.0).loses_more_than(0.0) && !judged(0.9).loses_more_than(0.0));
        assert!(Judged::of(&[], 0.05).is_none());
    }

    #[test]
    fn few_pairs_show_nothing_however_great_the_loss() {
        let judged = Judged::of(&[2.0; 9], 0.001).unwrap();
        assert_eq!((judged.interval, judged.verdict), (None, Verdict::NotToldApart));
        assert!(judged.is_open(0.03) && !judged.loses_more_than(0.03));
        let enough = Judged::of(&[2.0; 11], 0.001).unwrap();
        assert_eq!(enough.verdict, Verdict::Loss);
    }

    #[test]
    fn a_row_stays_open_while_a_loss_above_the_margin_is_possible() {
        let open = |low: f64, high: f64| {
            let judged = Judged {
                interval: Some((low, high)),
                ..Judged::of(&[1.0; 20], 0.01).unwrap()
            };
            judged.is_open(0.03)
        };
        assert!(open(0.99, 1.04), "is there a loss of 3 %?");
        assert!(open(1.01, 1.05), "a loss, but of how much?");
        assert!(open(0.96, 1.02), "no loss, but is it a gain?");
        assert!(!open(1.04, 1.08), "a loss for certain");
        assert!(!open(0.98, 1.02), "alike for all that matters");
        assert!(!open(0.90, 0.99), "a gain");
        assert!(!open(1.01, 1.02), "a loss that is smaller for certain");
    }

    #[test]
    fn a_later_look_takes_nothing_back() {
        let look = |middle: f64, width: f64| {
            let interval = Some((middle - width, middle + width));
            Judged {
                interval,
                verdict: verdict(interval),
                ..Judged::of(&[middle; 20], 0.01).unwrap()
            }
        };
        let loss = look(1.03, 0.02);
        let after = look(1.01, 0.02).after(loss);
        assert_eq!((loss.verdict, after.verdict), (Verdict::Loss, Verdict::Loss));
        let (low, high) = after.interval.unwrap();
        assert!((low - 1.01).abs() < 1e-9 && (high - 1.03).abs() < 1e-9);
        assert!((after.error - 0.02).abs() < 1e-9);
        assert_eq!(after.cost.median, 1.01);
        // A gain that contradicts it does not hide it.
        assert_eq!(look(0.9, 0.02).after(loss).interval, loss.interval);
        let none = Judged::of(&[1.0; 3], 0.01).unwrap();
        assert_eq!(loss.after(none).interval, loss.interval);
        assert_eq!(none.after(none).verdict, Verdict::NotToldApart);
    }

    #[test]
    fn more_is_better_turns_the_ratio_round() {
        assert_eq!(cost(Better::More, 100.0, 50.0), Some(2.0));
        assert_eq!(cost(Better::Less, 100.0, 50.0), Some(0.5));
        assert_eq!(as_ratio(Better::More, 2.0), 0.5);
        assert_eq!(as_ratio(Better::Less, 2.0), 2.0);
        for (baseline, this) in [(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0)] {
            assert_eq!(cost(Better::Less, baseline, this), None);
            assert_eq!(cost(Better::More, baseline, this), None);
        }
    }

    #[test]
    fn all_looks_at_all_figures_spend_no_more_than_the_error() {
        for figures in [1, 7, 60] {
            let looks = Looks::at(figures);
            let spent: f64 = (0..50).map(|look| looks.error(look)).sum();
            assert!(spent * figures as f64 <= ERROR, "{figures} figures");
            for look in 0..12 {
                let pairs = looks.pairs(look);
                assert!(
                    pairs >= least_sample(looks.error(look)),
                    "a look that can show nothing"
                );
                assert!(looks.pairs(look + 1) > pairs);
            }
        }
    }
}
