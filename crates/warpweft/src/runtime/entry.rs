//! A runtime for `main`, or for a test; `#[warpweft::main]` and `#[warpweft::test]` call it.

use super::handle::Runtime;
use warpweft_policy::PolicySpec;

/// Builds a runtime, runs `body` on it from this thread, and shuts it down.
///
/// # Panics
///
/// The runtime cannot be built, or the text is not a policy. `body` has not run in that case.
#[doc(hidden)]
#[track_caller]
pub fn enter<F: Future>(workers: Option<usize>, policy: Option<&str>, body: F) -> F::Output {
    let mut builder = Runtime::builder();
    if let Some(workers) = workers {
        builder = builder.workers(workers);
    }
    if let Some(text) = policy {
        match text.parse::<PolicySpec>() {
            Ok(spec) => builder = builder.policy_spec(spec),
            Err(error) => panic!("`{text}` is no policy: {error}"),
        }
    }
    match builder.build() {
        Ok(runtime) => runtime.block_on(body),
        Err(error) => panic!("no runtime: {error}"),
    }
}
