//! Rebalancing: a worker that has tasks steals from one that has clearly more, so that the tasks of both wait
//! equally long.
//!
//! ```text
//!   61 steps ─▶ poll_global ─▶ … ─▶ every Nth ─▶ look at one other, in turn
//!                  it has clearly more ─▶ run its oldest, and look again at the next call but one
//!                  it has not          ─▶ look at the next one the next time
//! ```
//!
//! The poorer worker looks and steals. So only the look costs anything, and a thief's one compare-and-swap is
//! enough.
//!
//! # Rules
//!
//! - It takes one task at a time, and runs it at once. So each task that changes its worker has its turn
//!   thereby, and none loses its place. Half of a queue would be put behind the thief's own tasks, which
//!   changes the order of a backlog.
//! - While there is a clear difference it becomes smaller. After that nothing happens, so tasks do not move
//!   to and fro.

use super::Rebalance;
use super::thief::steal;
use super::victims::VictimOrder;
use crate::order::{LocalQueue, LocalQueueThief};
use crate::{Count, Cx};
use warpweft_queue::Amount;
use warpweft_task::TaskRef;

/// After a look that found something: every other call, since other places have their turns, too.
const SOON: usize = 2;
/// A smaller difference in tasks is ignored: queues whose tasks come and go always differ a little.
const LEAST: usize = 4;
/// A difference of less than this part of the shorter queue is ignored, too.
const PART: usize = 16;

/// Decides when a worker looks at the queue of which other worker.
pub(super) struct Rebalancer {
    /// The largest value means never.
    every: usize,
    /// Calls of `poll_global` until then.
    left: usize,
    turn: usize,
}

impl Rebalancer {
    pub(super) fn new(level: Rebalance, me: usize) -> Self {
        let every = match level {
            Rebalance::Every(looks) => looks.get(),
            Rebalance::Off => usize::MAX,
        };
        // Workers in step look at different ones.
        Self {
            every,
            left: every,
            turn: me,
        }
    }

    /// Counts a call of `poll_global`.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Returns true if it is time to look at another worker's queue.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.left == 0
    }

    /// Takes the oldest task of the worker whose turn it is, if that has clearly more than worker `me`, whose
    /// local queue this is.
    #[cold]
    pub(super) fn take<L: LocalQueue>(
        &mut self,
        me: usize,
        victims: &VictimOrder,
        queues: &[L::Thief],
        local_queue: &mut L,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        self.left = self.every;
        let other = victims.by_turns(self.turn)?;
        // Both as thieves see them, which may miss a slot.
        let [mine, theirs] = [me, other].map(|worker| queues[worker].glance().len);
        if theirs.saturating_sub(mine) < LEAST.max(mine / PART) {
            self.turn = self.turn.wrapping_add(1);
            return None;
        }
        let task = steal(&queues[other], local_queue, Amount::One, cx)?;
        cx.count(Count::Rebalanced, 1);
        self.left = SOON;
        Some(task)
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::super::hooks::Local;
    use super::super::{Fifo, Lifo, Stealing};
    use super::*;
    use crate::Policy;
    use crate::order::{ChainOrder, FifoOrder, Order, PriorityOrder, SlotOrder};
    use crate::testing::{Pool, next_step};
    use proptest::prelude::*;
    use std::num::NonZeroUsize;
    use warpweft_task::Why;
    use warpweft_task::test_tasks::number;

    fn n(number: usize) -> NonZeroUsize {
        NonZeroUsize::new(number).expect("not 0")
    }

    /// Workers that are never idle: each of their tasks yields, or is woken at once, again and again.
    struct BusyWorkers<O: Order> {
        pool: Pool<Stealing<O>>,
        why: Why,
        steps: u64,
        turns: Vec<u64>,
    }

    impl<O: Order> BusyWorkers<O> {
        fn new(policy: &Stealing<O>, queues: &[usize], why: Why) -> Self {
            let mut pool = Pool::new(policy, queues.len());
            let mut tasks = 0;
            for (worker, &queue) in queues.iter().enumerate() {
                pool.spawn(worker, tasks..tasks + queue);
                tasks += queue;
            }
            Self {
                pool,
                why,
                steps: 0,
                turns: vec![0; tasks],
            }
        }

        /// Runs `steps` steps of each worker.
        fn run(&mut self, steps: usize) {
            for _ in 0..steps {
                self.steps += 1;
                for worker in 0..self.pool.locals.len() {
                    let Some(task) = next_step(&mut self.pool, worker, self.steps) else {
                        continue;
                    };
                    self.turns[number(&task).expect("a task of the probe")] += 1;
                    let _ = self.pool.push(worker, task, self.why);
                }
            }
        }

        fn queues(&self) -> Vec<usize> {
            self.pool.locals.iter().map(Local::len).collect()
        }

        fn levelled(&self) -> u64 {
            self.pool.counters.get(Count::Rebalanced)
        }

        /// Returns the turns of the least served task in the next `steps` steps, as a part of the mean.
        fn least(&mut self, steps: usize) -> f64 {
            self.turns.fill(0);
            self.run(steps);
            let mean = self.turns.iter().sum::<u64>() as f64 / self.turns.len() as f64;
            let least = self.turns.iter().min().copied().unwrap_or_default();
            least as f64 / mean
        }
    }

    impl<O: Order> Drop for BusyWorkers<O> {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                self.pool.end_all();
            }
        }
    }

    /// Returns true if no queue is clearly longer than another.
    fn is_level(queues: &[usize]) -> bool {
        let [Some(&least), Some(&most)] = [queues.iter().min(), queues.iter().max()] else {
            return true;
        };
        most - least < LEAST.max(least / PART)
    }

    /// Returns the number of steps of each worker after which two queues that differ by `difference` are
    /// level. The first look comes when a worker has gone round to the other.
    fn bound(workers: usize, every: usize, difference: usize) -> usize {
        61 * (every * (workers - 1) + difference)
    }

    /// Whatever the queues were, they are soon level and stay so, and then each task has its share.
    fn levels<O: Order>(order: O, queues: &[usize], every: usize, why: Why, capacity: usize) {
        let policy = Stealing::with_order(order)
            .rebalance(Rebalance::Every(n(every)))
            .capacity(capacity);
        let (workers, tasks) = (queues.len(), queues.iter().sum::<usize>());
        let mut mill = BusyWorkers::new(&policy, queues, why);
        let difference = queues.iter().max().expect("two") - queues.iter().min().expect("two");
        // More than two disturb each other: a worker that has stolen from one looks at the next.
        mill.run(bound(workers, every, difference) * if workers > 2 { 2 } else { 1 });
        assert!(is_level(&mill.queues()), "{:?}", mill.queues());
        let mean = tasks / workers;
        let (levelled, before) = (mill.levelled(), mill.queues());
        // Enough turns to distinguish one turn more from a larger share.
        let least = mill.least(40 * mean);
        assert_eq!(mill.levelled(), levelled, "nothing goes to and fro");
        assert_eq!(mill.queues(), before);
        if mean > 12 * LEAST {
            assert!(least >= 0.9, "{least} of the mean, queues of {before:?}");
        }
    }

    fn queues(workers: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<usize>> {
        proptest::collection::vec(1..400usize, workers)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn queues_of_workers_that_are_never_idle_become_level_and_stay_so(
            queues in queues(2..=6),
            every in 1..20usize,
            yields in any::<bool>(),
            capacity in 1..600usize,
        ) {
            let why = if yields { Why::Yielded } else { Why::Woken };
            levels(FifoOrder, &queues, every, why, capacity);
            levels(ChainOrder, &queues, every, why, capacity);
            levels(PriorityOrder::new(FifoOrder, n(3)), &queues, every, why, capacity);
            // Not woken: a task that wakes itself keeps the slot for three turns of four.
            levels(SlotOrder::new(FifoOrder, n(3)), &queues, every, Why::Yielded, capacity);
        }
    }

    #[test]
    fn what_is_nearly_level_is_left_alone() {
        for queues in [[1, LEAST], [50, 50 + LEAST - 1], [320, 339], [3, 2]] {
            let mut mill = BusyWorkers::new(
                &Fifo::new().rebalance(Rebalance::Every(n(1))),
                &queues,
                Why::Yielded,
            );
            mill.run(10_000);
            assert_eq!((mill.levelled(), mill.queues()), (0, queues.to_vec()));
        }
    }

    #[test]
    fn who_is_not_told_to_never_levels() {
        let mut off = BusyWorkers::new(&Fifo::new().rebalance(Rebalance::Off), &[10, 300], Why::Yielded);
        off.run(50_000);
        assert_eq!(off.queues(), [10, 300]);
        let mut usual = BusyWorkers::new(&Fifo::new(), &[10, 300], Why::Yielded);
        usual.run(50_000);
        assert_eq!((usual.levelled(), usual.queues()), (0, vec![10, 300]));
        let mut asked = BusyWorkers::new(
            &Lifo::new().rebalance(Rebalance::Every(n(1))),
            &[10, 300],
            Why::Woken,
        );
        asked.run(50_000);
        assert!(is_level(&asked.queues()), "{:?}", asked.queues());
    }

    /// The stolen task is the other worker's oldest, it runs at once, and this worker's queue does not
    /// change. Other places have every other turn.
    #[test]
    fn what_is_taken_runs_at_once_beside_what_comes_from_outside() {
        let mut pool = Pool::new(&Fifo::new().rebalance(Rebalance::Every(n(1))), 2);
        pool.spawn(0, 0..100);
        pool.spawn(1, 100..110);
        let poll_global = |pool: &mut Pool<Fifo>| pool.run(1, Fifo::poll_global);
        assert_eq!(
            [(); 4].map(|()| poll_global(&mut pool)),
            [Some(0), None, Some(1), None]
        );
        // One at a time: of several, this worker would take its share into its own queue.
        let mut ran = vec![200];
        for number in 201..225 {
            if ran.last().is_some_and(|&number| number >= 200) {
                let _ = pool.push_from_outside(pool.task(number, 0));
            }
            ran.extend(poll_global(&mut pool));
        }
        assert!(
            ran.iter().filter(|&&number| number >= 200).count() >= 12,
            "{ran:?}"
        );
        assert!(ran.iter().any(|&number| number < 100), "{ran:?}");
        assert_eq!(pool.all(1)[..10], (100..110).collect::<Vec<_>>());
        pool.end_all();
    }

    /// `poll_global` does not rebalance for a worker that has nothing; the search that follows takes more.
    #[test]
    fn who_has_nothing_does_not_level() {
        let mut pool = Pool::new(&Fifo::new().rebalance(Rebalance::Every(n(5))), 2);
        pool.spawn(0, 0..100);
        pool.spawn(1, [100]);
        // It becomes due while the worker has something, and something from outside has its turn.
        for number in 101..106 {
            let _ = pool.push_from_outside(pool.task(number, 0));
            assert_eq!(pool.run(1, Fifo::poll_global), Some(number));
        }
        assert_eq!(pool.all(1), [100]);
        assert_eq!(pool.run(1, Fifo::poll_global), None);
        assert_eq!(pool.run(1, Fifo::search), Some(0));
        pool.end_all();
    }

    #[test]
    fn a_lone_worker_has_nobody_to_level_with() {
        let mut mill = BusyWorkers::new(
            &Fifo::new().rebalance(Rebalance::Every(n(1))),
            &[300],
            Why::Yielded,
        );
        mill.run(1_000);
        assert_eq!(mill.levelled(), 0);
    }
}
