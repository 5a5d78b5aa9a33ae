//! What a program loses that takes one policy for everything: the worst ratio of each policy to the best one
//! of a line, over all lines.

use std::io::{self, Write};

use crate::summary::Row;
use crate::text::Table;

/// A ratio, and the line in which it was measured.
#[derive(Clone, Debug, PartialEq)]
struct Worst {
    ratio: f64,
    line: String,
}

/// What one policy loses.
#[derive(Clone, Debug, PartialEq)]
struct Losses {
    policy: String,
    /// The lines in which it was measured beside others.
    lines: usize,
    /// The least rate as a part of the best policy's.
    rate: Option<Worst>,
    /// The mean of those parts, as a geometric mean.
    mean: f64,
    /// The largest p99, in multiples of the best policy's.
    p99: Option<Worst>,
}

/// Prints them, if several policies were measured in several lines.
pub(super) fn print(output: &mut dyn Write, lines: &[(&str, &[Row])]) -> io::Result<()> {
    let losses = losses(lines);
    if losses.len() < 2 || losses.iter().all(|one| one.lines < 2) {
        return Ok(());
    }
    writeln!(
        output,
        "\nOne policy for all lines, as a part of the best one's rate and in multiples of the least p99:\n"
    )?;
    let mut table = Table::of_figures(&["policy", "lines", "mean rate", "worst rate", "worst p99", "where"]);
    for one in losses {
        let (rate, p99) = (one.rate.as_ref(), one.p99.as_ref());
        let places = rate.into_iter().chain(p99).map(|worst| worst.line.as_str());
        table.row(vec![
            one.policy.clone(),
            one.lines.to_string(),
            format!("{:.2}", one.mean),
            rate.map_or_else(String::new, |worst| format!("{:.2}", worst.ratio)),
            p99.map_or_else(String::new, |worst| format!("{:.1}", worst.ratio)),
            places.collect::<Vec<_>>().join("; "),
        ]);
    }
    table.print(output)
}

/// Returns the losses of each policy, the one with the best worst rate first.
fn losses(lines: &[(&str, &[Row])]) -> Vec<Losses> {
    let mut policies: Vec<&str> = Vec::new();
    for row in lines
        .iter()
        .flat_map(|(_, rows)| *rows)
        .filter(|row| row.is_policy)
    {
        if !policies.contains(&row.contestant.as_str()) {
            policies.push(&row.contestant);
        }
    }
    let mut all: Vec<Losses> = policies.into_iter().map(|policy| of(policy, lines)).collect();
    let worst = |one: &Losses| one.rate.as_ref().map_or(0.0, |worst| worst.ratio);
    all.sort_by(|one, other| worst(other).total_cmp(&worst(one)));
    all
}

fn of(policy: &str, lines: &[(&str, &[Row])]) -> Losses {
    let mut losses = Losses {
        policy: policy.to_owned(),
        lines: 0,
        rate: None,
        mean: 0.0,
        p99: None,
    };
    let mut logarithms = 0.0;
    for (name, rows) in lines {
        let own = rows
            .iter()
            .filter(|row| row.is_policy && row.contestant == policy);
        for row in own {
            // A policy that does not end is as slow as can be.
            let rate = match (&row.over_best_policy, &row.failure) {
                (Some(ratio), None) => ratio.median.min(1.0),
                (_, Some(_)) => 0.0,
                (None, None) => continue,
            };
            let line = format!("{name}, {} workers", row.workers);
            losses.lines += 1;
            logarithms += rate.max(0.001).ln();
            keep(&mut losses.rate, rate, &line, |new, old| new < old);
            if let Some(ratio) = &row.p99_over_best_policy {
                keep(&mut losses.p99, ratio.median.max(1.0), &line, |new, old| {
                    new > old
                });
            }
        }
    }
    losses.mean = (logarithms / losses.lines.max(1) as f64).exp();
    losses
}

/// Keeps the ratio if it is worse than the one that is there.
fn keep(worst: &mut Option<Worst>, ratio: f64, line: &str, is_worse: fn(f64, f64) -> bool) {
    if worst.as_ref().is_none_or(|old| is_worse(ratio, old.ratio)) {
        *worst = Some(Worst {
            ratio,
            line: line.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{self, tests::session};

    #[test]
    fn the_worst_line_of_each_policy_counts() {
        let rows = |fifo: &[f64], lifo: &[f64], p99: [u64; 2]| {
            summary::rows(&session(&[
                ("home", Some("fifo"), 2, fifo, p99[0]),
                ("home", Some("lifo"), 2, lifo, p99[1]),
                ("rayon", None, 2, &[100.0; 4], 1),
            ]))
        };
        let (first, second) = (
            rows(&[10.0; 4], &[5.0; 4], [1, 3]),
            rows(&[9.0; 4], &[10.0; 4], [8, 2]),
        );
        let lines = [("one", first.as_slice()), ("other", second.as_slice())];
        let losses = losses(&lines);
        let found: Vec<_> = losses
            .iter()
            .map(|one| (one.policy.as_str(), one.lines, one.rate.as_ref().unwrap()))
            .collect();
        let worst = |ratio: f64, line: &str| Worst {
            ratio,
            line: format!("{line}, 2 workers"),
        };
        assert_eq!(
            found,
            [("fifo", 2, &worst(0.9, "other")), ("lifo", 2, &worst(0.5, "one"))]
        );
        let p99: Vec<_> = losses.iter().map(|one| one.p99.as_ref().unwrap()).collect();
        assert!((p99[0].ratio - 4.0).abs() < 0.01 && p99[0].line == "other, 2 workers");
        assert!((p99[1].ratio - 3.0).abs() < 0.01 && p99[1].line == "one, 2 workers");
        let mut text = Vec::new();
        print(&mut text, &lines).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("fifo") && text.contains("0.90") && text.contains("4.0"),
            "{text}"
        );
        text.lines().for_each(|line| assert!(line.len() <= 110, "{line}"));
    }

    #[test]
    fn one_policy_or_one_line_is_no_choice() {
        let one = summary::rows(&session(&[("home", Some("fifo"), 2, &[1.0; 4], 1)]));
        let two = summary::rows(&session(&[
            ("home", Some("fifo"), 2, &[1.0; 4], 1),
            ("home", Some("lifo"), 2, &[2.0; 4], 1),
        ]));
        for lines in [vec![("one", &*one), ("other", &*one)], vec![("one", &*two)]] {
            let mut text = Vec::new();
            print(&mut text, &lines).unwrap();
            assert!(text.is_empty());
        }
    }
}
