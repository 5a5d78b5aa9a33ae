//! The rows that `compare --against` guards: what a change must not make slower.
//!
//! A run takes about half a second, so that pairs of runs are many. Two programs of different sizes say more
//! than one that takes twice as long.

use std::borrow::Cow;

use harness::{Better, Figure, Guard, GuardSet};

/// Operations per second.
const RATE: &[Figure] = &[Figure::RATE];
/// The time of a task.
const PER_TASK: &[Figure] = &[Figure::less("ns_per_task")];
/// The time of an operation.
const PER_OPERATION: &[Figure] = &[Figure::less("ns_per_operation")];
/// The time of a node.
const PER_NODE: &[Figure] = &[Figure::less("ns_per_node")];

/// A line that runs for a time.
const fn timed(name: &'static str, line: &'static str) -> Guard {
    Guard {
        name,
        line,
        quick: "ms=100",
        figures: RATE,
    }
}

/// The sets.
pub const SETS: &[GuardSet] = &[GuardSet {
    name: "ground",
    guards: GROUND,
}];

/// Where a peer is or was ahead: what talks between two workers, servers, forks and memory.
const GROUND: &[Guard] = &[
    Guard {
        name: "http/hello",
        line: "http/hello n=40k --workers 1,2",
        quick: "n=10k",
        figures: &[Figure::RATE, Figure::less("p99")],
    },
    Guard {
        name: "http/compute",
        line: "http/compute n=20k --workers 2",
        quick: "n=5k",
        figures: &[Figure::RATE, Figure::less("light_p999_us")],
    },
    timed("cycle", "cycle --workers 1,2"),
    timed("cycle/one-fibers", "cycle/fibers rings=1 --workers 1,2"),
    timed("churn", "churn --workers 1,2"),
    timed("churn/fibers", "churn/fibers --workers 1,2"),
    timed("locality/share", "locality/share --workers 2"),
    timed("locality/noshare", "locality/noshare --workers 2"),
    Guard {
        name: "spawn/fire",
        line: "spawn/fire --workers 1,2",
        quick: "n=200k",
        figures: PER_TASK,
    },
    Guard {
        name: "spawn/scope",
        line: "spawn/scope --workers 1,2",
        quick: "n=200k",
        figures: PER_TASK,
    },
    Guard {
        name: "treesum",
        line: "fork-join/treesum --workers 1,2",
        quick: "sums=20",
        figures: PER_NODE,
    },
    Guard {
        name: "treesum/one",
        line: "fork-join/treesum n=1 --workers 1,2",
        quick: "sums=1m",
        figures: PER_NODE,
    },
    Guard {
        name: "packet-bimodal",
        line: "packet-bimodal n=20k --workers 2",
        quick: "n=10k take=10",
        figures: &[Figure::less("light_p99_us")],
    },
    Guard {
        name: "mapreducefib",
        line: "mapreducefib n=400 fib=25 base=20 --workers 2",
        quick: "n=100 wait=50",
        figures: &[Figure::less("ratio_to_limit")],
    },
    Guard {
        name: "parked/semaphore",
        line: "parked/semaphore n=200k --workers 2",
        quick: "n=50k",
        figures: &[Figure::less("bytes_per_task"), Figure::less("wake_ns")],
    },
    Guard {
        name: "lock/local",
        line: "lock/local tasks=16 n=4m --workers 2",
        quick: "n=1m",
        figures: PER_OPERATION,
    },
    Guard {
        name: "lock/global",
        line: "lock/global tasks=16 n=1m --workers 2",
        quick: "n=200k",
        figures: PER_OPERATION,
    },
    Guard {
        name: "transfer/yield",
        line: "transfer/yield --workers 2",
        quick: "ms=100",
        figures: &[Figure::less("us_per_leadership")],
    },
    Guard {
        name: "mixed",
        line: "mixed millis=400 --workers 2",
        quick: "millis=200",
        figures: &[Figure::RATE, Figure::less("p99"), KEPT],
    },
    Guard {
        name: "ticks",
        line: "ticks n=500 --workers 2",
        quick: "n=200",
        figures: &[Figure::less("cpu_percent")],
    },
    Guard {
        name: "timers",
        line: "timers --workers 2",
        quick: "n=50k lead=500 spread=200",
        figures: &[Figure::less("p99"), Figure::less("bytes_per_task")],
    },
];

/// What the sorts keep of the machine beside the echoes.
const KEPT: Figure = Figure {
    name: Cow::Borrowed("cpu_kept"),
    better: Better::More,
};

#[cfg(test)]
mod tests {
    use super::*;
    use harness::Files;
    use std::collections::BTreeSet;
    use std::time::Duration;

    #[test]
    fn every_row_can_be_run_in_both_sizes_and_has_its_own_name() {
        let lab = crate::lab([]);
        let mut names = BTreeSet::new();
        for guard in GROUND {
            assert!(
                names.insert(guard.name) && !guard.name.contains(','),
                "{}",
                guard.name
            );
            for further in ["", guard.quick] {
                let jobs = lab.plan(&format!("bench {} {further}", guard.line));
                let jobs = jobs.unwrap_or_else(|error| panic!("{}: {error}", guard.name));
                assert_eq!(jobs.len(), 1, "{}", guard.name);
                let runtimes = jobs[0].cells.iter().map(|cell| cell.runtime);
                assert!(
                    runtimes.into_iter().all(|name| name == "warpweft"),
                    "{}",
                    guard.name
                );
            }
        }
    }

    #[test]
    fn a_run_of_each_row_has_the_figures_that_are_judged() {
        let lab = crate::lab([]);
        for guard in GROUND {
            let job = lab.plan(&format!("bench {}", guard.line)).unwrap().remove(0);
            let workload = guard.line.split_whitespace().next().unwrap();
            let chosen = lab
                .choose(workload, true, &[], &Files::default(), Duration::MAX)
                .unwrap();
            let request = harness::Request {
                runtime: job.cells[0].runtime.to_owned(),
                policy: job.cells[0].policy.clone(),
                workers: 2,
                ..chosen.request(Files::default())
            };
            let outcome = lab
                .run(&request)
                .unwrap_or_else(|error| panic!("{}: {error}", guard.name));
            for figure in guard.figures {
                let value = figure.of(&outcome);
                let there = value.is_some() || (cfg!(not(target_os = "linux")) && figure.name != "rate");
                assert!(
                    there,
                    "{} has no {}: {:?}",
                    guard.name, figure.name, outcome.measures
                );
            }
        }
    }
}
