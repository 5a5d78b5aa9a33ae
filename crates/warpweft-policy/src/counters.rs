//! The counters of a worker. They are always compiled: counting is a load and a store on a line that the
//! worker owns.

use warpweft_platform::counter::Counter;
use warpweft_task::Why;

/// An event that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Count {
    // The first five are the reasons for a push, in the order of `Why`: see `Counters::pushed`.
    /// Tasks spawned from this worker.
    Spawned,
    /// Latent forks and jobs of scopes that became tasks, because their stack had to wait or to switch.
    Forked,
    /// Tasks that were woken.
    Resumptions,
    /// Tasks that yielded.
    Yields,
    /// Tasks that came from outside the pool.
    Injected,
    /// Steps of tasks that the policy has handed out. Further turns of fibers are
    /// [`FiberTurns`](Count::FiberTurns).
    Ran,
    /// Tasks taken from the worker's own queue.
    LocalPops,
    /// Tasks taken by `poll_global`: from outside, yielded, or at the bottom of a stack.
    GlobalPolls,
    /// Attempts to steal from one victim.
    StealAttempts,
    /// Attempts that took a task.
    Steals,
    /// Tasks that changed worker by stealing.
    Stolen,
    /// Attempts that lost a race.
    StealsLost,
    /// Single tasks left to their owner, which was about to take them.
    StealsDeclined,
    /// Times that a queue grew in place.
    Grown,
    /// Tasks that found no room and went to the overflow queue.
    Overflowed,
    /// Times that a spawner tried again, because its queue was full.
    Retries,
    /// Times that a worker with many tasks asked others to steal from it.
    HelpRequests,
    /// Tasks that began to wait.
    Suspensions,
    /// Times that the worker began to search for others' work.
    Searches,
    /// Times that the worker went to sleep.
    Parks,
    /// Sleepers woken by this worker.
    Wakes,
    /// Tasks that the policy dropped, and the pool cancelled.
    Dropped,
    /// Tasks that were cancelled in a queue, and taken out of it before their turn.
    Evicted,
    /// Tasks run on top of a waiting frame, because no spare thread was available.
    Stacked,
    /// Forks taken from another worker's offer.
    ForksTaken,
    /// Deques left behind, with tasks in them, by a task that began to wait.
    DequesLeft,
    /// Deques taken over as a whole.
    Muggings,
    /// Tasks that continued in another pool.
    Transfers,
    /// Nodes of linked queues that were made for tasks: at most the largest number of tasks at one time, and
    /// one for each processor of the queues.
    Nodes,
    /// Tasks that a worker with tasks took from one that had clearly more.
    Rebalanced,
    /// Turns of fibers; a fiber continues once in each. They are not steps of tasks that a policy handed out.
    FiberTurns,
    /// Fibers spawned onto the thread of the fiber that spawned them, which no policy sees.
    SpawnedLocal,
    /// Tasks that a compensating worker gave back to the pool when it was no longer needed.
    GivenBack,
}

impl Count {
    /// All counters, in the order of declaration.
    pub const ALL: [Self; 33] = [
        Self::Spawned,
        Self::Forked,
        Self::Resumptions,
        Self::Yields,
        Self::Injected,
        Self::Ran,
        Self::LocalPops,
        Self::GlobalPolls,
        Self::StealAttempts,
        Self::Steals,
        Self::Stolen,
        Self::StealsLost,
        Self::StealsDeclined,
        Self::Grown,
        Self::Overflowed,
        Self::Retries,
        Self::HelpRequests,
        Self::Suspensions,
        Self::Searches,
        Self::Parks,
        Self::Wakes,
        Self::Dropped,
        Self::Evicted,
        Self::Stacked,
        Self::ForksTaken,
        Self::DequesLeft,
        Self::Muggings,
        Self::Transfers,
        Self::Nodes,
        Self::Rebalanced,
        Self::FiberTurns,
        Self::SpawnedLocal,
        Self::GivenBack,
    ];

    /// Returns true if only the pool counts it. What a policy [adds](crate::Cx::count) to it is ignored: with
    /// some of these counts the pool finds out whether its policy still holds tasks.
    #[inline]
    #[must_use]
    pub const fn is_of_pool(self) -> bool {
        matches!(
            self,
            Self::Spawned
                | Self::Forked
                | Self::Resumptions
                | Self::Yields
                | Self::Injected
                | Self::Ran
                | Self::Suspensions
                | Self::Searches
                | Self::Parks
                | Self::Wakes
                | Self::Dropped
                | Self::Evicted
                | Self::Stacked
                | Self::ForksTaken
                | Self::Transfers
                | Self::FiberTurns
                | Self::SpawnedLocal
                | Self::GivenBack
        )
    }

    /// Returns a short name, for tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spawned => "spawned",
            Self::Forked => "forked",
            Self::Injected => "injected",
            Self::Ran => "ran",
            Self::LocalPops => "local_pops",
            Self::GlobalPolls => "global_polls",
            Self::StealAttempts => "steal_attempts",
            Self::Steals => "steals",
            Self::Stolen => "stolen",
            Self::StealsLost => "steals_lost",
            Self::StealsDeclined => "steals_declined",
            Self::Grown => "grown",
            Self::Overflowed => "overflowed",
            Self::Retries => "retries",
            Self::HelpRequests => "help_requests",
            Self::Yields => "yields",
            Self::Suspensions => "suspensions",
            Self::Resumptions => "resumptions",
            Self::Searches => "searches",
            Self::Parks => "parks",
            Self::Wakes => "wakes",
            Self::Dropped => "dropped",
            Self::Evicted => "evicted",
            Self::Stacked => "stacked",
            Self::ForksTaken => "forks_taken",
            Self::DequesLeft => "deques_left",
            Self::Muggings => "muggings",
            Self::Transfers => "transfers",
            Self::Nodes => "nodes",
            Self::Rebalanced => "rebalanced",
            Self::FiberTurns => "fiber_turns",
            Self::SpawnedLocal => "spawned_here",
            Self::GivenBack => "given_back",
        }
    }
}

/// The counters of one worker, or of all threads outside the pool together.
#[derive(Debug)]
pub struct Counters([Counter; Count::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

impl Counters {
    /// Makes counters of 0.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { Counter::new() }; Count::ALL.len()])
    }

    /// Adds `n`. Only the worker whose counters these are may call it.
    #[inline]
    pub fn add(&self, count: Count, n: u64) {
        self.0[count as usize].add(n);
    }

    /// Counts a push, in one instruction without a branch. Only the worker whose counters these are may call
    /// it.
    #[inline]
    pub fn pushed(&self, why: Why) {
        self.0[why as usize].add(1);
    }

    /// Adds `n` to counters that several threads share.
    #[inline]
    pub fn add_shared(&self, count: Count, n: u64) {
        self.0[count as usize].add_shared(n);
    }

    /// Returns the present value of one counter.
    #[inline]
    #[must_use]
    pub fn get(&self, count: Count) -> u64 {
        self.0[count as usize].get()
    }

    /// Returns the present values. Each is exact if the worker does not run.
    #[must_use]
    pub fn snapshot(&self) -> CounterSet {
        CounterSet(std::array::from_fn(|index| self.0[index].get()))
    }
}

/// Values of counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterSet([u64; Count::ALL.len()]);

impl Default for CounterSet {
    fn default() -> Self {
        Self([0; Count::ALL.len()])
    }
}

impl CounterSet {
    /// Returns one value.
    #[must_use]
    pub fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// Returns names and values, in the order of [`Count::ALL`].
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Count::ALL.iter().map(|&count| (count.name(), self.get(count)))
    }

    /// Returns the sum of two sets.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| {
            self.0[index].wrapping_add(other.0[index])
        }))
    }

    /// Returns what was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|index| {
            self.0[index].wrapping_sub(earlier.0[index])
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_counted_by_its_reason() {
        let counts = [
            Count::Spawned,
            Count::Forked,
            Count::Resumptions,
            Count::Yields,
            Count::Injected,
        ];
        for (why, count) in Why::ALL.into_iter().zip(counts) {
            let counters = Counters::default();
            counters.pushed(why);
            assert_eq!(counters.get(count), 1, "{why:?}");
        }
    }

    #[test]
    fn every_count_has_its_own_place_and_name() {
        let counters = Counters::default();
        for (index, count) in Count::ALL.into_iter().enumerate() {
            assert_eq!(count as usize, index);
            counters.add(count, index as u64 + 1);
        }
        let values: Vec<u64> = counters.snapshot().fields().map(|(_, value)| value).collect();
        assert_eq!(values, (1..=Count::ALL.len() as u64).collect::<Vec<_>>());
        let mut names: Vec<_> = Count::ALL.map(Count::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Count::ALL.len());
    }
}
