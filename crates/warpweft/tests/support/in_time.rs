//! Tests that fail where they would hang.

use std::sync::mpsc;
use std::time::Duration;

/// Calls `test` on a thread of its own. A test that hangs fails, and its thread is left.
pub(crate) fn in_time(test: impl FnOnce() + Send + 'static) {
    let (tell, end) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        // The test waits, or has failed.
        let _ = tell.send(());
    });
    match end.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
}
