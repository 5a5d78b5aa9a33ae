//! A test in a process of its own: the test program starts itself once more, for this one test.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};

/// The name of the test whose body the process runs.
const ROLE: &str = "WARPWEFT_CHILD_TEST";

/// Starts a child process that runs `body`: this test, called again with the variable set. Returns `None` in
/// the child, after `body`. `test` is the test's path within its program.
pub(crate) fn child(test: &str, body: fn()) -> Option<Child> {
    if std::env::var(ROLE).is_ok_and(|role| role == test) {
        // SAFETY: it ends a child that hangs, and the test with it.
        unsafe { libc::alarm(600) };
        body();
        return None;
    }
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, test)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    Some(child.expect("a child"))
}

/// Waits for the child, which must end well. Returns what it wrote to its standard error stream.
pub(crate) fn said(mut child: Child) -> String {
    let mut text = String::new();
    let stderr = child.stderr.as_mut().expect("it is piped");
    stderr.read_to_string(&mut text).expect("it is text");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}: {text}");
    text
}

/// Runs `body` in a child process, which must end well.
#[allow(dead_code, reason = "some tests need the child itself")]
pub(crate) fn in_child(test: &str, body: fn()) {
    if let Some(child) = child(test, body) {
        let text = said(child);
        if text.contains("skipped") {
            eprintln!("{text}");
        }
    }
}
