//! A wait for a program wakes no thread until it has ended.

use crate::eventually::eventually;
use std::fs;
use std::thread::sleep;
use std::time::Duration;
use warpweft::Runtime;
use warpweft::process::{Command, Stdio};

/// How often the threads whose names begin so went to sleep.
fn sleeps_of(name: &str) -> u64 {
    let mut sleeps = 0;
    for thread in fs::read_dir("/proc/self/task").expect("threads").flatten() {
        let text = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        if text("comm").starts_with(name) {
            let status = text("status");
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sleeps += line.map_or(0, |count| count.trim().parse().expect("a number"));
        }
    }
    sleeps
}

#[test]
fn a_wait_polls_nothing() {
    let runtime = Runtime::builder()
        .workers(2)
        .name("waits")
        .build()
        .expect("workers");
    let mut child = runtime
        .block_on(async { Command::new("cat").stdin(Stdio::piped()).spawn() })
        .expect("it starts");
    let stdin = child.stdin.take();
    let wait = runtime.spawn(async move { child.wait().await });
    // All have gone to sleep when nothing changes any more.
    eventually("the workers sleep", || {
        let before = sleeps_of("waits");
        sleep(Duration::from_millis(10));
        before > 0 && sleeps_of("waits") == before
    });
    let before = sleeps_of("waits");
    sleep(Duration::from_millis(40));
    assert_eq!(sleeps_of("waits"), before, "a thread woke up meanwhile");
    drop(stdin);
    assert!(wait.wait().expect("no panic").expect("it ends").success());
}
