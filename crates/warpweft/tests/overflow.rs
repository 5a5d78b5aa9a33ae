//! Recursion without end: a report that names the thread, and no silent corruption.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

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
    let report = report_of("recursion_without_end_is_reported");
    assert!(
        report.contains("deep-") && report.contains("overflowed its stack"),
        "{report}"
    );
}

fn endless_fiber(n: u64) -> u64 {
    warpweft::fiber::yield_now();
    if n == 0 {
        0
    } else {
        std::hint::black_box(endless_fiber(n + 1)) + 1
    }
}

/// The report of a child process in which this test overflows a fiber.
fn report_of(test: &str) -> String {
    report_of_child(test, "1")
}

/// The same, with a word for the child.
fn report_of_child(test: &str, word: &str) -> String {
    let executable = std::env::current_exe().expect("a test executable");
    let child = Command::new(executable)
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, word)
        .output()
        .expect("a child process");
    assert!(!child.status.success());
    String::from_utf8_lossy(&child.stderr).into_owned()
}

#[test]
#[cfg(unix)]
fn a_fiber_that_overflows_is_named() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let ended = warpweft::TaskBuilder::new()
            .name("parser")
            .on(&runtime)
            .spawn_fiber(|| endless_fiber(1))
            .wait();
        unreachable!("it does not end: {ended:?}");
    }
    let report = report_of("a_fiber_that_overflows_is_named");
    assert!(
        report.contains("fiber 'parser' (spawned at crates/warpweft/tests/overflow.rs:"),
        "{report}"
    );
    assert!(report.contains("has overflowed its stack of 64 KiB"), "{report}");
}

#[test]
#[cfg(unix)]
fn a_handled_body_that_overflows_is_named() {
    let overflow = || warpweft::effect::handle(|| endless_fiber(1), warpweft::effect::Handler::new());
    match std::env::var(CHILD).as_deref() {
        Err(_) => {}
        Ok("1") => unreachable!("it does not end: {}", overflow()),
        Ok(_) => {
            let runtime = Runtime::builder().workers(1).build().expect("one worker");
            unreachable!("it does not end: {:?}", runtime.spawn_fiber(overflow).wait());
        }
    }
    for place in ["1", "in a fiber"] {
        let report = report_of_child("a_handled_body_that_overflows_is_named", place);
        assert!(
            report.contains("handled body (spawned at crates/warpweft/tests/overflow.rs:"),
            "{report}"
        );
        assert!(report.contains("has overflowed its stack of 64 KiB"), "{report}");
    }
}

#[test]
#[cfg(unix)]
fn a_wild_pointer_in_a_fiber_is_no_overflow() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let ended = runtime
            .spawn_fiber(|| {
                let nowhere = std::hint::black_box(std::ptr::without_provenance::<u8>(4096));
                // SAFETY: nothing is mapped there, which is what this tests: the process ends by the signal.
                unsafe { nowhere.read_volatile() }
            })
            .wait();
        unreachable!("it does not end: {ended:?}");
    }
    let report = report_of("a_wild_pointer_in_a_fiber_is_no_overflow");
    assert!(!report.contains("overflowed"), "{report}");
}
