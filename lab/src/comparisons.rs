//! The lines of `compare`.

use harness::{Comparison, Published};

use crate::published;

/// Contestants whose tasks park, or send.
const ALL: &[&str] = &["warpweft", "tokio", "smol", "may", "threads", "go", "java"];
/// Contestants that have stacks to switch.
const STACKS: &[&str] = &["warpweft", "may"];

/// A line of a micro-benchmark.
const fn micro(name: &'static str, workload: &'static str) -> Comparison {
    Comparison {
        name,
        workload,
        quick: &["ms=100"],
        runtimes: ALL,
        ..Comparison::NEW
    }
}

/// A line in which all workers are busy all the time, so that one with fewer tasks serves them more often.
const fn busy(name: &'static str, published: &'static Published) -> Comparison {
    Comparison {
        policies: &["fifo+rebalance=16"],
        published: Some(published),
        ..micro(name, name)
    }
}

/// Tasks that wake each other and work on arrays.
const fn locality(name: &'static str) -> Comparison {
    Comparison {
        policies: &["fifo+woken=last"],
        published: Some(&published::LOCALITY),
        ..micro(name, name)
    }
}

/// A line of a micro-benchmark on stacks.
const fn fibers(name: &'static str, workload: &'static str, settings: &'static [&'static str]) -> Comparison {
    Comparison {
        settings,
        runtimes: STACKS,
        ..micro(name, workload)
    }
}

/// Leaders that spin.
const fn transfer(name: &'static str) -> Comparison {
    Comparison {
        crowded: true,
        may_not_complete: true,
        published: Some(&published::TRANSFER),
        ..micro(name, name)
    }
}

/// A concurrent program, in the size in which it was published.
const fn program(name: &'static str) -> Comparison {
    Comparison {
        quick: &[],
        published: Some(&published::PROGRAMS),
        ..micro(name, name)
    }
}

/// The same in a size that was not published.
const fn unpublished(name: &'static str) -> Comparison {
    Comparison {
        published: None,
        ..program(name)
    }
}

/// A workload of tasks that do something, for what a policy does to a program.
const fn work(name: &'static str, quick: &'static [&'static str]) -> Comparison {
    Comparison {
        quick,
        runtimes: &["warpweft", "rayon", "tokio", "smol", "go"],
        ..micro(name, name)
    }
}

/// All lines, in the order of the page.
pub const LINES: &[Comparison] = &[
    busy("cycle", &published::CYCLE),
    micro("cycle/one", "cycle/one"),
    fibers("cycle/fibers", "cycle/fibers", &[]),
    fibers("cycle/one-fibers", "cycle/fibers", &["rings=1"]),
    busy("yield", &published::YIELD),
    micro("yield/one", "yield/one"),
    fibers("yield/fibers", "yield/fibers", &[]),
    fibers("yield/one-fibers", "yield/fibers", &["tasks=1"]),
    Comparison {
        published: Some(&published::CHURN),
        ..micro("churn", "churn")
    },
    micro("churn/few", "churn/few"),
    micro("churn/sem", "churn/sem"),
    locality("locality/share"),
    locality("locality/noshare"),
    transfer("transfer/park"),
    transfer("transfer/park-another"),
    transfer("transfer/yield"),
    unpublished("create"),
    unpublished("create/all"),
    unpublished("switch"),
    program("city"),
    program("eratosthenes"),
    program("mandelbrot"),
    unpublished("matrix"),
    program("news"),
    program("producer"),
    program("producer/pairs64"),
    program("token-ring"),
    work("packet", &[]),
    work("packet-cache", &["n=20k"]),
    work("packet-bimodal", &["n=20k"]),
    work("options", &["n=5k"]),
    work("spawn/batch", &["n=200k"]),
    work("spawn/one", &["n=50k"]),
    work("pingpong", &["n=50k"]),
    work("lock/global", &["n=500k"]),
    work("fork-join/fib", &["n=28"]),
    work("fork-join/quicksort", &["n=200k"]),
    work("mapreducefib", &["n=200", "wait=20", "fib=20"]),
    work("mixed", &["millis=200"]),
    work("http", &["n=20k"]),
    work("timers", &["n=50k", "lead=500"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_line_is_a_workload_with_settings_and_policies_that_it_has() {
        let lab = crate::lab([]);
        for options in ["", " --quick"] {
            let jobs = lab.plan(&format!("compare{options}")).unwrap();
            let names: BTreeSet<_> = LINES.iter().map(|line| line.name).collect();
            assert_eq!(
                (jobs.len(), names.len()),
                (LINES.len(), LINES.len()),
                "each line has its own name"
            );
        }
        let fibers = lab
            .plan("compare cycle/fibers --workers 1 --policy fifo,lifo")
            .unwrap();
        let cells = fibers[0].cells.iter().map(harness::Cell::contestant);
        assert_eq!(cells.collect::<Vec<_>>(), ["fifo", "lifo", "may"]);
    }

    #[test]
    fn joins_are_explored_against_what_joins() {
        let names = |line: &str| -> BTreeSet<&str> {
            let jobs = crate::lab([]).plan(line).unwrap();
            jobs[0].cells.iter().map(|cell| cell.runtime).collect()
        };
        assert_eq!(
            names("explore fork-join"),
            BTreeSet::from(["warpweft", "rayon", "chili", "forte", "sequential"])
        );
        assert_eq!(
            names("explore packet"),
            BTreeSet::from(["warpweft", "rayon", "tokio"])
        );
        assert_eq!(crate::lab([]).plan("explore").unwrap()[0].chosen.name, "pcap");
    }
}
