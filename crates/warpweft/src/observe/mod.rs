//! What a pool tells about itself.

use warpweft_policy::CounterSet;

/// The counters of a pool at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounters {
    /// One set for each worker that was asked for.
    pub workers: Vec<CounterSet>,
    /// One set for each compensating worker, whose numbers follow; see
    /// [`Builder::stuck_after`](crate::Builder::stuck_after).
    pub compensating: Vec<CounterSet>,
    /// What threads outside the pool counted.
    pub outside: CounterSet,
}

impl PoolCounters {
    /// The sum over all workers and those outside.
    #[must_use]
    pub fn total(&self) -> CounterSet {
        self.workers
            .iter()
            .chain(&self.compensating)
            .fold(self.outside, |sum, worker| sum.plus(worker))
    }
}
