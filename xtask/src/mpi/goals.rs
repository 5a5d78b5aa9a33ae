//! The goals of `warpweft-mpi`, A1 to A9, and what the runs say of them.

use super::bench::Sample;
use super::launchers::Path;
use super::table::{Measure, OURS, paired, quartiles, ratio, short, summary};
use crate::turns::Quartiles;

/// One goal and the figure that decides it.
#[derive(Debug, Clone, PartialEq)]
struct Goal {
    name: &'static str,
    what: &'static str,
    limit: &'static str,
    figure: String,
    /// `None` if it was not measured.
    is_met: Option<bool>,
}

/// Returns the table of all goals.
pub(super) fn table(samples: &[Sample], path: Path) -> String {
    let mut text = String::from("| goal | what | limit | figure | |\n|---|---|---|---|---|\n");
    for goal in goals(samples, path) {
        let verdict = match goal.is_met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "not measured",
        };
        text += &format!(
            "| {} | {} | {} | {} | {verdict} |\n",
            goal.name, goal.what, goal.limit, goal.figure
        );
    }
    text
}

fn goals(samples: &[Sample], path: Path) -> Vec<Goal> {
    let mut goals = vec![
        Goal {
            name: "A1",
            what: "tests with 1, 2 and 4 ranks",
            limit: "all pass",
            figure: String::from("by `cargo xtask mpi`"),
            is_met: None,
        },
        latency(samples, path),
        at_most(
            "A3",
            ("a completion with many outstanding", "300 ns", 300.0),
            quartiles(samples, of("outstanding", "completion"), OURS),
        ),
    ];
    for (what, figure) in [
        ("remote data after 50 ms", "50 ms, of the limit"),
        ("remote data after 100 ms", "100 ms, of the limit"),
    ] {
        let values = quartiles(samples, of("remote-data", figure), OURS);
        goals.push(at_most("A4", (what, "1.03 × the limit", 1.03), values));
    }
    goals.push(overlap(samples));
    for (workload, what) in [
        ("t1", "T1, rate of 2 ranks × 1 of that of 1 × 2"),
        ("t3", "T3, rate of 2 ranks × 1 of that of 1 × 2"),
    ] {
        let rates = rates(samples, workload, (2, 1), (1, 2));
        goals.push(goal("A6", what, "0.9", rates, |rate| rate >= 0.9));
    }
    for (ranks, what) in [
        (2, "wake-ups of an idle rank of 2"),
        (4, "wake-ups of an idle rank of 4"),
    ] {
        goals.push(idle(samples, ranks, what));
    }
    let memory = quartiles(samples, of("drops", "memory"), OURS);
    // A byte for each of a million receives would be more. A killed rank is for `cargo xtask mpi`.
    goals.push(at_most(
        "A8",
        ("memory after a million dropped receives", "976 KiB", 976.0),
        memory,
    ));
    for (workload, what) in [
        ("t1", "T1, time of 4 ranks of that of 2"),
        ("t3", "T3, time of 4 ranks of that of 2"),
    ] {
        // The times are as the rates the other way round.
        let times = rates(samples, workload, (2, 1), (4, 1));
        goals.push(at_most("A9", (what, "1.3", 1.3), times));
    }
    goals
}

/// A measure of two ranks with a worker each.
fn of<'a>(workload: &'a str, figure: &'a str) -> Measure<'a> {
    Measure {
        workload,
        figure,
        ranks: 2,
        workers: 1,
    }
}

fn goal(
    name: &'static str,
    what: &'static str,
    limit: &'static str,
    values: Option<Quartiles>,
    is_met: impl Fn(f64) -> bool,
) -> Goal {
    Goal {
        name,
        what,
        limit,
        figure: values.map(summary).unwrap_or_default(),
        is_met: values.map(|values| is_met(values.median)),
    }
}

fn at_most(
    name: &'static str,
    (what, limit, most): (&'static str, &'static str, f64),
    values: Option<Quartiles>,
) -> Goal {
    goal(name, what, limit, values, |value| value <= most)
}

/// Against a loop of `MPI_Test` in the same round: a difference through shared memory, and a ratio over TCP.
fn latency(samples: &[Sample], path: Path) -> Goal {
    let trip = of("ping-pong", "round trip");
    let pairs = |combine: fn(f64, f64) -> f64| paired(samples, (trip, OURS), (trip, "plain"), combine);
    match path {
        Path::SharedMemory => at_most(
            "A2",
            ("a round trip, more than by `MPI_Test`", "0.5 µs", 0.5),
            pairs(|ours, plain| ours - plain),
        ),
        Path::Tcp => at_most(
            "A2",
            ("a round trip, of that by `MPI_Test`", "1.15 ×", 1.15),
            pairs(ratio),
        ),
    }
}

/// What plain MPI hides by calls of `MPI_Test` is what the MPI and the machine allow.
fn overlap(samples: &[Sample]) -> Goal {
    let hidden = of("overlap", "hidden");
    let values = quartiles(samples, hidden, OURS);
    let mut goal = goal(
        "A5",
        "share of an exchange that is hidden",
        "80 %",
        values,
        |share| share >= 80.0,
    );
    if let (true, Some(plain)) = (values.is_some(), quartiles(samples, hidden, "plain")) {
        goal.figure += &format!("; by `MPI_Test` {}", short(plain.median));
    }
    goal
}

fn idle(samples: &[Sample], ranks: usize, what: &'static str) -> Goal {
    let of = |figure| Measure {
        ranks,
        ..of("idle", figure)
    };
    let wakes = quartiles(samples, of("wake-ups"), OURS);
    let mut goal = at_most("A7", (what, "0/s", 0.0), wakes);
    if let Some(cpu) = quartiles(samples, of("of a core"), OURS) {
        goal.figure += &format!("; {} % of a core", short(cpu.median));
    }
    goal
}

/// The ratio of two rates of a search, in numbers of ranks and workers.
fn rates(
    samples: &[Sample],
    workload: &str,
    first: (usize, usize),
    second: (usize, usize),
) -> Option<Quartiles> {
    let rate = |(ranks, workers)| Measure {
        workload,
        figure: "rate",
        ranks,
        workers,
    };
    paired(samples, (rate(first), OURS), (rate(second), OURS), ratio)
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::sample;
    use super::{Path, Sample, goals, table};

    fn verdict(samples: &[Sample], path: Path, name: &str) -> Option<bool> {
        let goals = goals(samples, path);
        goals.iter().find(|goal| goal.name == name).unwrap().is_met
    }

    #[test]
    fn a_round_trip_is_judged_by_its_path() {
        let trip = ("ping-pong", "round trip");
        let samples = [
            sample(trip, "warpweft", 0, 10.4),
            sample(trip, "plain", 0, 10.0),
            sample(trip, "warpweft", 1, 1.4),
            sample(trip, "plain", 1, 1.0),
        ];
        assert_eq!(verdict(&samples, Path::SharedMemory, "A2"), Some(true));
        // 1.04 and 1.4.
        assert_eq!(verdict(&samples, Path::Tcp, "A2"), Some(false));
        assert_eq!(verdict(&samples[..1], Path::Tcp, "A2"), None);
    }

    #[test]
    fn four_ranks_may_take_a_little_longer_than_two() {
        let rate = |ranks, value| Sample {
            ranks,
            ..sample(("t1", "rate"), "warpweft", 0, value)
        };
        let at = |value| verdict(&[rate(2, 4.0), rate(4, value)], Path::Tcp, "A9");
        assert_eq!(at(3.2), Some(true));
        assert_eq!(at(2.9), Some(false));
    }

    #[test]
    fn what_plain_mpi_hides_is_said_beside_the_goal() {
        let hidden = ("overlap", "hidden");
        let samples = [
            sample(hidden, "warpweft", 0, 25.0),
            sample(hidden, "plain", 0, 30.0),
        ];
        let text = table(&samples, Path::Tcp);
        assert!(
            text.contains("| 80 % | 25.0 (25.0 to 25.0); by `MPI_Test` 30.0 | **missed** |"),
            "{text}"
        );
        assert!(text.contains("| A3 | a completion with many outstanding | 300 ns |  | not measured |"));
    }
}
