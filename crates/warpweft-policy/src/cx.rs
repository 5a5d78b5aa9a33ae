//! What a policy may observe: its worker, the time, randomness, and its counters.

use crate::{Count, Counters};
use std::cell::{Cell, RefCell};
use warpweft_platform::counter::Gauge;
use warpweft_platform::random::Rng;
use warpweft_platform::{atomic, clock};

/// The number of a worker in its pool, from 0 to [`PoolEnv::workers`](crate::PoolEnv::workers) - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub usize);

/// How many workers of a pool run at present: a pool may be [resized](crate::Cx::rests) while it runs.
#[derive(Debug)]
pub struct PoolSize {
    now: Gauge,
    most: usize,
}

impl PoolSize {
    /// Makes the size of a pool of which `now` workers run, and at most `most`. Compensating workers, which
    /// come after those, are not counted.
    #[must_use]
    pub fn new(now: usize, most: usize) -> Self {
        let size = Self {
            now: Gauge::default(),
            most,
        };
        size.set(now);
        size
    }

    /// Returns how many workers run at present. The others rest.
    #[inline]
    #[must_use]
    pub fn now(&self) -> usize {
        // A hint: the idle protocol orders a change against the rest of a worker.
        self.now.get() as usize
    }

    /// Returns how many workers may run.
    #[inline]
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Sets how many workers run.
    pub fn set(&self, workers: usize) {
        self.now.set(workers as u64);
    }

    /// Returns true if that worker rests, or is to rest as soon as its task returns.
    #[inline]
    #[must_use]
    pub fn rests(&self, worker: WorkerId) -> bool {
        worker.0 >= self.now() && worker.0 < self.most
    }
}

/// The source of a policy's time.
#[derive(Debug, Clone, Copy)]
pub enum Clock<'a> {
    /// The machine's monotonic clock.
    Machine,
    /// A clock that a test or a simulation sets, in nanoseconds.
    Virtual(&'a Cell<u64>),
}

impl Clock<'_> {
    /// Returns monotonic time in nanoseconds. The machine's clock costs 20–30 ns: too much for every push.
    #[must_use]
    pub fn now_ns(self) -> u64 {
        match self {
            Clock::Machine => clock::now_ns(),
            Clock::Virtual(now) => now.get(),
        }
    }
}

/// The counting part of a context. It is two words, so a hook passes it by value to its slow path. A
/// reference to the whole context there would force the context into memory on the fast path, too (13
/// instructions for each push).
#[derive(Debug, Clone, Copy)]
pub struct Tally<'a> {
    counters: &'a Counters,
    by_worker: bool,
}

impl Tally<'_> {
    /// Adds `n` to a counter. Counters that [only the pool counts](Count::is_of_pool) do not change.
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

    /// Returns what this worker has counted so far, as [`Cx::counted`].
    #[inline]
    #[must_use]
    pub fn counted(self, count: Count) -> u64 {
        self.counters.get(count)
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
    size: Option<&'a PoolSize>,
}

impl<'a> Cx<'a> {
    /// Makes the context of a hook that runs for a worker.
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
            size: None,
        }
    }

    /// Makes the context of a push from outside the pool. All external threads share `counters`.
    #[inline]
    #[must_use]
    pub fn from_outside(workers: usize, counters: &'a Counters, clock: Clock<'a>) -> Self {
        Self {
            worker: None,
            workers,
            counters,
            random: None,
            clock,
            size: None,
        }
    }

    /// Sets the present size of the pool. Without it no worker rests.
    #[inline]
    #[must_use]
    pub fn with_size(mut self, size: &'a PoolSize) -> Self {
        self.size = Some(size);
        self
    }

    /// Returns true if that worker rests, because the pool has fewer workers at present: what is left for it
    /// alone waits until another worker finds it. A policy that sends tasks to a certain worker should then
    /// treat them as tasks of no worker. Costs a load.
    #[inline]
    #[must_use]
    pub fn rests(&self, worker: WorkerId) -> bool {
        self.size.is_some_and(|size| size.rests(worker))
    }

    /// Returns the worker that the hook runs for; `None` for a push from outside.
    #[inline]
    #[must_use]
    pub fn worker(&self) -> Option<WorkerId> {
        self.worker
    }

    /// Returns how many workers the pool may have at a time: [`PoolEnv::workers`](crate::PoolEnv::workers).
    #[inline]
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns a random number in `0..bound`; 0 if `bound` is 0.
    #[inline]
    #[must_use]
    pub fn random(&self, bound: usize) -> usize {
        match self.random {
            Some(random) => random.borrow_mut().below(bound),
            None => Rng::thread_below(bound),
        }
    }

    /// Returns monotonic time in nanoseconds, as [`Clock::now_ns`].
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns the clock. It is one word: a hook passes it to its slow path, as it does with a [`Tally`].
    #[inline]
    #[must_use]
    pub fn clock(&self) -> Clock<'a> {
        self.clock
    }

    /// Adds `n` to a counter. Counters that [only the pool counts](Count::is_of_pool) do not change.
    #[inline]
    pub fn count(&self, count: Count, n: u64) {
        self.tally().count(count, n);
    }

    /// Returns what this worker has counted so far; outside of the pool, what all external threads have.
    #[inline]
    #[must_use]
    pub fn counted(&self, count: Count) -> u64 {
        self.counters.get(count)
    }

    /// Returns the counting part of this context.
    #[inline]
    #[must_use]
    pub fn tally(&self) -> Tally<'a> {
        Tally {
            counters: self.counters,
            by_worker: self.worker.is_some(),
        }
    }

    /// Pauses briefly inside a retry loop, while another thread finishes a step.
    #[inline]
    pub fn pause(&self) {
        atomic::spin_loop();
    }
}
