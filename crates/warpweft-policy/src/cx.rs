//! What a policy may observe: who it runs for, time, chance, and its counters.

use crate::{Count, Counters};
use std::cell::{Cell, RefCell};
use warpweft_platform::random::Rng;
use warpweft_platform::{atomic, clock};

/// The number of a worker in its pool, from 0: below [`PoolEnv::workers`](crate::PoolEnv::workers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub usize);

/// Where a policy's time comes from.
#[derive(Debug, Clone, Copy)]
pub enum Clock<'a> {
    /// The machine's monotonic clock.
    Machine,
    /// A clock that a test or a simulation sets, in nanoseconds.
    Virtual(&'a Cell<u64>),
}

/// The part of a context that counts. It is two words, so a hook hands it on by value where its way gets
/// slow: with a reference to the whole context there, the context would be written to memory also where its
/// way is fast (13 instructions for each push).
#[derive(Debug, Clone, Copy)]
pub struct Tally<'a> {
    counters: &'a Counters,
    by_worker: bool,
}

impl Tally<'_> {
    /// Counts something. What only the [pool counts](Count::is_of_pool) is left as it is.
    #[inline]
    pub fn count(self, count: Count, n: u64) {
        if count.is_of_pool() {
            return;
        }
        if self.by_worker {
            self.counters.add(count, n);
        } else {
            self.counters.add_shared(count, n);
        }
    }
}

/// The context of one call of a policy's hook.
#[derive(Debug)]
pub struct Cx<'a> {
    worker: Option<WorkerId>,
    workers: usize,
    counters: &'a Counters,
    random: Option<&'a RefCell<Rng>>,
    clock: Clock<'a>,
}

impl<'a> Cx<'a> {
    /// The context of a hook that runs for a worker.
    #[inline]
    #[must_use]
    pub fn for_worker(
        worker: WorkerId,
        workers: usize,
        counters: &'a Counters,
        random: &'a RefCell<Rng>,
        clock: Clock<'a>,
    ) -> Self {
        Self {
            worker: Some(worker),
            workers,
            counters,
            random: Some(random),
            clock,
        }
    }

    /// The context of a push from outside the pool. `counters` are kept by all outsiders together.
    #[inline]
    #[must_use]
    pub fn from_outside(workers: usize, counters: &'a Counters, clock: Clock<'a>) -> Self {
        Self {
            worker: None,
            workers,
            counters,
            random: None,
            clock,
        }
    }

    /// The worker that the hook runs for; `None` for a push from outside.
    #[inline]
    #[must_use]
    pub fn worker(&self) -> Option<WorkerId> {
        self.worker
    }

    /// How many workers the pool may have at a time: [`PoolEnv::workers`](crate::PoolEnv::workers).
    #[inline]
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// A random number in `0..bound`; 0 if `bound` is 0.
    #[inline]
    #[must_use]
    pub fn random(&self, bound: usize) -> usize {
        match self.random {
            Some(random) => random.borrow_mut().below(bound),
            None => Rng::thread_below(bound),
        }
    }

    /// Monotonic time in nanoseconds. On the machine's clock it costs 20–30 ns: not for every push.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match self.clock {
            Clock::Machine => clock::now_ns(),
            Clock::Virtual(now) => now.get(),
        }
    }

    /// Counts something. What only the [pool counts](Count::is_of_pool) is left as it is.
    #[inline]
    pub fn count(&self, count: Count, n: u64) {
        self.tally().count(count, n);
    }

    /// What this worker has counted so far; outside of the pool, what each thread there has.
    #[inline]
    #[must_use]
    pub fn counted(&self, count: Count) -> u64 {
        self.counters.get(count)
    }

    /// What counts.
    #[inline]
    #[must_use]
    pub fn tally(&self) -> Tally<'a> {
        Tally {
            counters: self.counters,
            by_worker: self.worker.is_some(),
        }
    }

    /// A short pause inside a retry loop: another thread is about to finish something.
    #[inline]
    pub fn pause(&self) {
        atomic::spin_loop();
    }
}
