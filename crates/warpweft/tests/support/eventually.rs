//! Waits for what another thread is about to do.

use std::thread;
use std::time::{Duration, Instant};

/// Waits until the condition is true. It is asked every millisecond.
///
/// # Panics
///
/// If it takes more than a minute: the message says what did not come true.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
