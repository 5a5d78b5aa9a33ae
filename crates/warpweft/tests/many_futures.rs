//! The cost of a hundred thousand futures that wait at the same time, under the policies that hide latency.
//! Alone in its process, which it measures.
#![cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]

use std::thread;
use std::time::{Duration, Instant};
use warpweft::policy::Count;
use warpweft::time::sleep;
use warpweft::{JoinError, JoinHandle, Runtime, spawn};

const LEAVES: usize = 100_000;

/// The most that each of them may cost: the task, its timer, and its deque.
const MOST: usize = 300;

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

/// Waits until `done`, which will be soon.
fn until(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(300), "it hangs");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A task spawns the leaves, so that they are in its deque, and each leaves a deque behind when it begins to
/// wait.
fn leaves(policy: &str) {
    let runtime = Runtime::builder()
        .workers(2)
        .policy_spec(policy.parse().expect("a preset"))
        .build()
        .expect("workers");
    let before = resident();
    let spawner = runtime.spawn(async {
        let leaf = |_| spawn(sleep(Duration::from_secs(3600)));
        (0..LEAVES).map(leaf).collect::<Vec<_>>()
    });
    let leaves = spawner.wait().expect("no panic");
    let waiting = || runtime.counters().total().get(Count::Suspensions) as usize;
    until(|| waiting() >= LEAVES);
    let each = (resident() - before) / LEAVES;
    println!("{policy}: {each} bytes for a leaf that waits");
    assert!(each <= MOST, "{policy}: {each} bytes for a leaf that waits");
    // All are woken at once, faster than two workers can take them.
    assert!(leaves.iter().all(JoinHandle::cancel), "each of them waits");
    let most = (resident() - before) / LEAVES;
    println!("{policy}: {most} bytes for one that was woken");
    assert!(most <= MOST, "{policy}: {most} bytes for a leaf that was woken");
    for leaf in leaves {
        assert!(matches!(leaf.wait(), Err(JoinError::Cancelled)));
    }
    runtime.shutdown();
}

#[test]
fn a_hundred_thousand_leaves_that_wait() {
    leaves("prows");
    leaves("parsimonious");
}
