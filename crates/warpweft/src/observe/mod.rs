//! What a program can see of a pool: its counters and metrics, its flight recorder, what its tasks wait for,
//! the spans in which they run, and stacks of code that is stuck.
//!
//! | file | job |
//! |---|---|
//! | this one | the counters of all workers, and their sum |
//! | `metrics` | the value of `Runtime::metrics`, which `runtime/metrics.rs` fills |
//! | `recorder` | the flight recorder |
//! | `dump` | what all tasks wait for; `dump/text/findings.rs` has the wording of findings |
//! | `raw`, `listed` | what a dump collects, and the entries by which it finds objects |
//! | `stack`, `stacks`, `no_stacks` | stacks of code that is stuck; without the feature |
//! | `spans`, `tasks`, `no_spans`, `plain_tasks` | spans of `tracing`; without the feature |
//! | `json`, `order` | texts as JSON; lists in order |

pub(crate) mod dump;
pub(crate) mod json;
pub(crate) mod listed;
pub(crate) mod metrics;
pub(crate) mod order;
pub(crate) mod raw;
pub(crate) mod recorder;
#[cfg_attr(not(feature = "tracing"), path = "no_spans.rs")]
pub(crate) mod spans;
#[cfg_attr(not(feature = "tracing"), path = "plain_tasks.rs")]
pub(crate) mod tasks;

pub(crate) mod stack;
#[cfg_attr(
    not(all(
        feature = "stacks",
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(warpweft_loom, warpweft_shuttle))
    )),
    path = "no_stacks.rs"
)]
pub(crate) mod stacks;

use warpweft_policy::CounterSet;

/// The counters of a pool at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounters {
    /// One set for each worker of the pool, without the compensating ones.
    pub workers: Vec<CounterSet>,
    /// One set for each compensating worker, whose numbers follow; see
    /// [`Builder::stuck_after`](crate::Builder::stuck_after).
    pub compensating: Vec<CounterSet>,
    /// What external threads counted.
    pub outside: CounterSet,
}

impl PoolCounters {
    /// Returns the sum over all workers and all external threads.
    #[must_use]
    pub fn total(&self) -> CounterSet {
        self.workers
            .iter()
            .chain(&self.compensating)
            .fold(self.outside, |sum, worker| sum.plus(worker))
    }
}
