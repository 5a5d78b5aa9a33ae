//! What a pool tells about itself.

use warpweft_policy::CounterSet;

/// The counters of a pool at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolCounters {
    /// One set for each worker.
    pub workers: Vec<CounterSet>,
    /// What threads outside the pool counted.
    pub outside: CounterSet,
}

impl PoolCounters {
    /// The sum over all workers and those outside.
    #[must_use]
    pub fn total(&self) -> CounterSet {
        self.workers
            .iter()
            .fold(self.outside, |sum, worker| sum.plus(worker))
    }
}
