//! Code that is meant to take long, which is no stall.

use crate::pool::current::with_current;

/// Calls `f`, which is meant to take long: it is neither reported nor counted as a stall. See
/// [`Builder::report_stalls_after`](crate::Builder::report_stalls_after) and
/// [`Runtime::stalls`](crate::Runtime::stalls).
///
/// Other workers run the tasks behind `f` as before. If `f` waits, or a half of
/// a [`join`](crate::join) in it is taken by another worker, this does not count for what comes after the
/// wait, or for the other half: call it there, too. Outside of a task, and in
/// [`spawn_blocking`](crate::spawn_blocking), which is not watched, it has no effect. Calls may be nested.
///
/// It costs about ten loads and stores.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let sum = runtime.spawn_job(|| warpweft::expect_long(|| (1..=1_000_000_u64).sum::<u64>()));
/// assert_eq!(sum.wait()?, 500_000_500_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn expect_long<R>(f: impl FnOnce() -> R) -> R {
    /// Ends the expectation, also by a panic, if it was not there before.
    struct Ends(bool);
    impl Drop for Ends {
        fn drop(&mut self) {
            if !self.0 {
                set(false);
            }
        }
    }
    let _ends = Ends(set(true));
    f()
}

/// Returns whether the code was expected to take long before.
fn set(expected: bool) -> bool {
    with_current(|worker_ref| worker_ref.is_some_and(|worker_ref| worker_ref.expect_long(expected)))
}
