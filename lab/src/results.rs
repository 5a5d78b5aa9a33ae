//! The measurements of `results`: the tables of `docs/RESULTS.md`.

use harness::Measurement;

const fn of(name: &'static str, line: &'static str, quick: &'static str) -> Measurement {
    Measurement {
        name,
        line,
        quick,
        measures: &[],
    }
}

/// The same, with further figures.
const fn with(
    name: &'static str,
    line: &'static str,
    quick: &'static str,
    measures: &'static [&'static str],
) -> Measurement {
    Measurement {
        measures,
        ..of(name, line, quick)
    }
}

/// All tables, in the order of the document.
pub const MEASUREMENTS: &[Measurement] = &[
    of(
        "pcap",
        "pcap --runtime warpweft,rayon,rayon-fifo,tokio --policy fifo,lifo --workers 2",
        "n=100k",
    ),
    of(
        "packet",
        "packet/1m --runtime warpweft,rayon,rayon-fifo,tokio --policy fifo,lifo --workers 2",
        "n=100k",
    ),
    of(
        "packet-cache",
        "packet-cache --runtime warpweft,rayon,rayon-fifo,tokio --policy fifo,lifo --workers 2",
        "n=20k",
    ),
    of(
        "packet-bimodal",
        "packet-bimodal --runtime warpweft,rayon,rayon-fifo,tokio --policy fifo,lifo,shortest --workers 2",
        "n=20k",
    ),
    with(
        "spawn",
        "spawn/batch --runtime warpweft,smol,tokio,forte --policy fifo,lifo --workers 1,2",
        "n=200k",
        &["ns_per_task"],
    ),
    with(
        "spawn-one",
        "spawn/one n=300k --runtime warpweft,smol,tokio --policy fifo,lifo --workers 1,2",
        "n=50k",
        &["ns_per_task"],
    ),
    with(
        "spawn-scope",
        "spawn/scope --runtime warpweft,rayon,forte --policy fifo --workers 1,2",
        "n=200k",
        &["ns_per_task"],
    ),
    with(
        "parked",
        "parked --runtime warpweft,smol,tokio --policy fifo --workers 2",
        "n=100k",
        &["bytes_per_task", "create_ns", "wake_ns"],
    ),
    of(
        "fib",
        "fork-join/fib --runtime warpweft,rayon,chili,forte,sequential --policy fifo --workers 1,2",
        "n=28",
    ),
    of(
        "quicksort",
        "fork-join/quicksort --runtime warpweft,rayon,chili,forte --policy fifo --workers 1,2",
        "n=200k",
    ),
    of(
        "matmul",
        "fork-join/matmul --runtime warpweft,rayon,chili,forte --policy fifo --workers 1,2",
        "n=256",
    ),
    with(
        "loops",
        "loops --runtime warpweft,rayon,orx-parallel --policy fifo --workers 1,2",
        "loops=40",
        &["us_per_loop"],
    ),
    with(
        "loops-map",
        "loops/map --runtime warpweft,rayon,orx-parallel --policy fifo --workers 1,2",
        "loops=40",
        &["us_per_loop"],
    ),
    with(
        "loops-skewed",
        "loops/skewed --runtime warpweft,rayon,orx-parallel --policy fifo --workers 1,2",
        "loops=8",
        &["us_per_loop"],
    ),
    with(
        "loops-small",
        "loops/small --runtime warpweft,rayon,orx-parallel --policy fifo --workers 1,2",
        "loops=4k",
        &["us_per_loop"],
    ),
    with(
        "pingpong",
        "pingpong --runtime warpweft,tokio,smol,may,go --policy fifo --workers 1,2",
        "n=50k",
        &["ns_per_round_trip"],
    ),
    with(
        "lock",
        "lock/global --runtime warpweft,tokio,smol,may --policy fifo --workers 1,2",
        "n=500k",
        &["ns_per_operation"],
    ),
    of(
        "http",
        "http --runtime warpweft,tokio,tokio+rayon,monoio,go --policy fifo --workers 2",
        "n=20k",
    ),
    with(
        "mixed",
        "mixed --runtime warpweft,tokio+rayon --policy fifo --workers 2",
        "millis=200",
        &["wake_alone_p99_us"],
    ),
    with(
        "latency-hiding",
        "mapreducefib --runtime warpweft,tokio,tokio+rayon --policy fifo --workers 2",
        "n=200 wait=20 fib=20",
        &["ratio_to_limit"],
    ),
    of(
        "timers",
        "timers --runtime warpweft,tokio --policy fifo --workers 2",
        "n=50k lead=500",
    ),
    with(
        "cycle",
        "cycle --runtime warpweft,tokio,smol,may,go --policy fifo --workers 1,2",
        "ms=100",
        &["least"],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_can_be_run_in_both_sizes() {
        let lab = crate::lab([]);
        for one in MEASUREMENTS {
            for line in [one.line.to_owned(), format!("{} {}", one.line, one.quick)] {
                let jobs = lab.plan(&format!("bench {line}"));
                assert!(jobs.is_ok_and(|jobs| jobs.len() == 1), "{line}");
            }
        }
    }
}
