//! Learns which task should be next, the oldest or the newest, from the results of both.
//!
//! ```text
//!   some tasks, the oldest first ──▶ sample ─┐
//!   some tasks, the newest first ──▶ sample ─┴─▶ the better order for a while ─▶ the other one, and so on
//! ```
//!
//! The observation puts no stamp on any task. The time of a task is the time between two looks, divided by
//! the number of tasks between them. It shows when one order finds its data in the cache and the other does
//! not. By Little's law the waiting time of tasks is their number times that. So the effect of an order on
//! waiting shows in the growth of the local queue.
//!
//! # Rules
//!
//! - The oldest first is fair, so the newest must be better, and not only as good.
//! - The newest is better if the local queue grows under the oldest and not under the newest, as with tasks
//!   that spawn tasks: breadth first they all exist at once, and all wait.
//! - The newest is better if tasks take a quarter longer under the oldest. But then only speed favours it,
//!   and the oldest still has every fourth turn.
//! - After 16 looks the other order is tried, and ever more seldom while the better one continues winning. If
//!   tasks take twice or half as long as before, or the growth of the local queue begins or stops, the load
//!   has changed, and the other order is tried soon.

/// After this number of looks the other order is tried, at first and at most.
const SOON: u32 = 16;
const SELDOM: u32 = 1024;
/// The turns of the newest before one of the oldest, where the newest is only faster.
const TURNS: u32 = 3;
/// A growth of one task per task that was run.
const ONE: i64 = 64;

/// The observed results of one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OrderSample {
    /// The time of a task, in nanoseconds.
    pace: u64,
    /// The growth of the local queue for each task, in 64ths.
    growth: i64,
}

impl OrderSample {
    /// Returns the average of old and new, where the new one counts as much as all before.
    fn mixed_with(self, new: Self) -> Self {
        Self {
            pace: self.pace / 2 + new.pace / 2,
            growth: (self.growth + new.growth) / 2,
        }
    }

    fn is_like(self, before: Self) -> bool {
        self.pace / 2 <= before.pace
            && before.pace / 2 <= self.pace
            && (self.growth - before.growth).abs() < ONE / 2
    }
}

/// The better order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The oldest: it has no disadvantage.
    Oldest,
    /// The newest: under the oldest the local queue grows.
    NewestGrows,
    /// The newest is faster.
    NewestFaster,
}

/// What a worker has learned of the two orders.
#[derive(Debug)]
pub(super) struct Learner {
    /// The samples of the oldest and of the newest.
    seen: [Option<OrderSample>; 2],
    /// True if the newest is in force.
    newest: bool,
    verdict: Verdict,
    /// Looks until the other one is tried.
    until_trial: u32,
    gap: u32,
    /// The time and the length of the local queue at the last look. `None`: the time until the next look does
    /// not count.
    last: Option<(u64, usize)>,
}

impl Learner {
    /// Starts with the oldest first.
    pub(super) fn new() -> Self {
        Self {
            seen: [None; 2],
            newest: false,
            verdict: Verdict::Oldest,
            until_trial: 1,
            gap: SOON,
            last: None,
        }
    }

    /// The local queue was empty: the idle time says nothing about either order.
    pub(super) fn idle(&mut self) {
        self.last = None;
    }

    /// Learns at time `now`, after `tasks` tasks, with `left` tasks left. Returns true if the newest is next
    /// from now on.
    pub(super) fn look(&mut self, now: u64, left: usize, tasks: usize) -> bool {
        if let Some((then, before)) = self.last.replace((now, left)) {
            let tasks = tasks.max(1) as u64;
            self.learn(OrderSample {
                pace: now.saturating_sub(then) / tasks,
                growth: (left as i64 - before as i64).saturating_mul(ONE) / tasks as i64,
            });
        }
        self.newest
    }

    fn learn(&mut self, new: OrderSample) {
        let of_this = &mut self.seen[usize::from(self.newest)];
        let usual = of_this.is_none_or(|before| new.is_like(before));
        *of_this = Some(of_this.map_or(new, |before| before.mixed_with(new)));
        let was_trial = self.newest != self.wants_newest();
        if was_trial {
            self.judge();
            return;
        }
        if !usual {
            self.gap = SOON;
            self.until_trial = self.until_trial.min(SOON);
        }
        self.until_trial = self.until_trial.saturating_sub(1);
        if self.until_trial == 0 {
            self.newest = !self.newest;
        }
    }

    fn wants_newest(&self) -> bool {
        self.verdict != Verdict::Oldest
    }

    /// Compares the two samples.
    fn judge(&mut self) {
        let [Some(oldest), Some(newest)] = self.seen else {
            return;
        };
        let verdict = if oldest.growth > newest.growth + ONE / 4 {
            Verdict::NewestGrows
        } else if oldest.pace > newest.pace.saturating_add(newest.pace / 4) {
            Verdict::NewestFaster
        } else {
            Verdict::Oldest
        };
        self.gap = if verdict == self.verdict {
            (2 * self.gap).min(SELDOM)
        } else {
            SOON
        };
        self.verdict = verdict;
        self.newest = self.wants_newest();
        self.until_trial = if verdict == Verdict::NewestFaster {
            TURNS
        } else {
            self.gap
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASKS: usize = 64;

    /// A worker with these times of tasks and growths of the local queue, under the oldest and under the
    /// newest.
    struct World {
        learner: Learner,
        now: u64,
        left: i64,
        newest: bool,
    }

    impl World {
        fn new() -> Self {
            Self {
                learner: Learner::new(),
                now: 0,
                left: 1_000_000,
                newest: false,
            }
        }

        /// Returns in how many of these looks the newest was in force.
        fn looks(&mut self, looks: usize, pace: [u64; 2], growth: [i64; 2]) -> usize {
            let mut newest = 0;
            for _ in 0..looks {
                let arm = usize::from(self.newest);
                newest += arm;
                self.now += pace[arm] * TASKS as u64;
                self.left = (self.left + growth[arm] * TASKS as i64).max(1);
                self.newest = self.learner.look(self.now, self.left as usize, TASKS);
            }
            newest
        }
    }

    #[test]
    fn where_both_are_as_good_it_is_the_oldest_nearly_always() {
        for growth in [0, 1, -1] {
            let mut world = World::new();
            assert!(world.looks(2_000, [100, 100], [growth; 2]) <= 10);
            // A little faster is not enough.
            assert!(world.looks(2_000, [110, 100], [growth; 2]) <= 10);
            let later = world.looks(10_000, [100, 300], [growth; 2]);
            assert!((5..=20).contains(&later), "{later} trials of 10 000");
        }
    }

    #[test]
    fn where_the_oldest_makes_the_local_queue_grow_it_is_the_newest() {
        let mut world = World::new();
        let newest = world.looks(2_000, [100, 100], [1, 0]);
        assert!(newest > 1_980, "{newest} of 2000");
    }

    #[test]
    fn where_the_newest_is_merely_faster_the_oldest_has_every_fourth_turn() {
        let mut world = World::new();
        let newest = world.looks(2_000, [200, 100], [0, 0]);
        assert!((1_480..=1_510).contains(&newest), "{newest} of 2000");
    }

    #[test]
    fn when_the_times_change_so_does_the_order() {
        let mut world = World::new();
        world.looks(5_000, [100, 100], [0, 0]);
        // Tasks spawn tasks now: the local queue begins to grow. That is noticed at once, before the next
        // trial.
        let newest = world.looks(50, [100, 100], [1, 0]);
        assert!(newest > 25, "{newest} of 50");
        world.looks(5_000, [100, 100], [1, 0]);
        // Now they spawn none, and take longer.
        let newest = world.looks(100, [1_000, 1_000], [0, 0]);
        assert!(newest < 60, "{newest} of 100");
    }

    #[test]
    fn idle_time_says_nothing() {
        let mut world = World::new();
        world.looks(100, [100, 100], [0, 0]);
        let before = world.learner.seen;
        world.learner.idle();
        world.now += 1 << 40;
        world.looks(1, [100, 100], [0, 0]);
        assert_eq!(world.learner.seen, before);
    }
}
