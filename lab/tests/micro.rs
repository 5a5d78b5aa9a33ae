//! The micro-benchmarks on all that can run them, for some milliseconds: what is counted is complete,
//! and wrong requests say what would be right.

mod common;

use common::{Folder, complaint, say};
use serde_json::Value;

/// The records of one `bench --json`, each run once.
fn records(name: &str, words: &str) -> Vec<Value> {
    let folder = Folder::new(name);
    let said = say(folder.path(), &format!("bench {words} --repeat 1 --json"));
    assert_eq!(said.code, Some(0), "{words}: {}", said.err);
    said.out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is a JSON object"))
        .collect()
}

fn measure(record: &Value, name: &str) -> f64 {
    let value = record["measures"][name].as_f64();
    value.unwrap_or_else(|| panic!("no {name}: {record}"))
}

/// Runs it on all that are named, and says how many records there must be.
fn runs(name: &str, words: &str, runtimes: &str, contestants: usize) -> Vec<Value> {
    let records = records(name, &format!("{words} --runtime {runtimes}"));
    assert!(records.len() >= contestants, "{} of {contestants}", records.len());
    for record in &records {
        assert!((0.0..=1.0).contains(&measure(record, "least")), "{record}");
        let throughput = record["throughput"].as_f64().unwrap_or_default();
        let workers = record["workers"].as_f64().unwrap_or_default();
        // A machine that pauses may leave a window of some milliseconds without a turn.
        if throughput > 0.0 {
            let scaled = workers / throughput * 1e9;
            assert!((measure(record, "workers_over_throughput_ns") / scaled - 1.0).abs() < 1e-6);
        }
    }
    assert!(
        records
            .iter()
            .any(|record| record["operations"].as_u64() > Some(0))
    );
    records
}

/// Those whose tasks park.
const PARK: &str = "warpweft,tokio,smol,may,threads";
/// Policies that differ in where they put a task that is woken, and one that yields.
const POLICIES: &str = "--policy fifo,lifo,deque,negele,libfibre";

#[test]
fn cycle_runs_on_those_that_park() {
    let words = format!("cycle rings=3 ms=30 {POLICIES} --workers 1,2,4");
    runs("cycle", &words, PARK, 3 * 9);
    runs("cycle-one", "cycle/one ring=2 ms=20 --workers 2", PARK, 4);
    runs(
        "cycle-fibers",
        "cycle/fibers rings=3 ms=20 --workers 1,2",
        "warpweft",
        2,
    );
}

#[test]
fn yield_runs_on_those_that_park() {
    let words = format!("yield tasks=5 ms=30 {POLICIES} --workers 1,2,4");
    runs("yield", &words, PARK, 3 * 9);
    runs("yield-one", "yield/one ms=20 --workers 1,2", PARK, 10);
    runs(
        "yield-fibers",
        "yield/fibers tasks=5 ms=20 --workers 1,2",
        "warpweft",
        2,
    );
}

#[test]
fn churn_runs_on_those_that_park() {
    let words = format!("churn tasks=5 ms=30 {POLICIES} --workers 1,2,4");
    runs("churn", &words, PARK, 3 * 9);
    runs("churn-few", "churn/few ms=20 --workers 1,2", PARK, 10);
    runs("churn-sem", "churn/sem tasks=5 ms=20 --workers 1,2", PARK, 10);
    runs(
        "churn-fibers",
        "churn/fibers tasks=5 ms=20 --workers 1,2",
        "warpweft",
        2,
    );
    runs(
        "churn-sem-fibers",
        "churn/fibers form=sem tasks=5 ms=20 --workers 2",
        "warpweft",
        1,
    );
    // One more spot, and all could wait.
    runs("churn-most", "churn tasks=3 spots=4 ms=20 --workers 2", PARK, 5);
}

#[test]
fn locality_runs_on_those_that_park() {
    let words = format!("locality tasks=5 ms=30 {POLICIES} --workers 1,2,4");
    runs("share", &words, PARK, 3 * 9);
    runs(
        "noshare",
        "locality/noshare tasks=5 ms=20 --workers 1,2",
        PARK,
        10,
    );
    runs(
        "one-cell",
        "locality cells=1 touched=1 tasks=5 ms=20 --workers 2",
        PARK,
        5,
    );
    runs(
        "locality-fibers",
        "locality/fibers tasks=5 ms=20 --workers 2",
        "warpweft",
        1,
    );
}

/// The records of `transfer`, and what did not complete.
fn transfers(name: &str, words: &str) -> (Vec<Value>, String) {
    let folder = Folder::new(name);
    let said = say(
        folder.path(),
        &format!("bench transfer/{words} ms=20 --repeat 1 --json"),
    );
    let records: Vec<Value> = said
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is a JSON object"))
        .collect();
    for record in &records {
        let terms = record["operations"].as_f64().unwrap_or_default();
        let seconds = record["seconds"].as_f64().unwrap_or_default();
        assert!(
            terms > 0.0 && record["latency"]["count"].as_f64() == Some(terms),
            "{record}"
        );
        let micros = measure(record, "us_per_leadership");
        assert!((micros * terms / (seconds * 1e6) - 1.0).abs() < 1e-6, "{record}");
        assert!(
            record["latency"]["max"].as_f64().unwrap_or_default() / 1e3 >= 0.99 * micros,
            "{record}"
        );
    }
    (records, said.err)
}

#[test]
fn transfer_completes_where_who_is_ready_is_taken_elsewhere() {
    let (records, err) = transfers(
        "transfer",
        "park-another tasks=10 --runtime warpweft,tokio,smol,threads --workers 2",
    );
    assert_eq!(records.len(), 4, "{err}");
    // More threads than processors: a leader that spins holds up those that are needed.
    let (records, err) = transfers(
        "transfer-8",
        "park tasks=3 --runtime warpweft,threads --workers 8",
    );
    assert_eq!(records.len(), 2, "{err}");
    let (records, err) = transfers("transfer-yield", "yield tasks=5 --runtime threads --workers 1,2");
    assert_eq!(records.len(), 2, "{err}");
}

#[test]
fn a_leadership_that_is_too_long_ends_the_run_and_is_told() {
    // With one worker no other task can see the leader, as long as none takes its worker away from it.
    let words = "yield tasks=5 longest=200 --runtime tokio,smol --workers 1";
    let (records, err) = transfers("transfer-dnc", words);
    assert!(records.is_empty(), "{records:?}");
    for runtime in ["tokio", "smol"] {
        let line =
            format!("{runtime}, 1 worker on transfer/yield: a leadership took more than 200 ms, after 0");
        assert!(err.contains(&line), "{err}");
    }
    assert!(err.contains("did not complete"), "{err}");
}

#[test]
fn go_runs_them_if_it_is_installed() {
    elsewhere("go");
}

#[test]
fn java_runs_them_if_it_is_installed() {
    elsewhere("java");
}

/// Runs all in a process that is not Rust.
fn elsewhere(runtime: &str) {
    let folder = Folder::new(&format!("micro-{runtime}"));
    for words in [
        "cycle rings=3",
        "cycle/waits rings=1 ring=2",
        "yield/waits tasks=3",
        "churn tasks=5",
        "churn/sem tasks=5",
        "locality/share tasks=5",
        "locality/noshare tasks=5",
        "transfer/park tasks=5",
        "transfer/park-another tasks=5",
        "transfer/yield tasks=5",
    ] {
        // A carrier that has tasks does not steal from one that spins: what is behind that is never found,
        // always where the others yield, and now and then where they park.
        if runtime == "java" && words.starts_with("transfer/") {
            continue;
        }
        let words =
            format!("bench {words} ms=20 --runtime {runtime} --workers 2 --limit 30 --repeat 1 --json");
        let said = say(folder.path(), &words);
        if said.err.contains("not installed") {
            assert_eq!(said.code, Some(2));
            return;
        }
        assert_eq!(said.code, Some(0), "{words}: {}", said.err);
    }
}

#[test]
fn waits_are_timed_if_that_is_asked_for() {
    for workload in ["cycle/waits rings=2", "yield/waits tasks=4"] {
        for record in runs("waits", &format!("{workload} ms=20 --workers 2"), PARK, 5) {
            let longest = measure(&record, "longest_wait_us");
            assert!(longest > 0.0, "{record}");
        }
        let untimed = records("untimed", "yield tasks=2 ms=5 --workers 1");
        assert!(untimed[0]["measures"]["longest_wait_us"].is_null());
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::new("micro-refused");
    let complaint = |words: &str| complaint(folder.path(), words, 2);
    assert!(complaint("bench cycle rings=0").contains("rings for each worker"));
    assert!(complaint("bench cycle ring=1").contains("from 2 to"));
    assert!(complaint("bench yield tasks=0").contains("from 1 to"));
    assert!(complaint("bench yield ms=0").contains("milliseconds"));
    assert!(complaint("bench yield clock=maybe").contains("off, on"));
    assert!(complaint("bench cycle/ones").contains("did you mean `one`?"));
    assert!(
        complaint("bench churn tasks=1 --workers 2").contains("as many tasks as spots and workers together")
    );
    assert!(complaint("bench churn tasks=3 spots=5 --workers 2").contains("6 tasks and 5 spots"));
    assert!(complaint("bench locality tasks=1 --workers 1").contains("1 task and 0 spots"));
    assert!(complaint("bench transfer tasks=1 --workers 1").contains("at least tasks=2"));
    for runtime in ["rayon", "chili", "sequential", "tokio+rayon"] {
        let text = complaint(&format!("bench cycle --runtime {runtime} --workers 1"));
        assert!(text.contains(runtime), "{text}");
    }
}
