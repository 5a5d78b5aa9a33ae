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

/// Runs `body` on a new runtime on a simulated machine, once for each seed: from `seed` on, as many as
/// `seeds` says.
///
/// Each run is a process, which runs this test alone: where blocks of the heap begin is a part of a run, and
/// depends on what the process did before. `name` is the path of the test.
///
/// # Panics
///
/// The body panics, or waits for ever: the text has the seed and what the run printed. There is no such
/// machine, or `WARPWEFT_SIM_SEED` is not a number. In a build without `--cfg warpweft_sim` it panics in any
/// case.
#[doc(hidden)]
#[track_caller]
pub fn simulate<F>(
    name: &str,
    machine: Option<&str>,
    (seed, seeds): (Option<u64>, Option<u64>),
    (workers, policy): (Option<usize>, Option<&'static str>),
    body: fn() -> F,
) where
    F: Future<Output = ()> + 'static,
{
    #[cfg(not(warpweft_sim))]
    {
        let _ = (machine, seed, seeds, workers, policy, body);
        panic!("`{name}` runs on a simulated machine: build it with RUSTFLAGS=\"--cfg warpweft_sim\"");
    }
    #[cfg(warpweft_sim)]
    {
        use warpweft_platform::sim::{Machine, run};

        let wanted = machine.unwrap_or("desktop");
        let Some(machine) = Machine::named(wanted) else {
            panic!(
                "there is no machine {wanted:?} for `{name}`, but {}",
                Machine::names().join(", ")
            );
        };
        let run_of = |seed| run(seed, &machine, move || enter(workers, policy, body()));
        if let Some(seed) = std::env::var(SEED_OF_CHILD)
            .ok()
            .and_then(|text| text.parse().ok())
        {
            // The harness does not judge the child: a test that is to panic does so in the parent.
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_of(seed)));
            std::process::exit(if ended.is_ok() { 0 } else { 101 });
        }
        let (first, count) = match std::env::var("WARPWEFT_SIM_SEED") {
            Ok(text) => match text.trim().parse() {
                Ok(seed) => (seed, 1),
                Err(_) => panic!("WARPWEFT_SIM_SEED is a number, and not {text:?}"),
            },
            Err(_) => (seed.unwrap_or(0), seeds.unwrap_or(1)),
        };
        for seed in (first..=u64::MAX).take(usize::try_from(count).unwrap_or(usize::MAX)) {
            run_child(name, seed);
        }
    }
}

/// Has a process run the test with its seed in place of all others.
#[cfg(warpweft_sim)]
const SEED_OF_CHILD: &str = "WARPWEFT_SIM_CHILD";

/// Runs the test with one seed in a process, whose arguments are always the same.
#[cfg(warpweft_sim)]
#[track_caller]
fn run_child(name: &str, seed: u64) {
    let test = name.split_once("::").map_or(name, |(_, test)| test);
    let run = std::env::current_exe().and_then(|program| {
        std::process::Command::new(program)
            .args(["--exact", test, "--include-ignored", "--nocapture"])
            .env_remove("WARPWEFT_SIM_SEED")
            .env(SEED_OF_CHILD, seed.to_string())
            .output()
    });
    match run {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "`{name}` failed with seed {seed} (WARPWEFT_SIM_SEED={seed} repeats the run):\n{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("no process for `{name}`: {error}"),
    }
}

/// A seed says nothing about a test on this machine.
///
/// ```compile_fail
/// #[warpweft::test(seed = 7)]
/// async fn it() {}
/// ```
///
/// An error would not print the seed, so a simulated test panics.
///
/// ```compile_fail
/// #[warpweft::test(sim, seed = 7)]
/// async fn it() -> Result<(), String> {
///     Ok(())
/// }
/// ```
///
/// This one compiles.
///
/// ```
/// #[warpweft::test(sim, seed = 7, seeds = 3, machine = "desktop", workers = 2)]
/// async fn it() {}
/// ```
#[cfg(doctest)]
struct WrongSimulatedTests;

/// A test that only the simulator can run.
#[cfg(warpweft_sim)]
#[doc(hidden)]
#[macro_export]
macro_rules! __simulated_test {
    ($($function:tt)*) => {
        #[::core::prelude::v1::test]
        $($function)*
    };
}

/// A test that only the simulator can run.
#[cfg(not(warpweft_sim))]
#[doc(hidden)]
#[macro_export]
macro_rules! __simulated_test {
    ($($function:tt)*) => {
        #[::core::prelude::v1::test]
        #[ignore = "it runs on a simulated machine: RUSTFLAGS=\"--cfg warpweft_sim\""]
        $($function)*
    };
}
