//! The same program on pools of several sizes and orders.

use warpweft::{Builder, PolicySpec, Runtime};

/// How often each program runs: `WARPWEFT_ROUNDS`, or once. With random delays (`--cfg warpweft_chaos`) each
/// round is another one.
fn rounds() -> usize {
    std::env::var("WARPWEFT_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}

/// Runs the program with 1, 2 and 4 workers, first in, first out and the other way round.
pub(crate) fn everywhere(program: impl Fn(&Runtime)) {
    everywhere_with(|builder| builder, program);
}

/// The same with runtimes that are asked for something more.
pub(crate) fn everywhere_with(more: impl Fn(Builder) -> Builder, program: impl Fn(&Runtime)) {
    for _ in 0..rounds() {
        for workers in [1, 2, 4] {
            for policy in ["fifo", "lifo"] {
                let policy: PolicySpec = policy.parse().expect("a preset");
                let builder = Runtime::builder().workers(workers).policy_spec(policy);
                let runtime = more(builder).build().expect("workers");
                program(&runtime);
            }
        }
    }
}
