//! Recursion without end: a report that names the thread, and no silent corruption.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#![allow(clippy::disallowed_methods, reason = "a child process is what is tested")]

use std::process::Command;
use warpweft::{ForkCx, Runtime};

const CHILD: &str = "WARPWEFT_TEST_OVERFLOW";

#[allow(unconditional_recursion, reason = "it is what is tested")]
fn endless(cx: ForkCx<'_>) -> u64 {
    let (a, b) = cx.join(endless, endless);
    a.wrapping_add(b)
}

#[test]
fn recursion_without_end_is_reported() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::builder()
            .workers(2)
            .name("deep")
            .build()
            .expect("two workers");
        let _ = runtime.install(endless);
        unreachable!("it does not end");
    }
    let executable = std::env::current_exe().expect("a test executable");
    let child = Command::new(executable)
        .args(["--exact", "recursion_without_end_is_reported", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("a child process");
    assert!(!child.status.success());
    let report = String::from_utf8_lossy(&child.stderr);
    assert!(
        report.contains("deep-") && report.contains("overflowed its stack"),
        "{report}"
    );
}
