//! Tests that an attribute puts on a simulated machine, in the build `--cfg warpweft_sim`: `cargo xtask sim`.
#![cfg(warpweft_sim)]

use std::process::{Command, Output};
use std::time::Duration;
use warpweft::sim::{compute, now_ns};
use warpweft::sync::Mutex;
use warpweft::{spawn, yield_now};

#[warpweft::test(sim, seed = 7, workers = 4)]
async fn an_hour_passes_at_once() {
    let before = now_ns();
    warpweft::time::sleep(Duration::from_secs(3600)).await;
    assert!(now_ns() - before >= 3_600_000_000_000);
}

#[warpweft::test(sim, seeds = 2)]
async fn hours_of_attempts_pass_at_once() {
    let before = now_ns();
    let hour = Duration::from_secs(3600);
    let retry = warpweft::time::Retry::new()
        .attempts(4)
        .first_delay(hour)
        .longest_delay(Duration::MAX);
    let failed = retry.run(|| async { Err::<(), _>("as always") }).await;
    assert_eq!(failed.err().map(|error| error.attempts), Some(4));
    // One, two and four hours, of each at least the half.
    let passed = Duration::from_nanos(now_ns() - before);
    assert!((7 * hour / 2..8 * hour).contains(&passed), "{passed:?}");
}

#[warpweft::test(
    sim,
    seeds = 3,
    machine = "epyc-7702x2",
    workers = 2,
    policy = "lifo+steal=one"
)]
async fn a_machine_and_a_policy_are_chosen() {
    assert_eq!(spawn(async { 42 }).await.expect("no panic"), 42);
}

#[warpweft::test(sim, machine = "abacus")]
#[should_panic(expected = "there is no machine \"abacus\"")]
async fn an_unknown_machine_is_named() {}

/// For the test below, which starts it in a process of its own.
#[warpweft::test(sim, seeds = 60, workers = 3)]
#[ignore = "it fails with some seeds"]
async fn a_run_that_ends_at_a_wrong_moment() {
    let order = std::sync::Arc::new(Mutex::new(Vec::new()));
    let racers = [0, 1, 2].map(|racer| {
        let order = std::sync::Arc::clone(&order);
        spawn(async move {
            yield_now().await;
            compute(1000);
            order.lock().await.push(racer);
        })
    });
    for racer in racers {
        racer.await.expect("no panic");
    }
    assert_eq!(order.lock().await.len(), 3);
    let now = now_ns();
    assert!(!now.is_multiple_of(5), "at {now} ns");
}

fn run_child(seed: Option<u64>) -> Output {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child
        .args(["--exact", "a_run_that_ends_at_a_wrong_moment"])
        .args(["--ignored", "--nocapture"])
        .env_remove("WARPWEFT_SIM_SEED");
    if let Some(seed) = seed {
        child.env("WARPWEFT_SIM_SEED", seed.to_string());
    }
    child.output().expect("it starts")
}

/// Returns what follows `before` in a text, up to `end`.
fn after<'a>(text: &'a str, before: &str, end: char) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{text}")).1;
    rest.split(end).next().expect("there is a first part")
}

#[test]
fn a_seed_that_fails_is_printed_and_repeats_the_run() {
    let all = run_child(None);
    assert!(!all.status.success(), "one of sixty seeds fails");
    let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let failed: u64 = after(&text(&all), "failed with seed ", ' ')
        .parse()
        .expect("a number");
    let time = |output: &Output| after(&text(output), "\nat ", ' ').to_owned();
    for _ in 0..2 {
        let again = run_child(Some(failed));
        assert!(!again.status.success(), "seed {failed} fails again");
        assert_eq!(time(&again), time(&all), "at the same moment");
    }
    let passes = |seed: &u64| *seed != failed && run_child(Some(*seed)).status.success();
    assert!(
        (0..60).any(|seed| passes(&seed)),
        "other seeds end at other moments"
    );
}

#[test]
fn a_seed_that_is_no_number_is_refused() {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child
        .args(["--exact", "an_hour_passes_at_once", "--nocapture"])
        .env("WARPWEFT_SIM_SEED", "seven");
    let output = child.output().expect("it starts");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("is a number, and not \"seven\""), "{text}");
}
