//! A limit for the time of a check.

use crate::Verdict;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use warpweft_platform::clock::now_ns;
use warpweft_platform::sync::{Condvar, Mutex};
use warpweft_platform::thread::spawn_named;

/// How long a check may take. Those of the policies of this repository take seconds.
const LIMIT_NS: u64 = 120_000_000_000;

/// Makes a check on a thread of its own, and returns its verdict. Panics as the check does.
///
/// # Panics
///
/// The check takes longer than two minutes. Its thread is left as it is.
#[doc(hidden)]
pub fn in_time(check: impl FnOnce() -> Verdict + Send + 'static) -> Verdict {
    within(LIMIT_NS, check)
}

fn within(limit_ns: u64, check: impl FnOnce() -> Verdict + Send + 'static) -> Verdict {
    let end_ns = now_ns() + limit_ns;
    let ended = Arc::new((Mutex::new(None), Condvar::new()));
    let tells = Arc::clone(&ended);
    let body = move || {
        let verdict = catch_unwind(AssertUnwindSafe(check));
        *tells.0.lock() = Some(verdict);
        tells.1.notify_all();
    };
    let thread = spawn_named("check", None, body).expect("a thread for the check");
    let mut verdict = ended.0.lock();
    while verdict.is_none() {
        let left_ns = end_ns.saturating_sub(now_ns());
        assert!(
            left_ns > 0,
            "after {} s the check is not over: a hook of the policy does not return",
            limit_ns as f64 / 1e9
        );
        verdict = ended.1.wait_for(verdict, left_ns);
    }
    let verdict = verdict.take();
    // It is about to end.
    drop(thread.join());
    match verdict {
        Some(Ok(verdict)) => verdict,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("it was there"),
    }
}

#[cfg(test)]
mod tests {
    use super::within;
    use std::panic::catch_unwind;
    use warpweft_platform::thread::pause;

    const LONG_NS: u64 = 60_000_000_000;

    #[test]
    fn a_check_that_does_not_end_fails() {
        let panic = catch_unwind(|| {
            within(5_000_000, || {
                pause(LONG_NS);
                Ok(())
            })
        });
        let message = panic.expect_err("it does not end");
        let message = message.downcast_ref::<String>().expect("a text");
        assert!(
            message.contains("after 0.005 s") && message.contains("a hook"),
            "{message}"
        );
    }

    #[test]
    fn verdicts_and_panics_arrive() {
        assert_eq!(within(LONG_NS, || Ok(())), Ok(()));
        let slow = || {
            pause(5_000_000);
            panic!("as the check does")
        };
        let panic = catch_unwind(|| within(LONG_NS, slow)).expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"as the check does"));
    }
}
