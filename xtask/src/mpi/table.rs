//! What the runs of several contestants say together: medians, quartiles, and ratios within a round.

use super::bench::{Catalogue, Sample};
use crate::turns::Quartiles;
use std::fmt::Write as _;

/// The contestant that the others are compared with.
pub(super) const OURS: &str = "warpweft";

fn range(values: Quartiles) -> String {
    format!("{} to {}", short(values.low), short(values.high))
}

/// The median, with the quartiles behind it.
pub(super) fn summary(values: Quartiles) -> String {
    format!("{} ({})", short(values.median), range(values))
}

/// A number in four digits.
pub(super) fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// What is measured: the samples that agree in this are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure<'a> {
    pub(super) workload: &'a str,
    pub(super) figure: &'a str,
    pub(super) ranks: usize,
    pub(super) workers: usize,
}

impl Sample {
    fn measure(&self) -> Measure<'_> {
        Measure {
            workload: &self.workload,
            figure: &self.figure,
            ranks: self.ranks,
            workers: self.workers,
        }
    }
}

/// The rounds and values of one contestant.
fn values(samples: &[Sample], measure: Measure<'_>, contestant: &str) -> Vec<(usize, f64)> {
    let of_it = |sample: &&Sample| sample.measure() == measure && sample.contestant == contestant;
    samples
        .iter()
        .filter(of_it)
        .map(|sample| (sample.round, sample.value))
        .collect()
}

/// The values of one contestant.
pub(super) fn quartiles(samples: &[Sample], measure: Measure<'_>, contestant: &str) -> Option<Quartiles> {
    let values = values(samples, measure, contestant);
    Quartiles::of(values.into_iter().map(|(_, value)| value))
}

/// Combines the values of two measures that come of the same round.
pub(super) fn paired(
    samples: &[Sample],
    (first, by): (Measure<'_>, &str),
    (second, other): (Measure<'_>, &str),
    combine: impl Fn(f64, f64) -> f64,
) -> Option<Quartiles> {
    let others = values(samples, second, other);
    let pair = |(round, value): (usize, f64)| {
        let (_, other) = others.iter().find(|(other, _)| *other == round)?;
        // A ratio to zero says nothing.
        Some(combine(value, *other)).filter(|pair| pair.is_finite())
    };
    Quartiles::of(values(samples, first, by).into_iter().filter_map(pair))
}

/// The ratio of two values. Two zeros are equal.
pub(super) fn ratio(a: f64, b: f64) -> f64 {
    if a == b { 1.0 } else { a / b }
}

/// Returns the table of all measures, in the order in which they were made. The best median of each is bold.
pub(super) fn table(samples: &[Sample]) -> String {
    let mut text = String::from(
        "| workload | ranks × workers | figure | contestant | median | quartiles | warpweft / it | |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut measures: Vec<Measure<'_>> = Vec::new();
    for sample in samples {
        if !measures.contains(&sample.measure()) {
            measures.push(sample.measure());
        }
    }
    for measure in measures {
        rows(&mut text, samples, measure);
    }
    text
}

fn rows(text: &mut String, samples: &[Sample], measure: Measure<'_>) {
    let mut contestants: Vec<&Sample> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.measure() == measure) {
        if contestants
            .iter()
            .all(|known| known.contestant != sample.contestant)
        {
            contestants.push(sample);
        }
    }
    let all: Vec<(&Sample, Quartiles)> = contestants
        .into_iter()
        .filter_map(|sample| Some((sample, quartiles(samples, measure, &sample.contestant)?)))
        .collect();
    let medians = all.iter().map(|(sample, values)| better(sample, values.median));
    let best = medians.fold(f64::INFINITY, f64::min);
    for (sample, values) in &all {
        let mut median = format!("{} {}", short(values.median), sample.unit);
        if all.len() > 1 && better(sample, values.median) == best {
            median = format!("**{median}**");
        }
        let (ours, theirs) = ((measure, OURS), (measure, &*sample.contestant));
        let against = match paired(samples, ours, theirs, ratio) {
            Some(ratios) if sample.contestant != OURS => summary(ratios),
            _ => String::new(),
        };
        // A text is written without a failure.
        let _ = writeln!(
            text,
            "| {} | {} × {} | {} | {} | {median} | {} | {against} | {} |",
            measure.workload,
            measure.ranks,
            measure.workers,
            measure.figure,
            sample.contestant,
            range(*values),
            sample.extra,
        );
    }
}

/// The value as a number of which less is better.
fn better(sample: &Sample, value: f64) -> f64 {
    if sample.is_less_better { value } else { -value }
}

/// Lists which contestants have no program for a workload, and why.
pub(super) fn left_out(catalogue: &[Catalogue]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for entry in catalogue {
        let Some(reason) = &entry.lacks else { continue };
        let jobs: Vec<String> = catalogue
            .iter()
            .filter(|other| {
                (&other.workload, &other.contestant, &other.lacks)
                    == (&entry.workload, &entry.contestant, &entry.lacks)
            })
            .map(|other| format!("{} × {}", other.ranks, other.workers))
            .collect();
        let line = format!(
            "{}, {}: {} {reason}",
            entry.workload,
            jobs.join(" and "),
            entry.contestant
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.iter().map(|line| format!("left out: {line}\n")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Catalogue, Quartiles, Sample, left_out, short, summary, table};

    /// The value of a contestant in one round, of a job of 2 ranks with one worker each.
    pub(in crate::mpi) fn sample(
        (workload, figure): (&str, &str),
        contestant: &str,
        round: usize,
        value: f64,
    ) -> Sample {
        Sample {
            workload: workload.into(),
            contestant: contestant.into(),
            ranks: 2,
            workers: 1,
            figure: figure.into(),
            value,
            unit: "µs".into(),
            is_less_better: true,
            extra: String::new(),
            round,
        }
    }

    #[test]
    fn figures_are_written_in_four_digits() {
        let values = Quartiles::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(summary(values), "2.50 (1.75 to 3.25)");
        assert_eq!(short(123.4), "123");
    }

    #[test]
    fn ratios_are_of_the_same_round_and_the_best_is_bold() {
        let trip = ("ping-pong", "round trip");
        let samples = [
            sample(trip, "warpweft", 0, 2.0),
            sample(trip, "plain", 0, 1.0),
            // A slow round is slow for both.
            sample(trip, "plain", 1, 10.0),
            sample(trip, "warpweft", 1, 20.0),
            // Of this round there is no pair.
            sample(trip, "warpweft", 2, 300.0),
        ];
        let text = table(&samples);
        assert!(
            text.contains("| plain | **5.50 µs** | 3.25 to 7.75 | 2.00 (2.00 to 2.00) |"),
            "{text}"
        );
        assert!(text.contains("| warpweft | 20.0 µs | 11.0 to 160 |  |"), "{text}");
    }

    #[test]
    fn where_more_is_better_the_largest_is_bold() {
        let mut samples = [
            sample(("t1", "rate"), "warpweft", 0, 2.0),
            sample(("t1", "rate"), "plain", 0, 1.0),
        ];
        for sample in &mut samples {
            sample.is_less_better = false;
        }
        assert!(table(&samples).contains("| warpweft | **2.00 µs** |"));
    }

    #[test]
    fn a_ratio_to_zero_is_left_out() {
        let hidden = ("overlap", "hidden");
        let samples = [
            sample(hidden, "warpweft", 0, 5.0),
            sample(hidden, "plain", 0, 0.0),
        ];
        let text = table(&samples);
        assert!(
            text.contains("| plain | **0.000 µs** | 0.000 to 0.000 |  |"),
            "{text}"
        );
    }

    #[test]
    fn who_is_left_out_is_said_once_with_the_reason() {
        let entry = |ranks: usize| Catalogue {
            workload: "t1".into(),
            contestant: "tokio".into(),
            ranks,
            workers: 1,
            smoke: 1,
            lacks: Some("has no steals".into()),
        };
        let text = left_out(&[entry(2), entry(4)]);
        assert_eq!(text, "left out: t1, 2 × 1 and 4 × 1: tokio has no steals\n");
    }
}
