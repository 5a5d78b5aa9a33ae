//! Whether the oldest or the newest task is to be next: learned from what either has come to.
//!
//! ```text
//!   so many tasks of the oldest ──▶ what came of it ─┐
//!   so many tasks of the newest ──▶ what came of it ─┴─▶ the better one for a while ──▶ the other one once more, and so on
//! ```
//!
//! What is observed costs no stamp on any task. The time that a task takes is the time between two looks by
//! the tasks between them: where one order finds its data in the cache and the other one does not, that is
//! where it shows. How long tasks wait is how many there are times that (Little's law), so what an order does
//! to the waits shows in how the local queue grows under it.
//!
//! # Rules
//!
//! - The oldest first is fair, so the newest has to be better, and not merely as good.
//! - It is better if the local queue grows under the oldest and not under the newest, as with tasks that
//!   spawn tasks: breadth first they are all there at once, and all wait.
//! - It is better if tasks take a quarter longer under the oldest. But then nothing but time speaks for it,
//!   and the oldest has every fourth turn all the same.
//! - What has won is tried against the other one after 16 looks, and ever more seldom as long as it continues
//!   winning. If tasks take twice or half as long as they did, or the local queue begins to grow or stops,
//!   then another time has come, and it is tried soon.

/// After so many looks the other order is tried, at first and at most.
const SOON: u32 = 16;
const SELDOM: u32 = 1024;
/// The newest has so many turns before one of the oldest, where it is merely faster.
const TURNS: u32 = 3;
/// One task per task that was run, as the growth of a local queue.
const ONE: i64 = 64;

/// What came of some tasks in one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OrderSample {
    /// What a task took, in nanoseconds.
    pace: u64,
    /// By how much the local queue grew for each task, in 64ths.
    growth: i64,
}

impl OrderSample {
    /// The average of what was and what is, the latter counting as much as all before.
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

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The oldest: it costs nothing.
    Oldest,
    /// The newest: with the oldest the local queue grows.
    NewestGrows,
    /// The newest is faster.
    NewestFaster,
}

/// What a worker has learned of the two orders.
#[derive(Debug)]
pub(super) struct Learner {
    /// Of the oldest, and of the newest.
    seen: [Option<OrderSample>; 2],
    /// Which one is in force.
    newest: bool,
    verdict: Verdict,
    /// Looks until the other one is tried.
    until_trial: u32,
    gap: u32,
    /// The time and the length of the local queue at the last look. `None`: what follows is not to be
    /// counted.
    last: Option<(u64, usize)>,
}

impl Learner {
    /// The oldest first, until something is known.
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

    /// The local queue was empty: time goes by with nothing to do, and says nothing of either order.
    pub(super) fn idle(&mut self) {
        self.last = None;
    }

    /// After `tasks` tasks: it is `now`, and so many are left. Whether the newest is to be next from now on.
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

    /// Both have been seen.
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

    /// A worker whose tasks take so long, and whose local queue grows so much for each, under the oldest and
    /// under the newest.
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

        /// In how many of these looks the newest was in force.
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
            // Somewhat faster is not enough.
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
        // Tasks spawn tasks now: the local queue begins to grow, which is noticed at once and not at the next
        // trial.
        let newest = world.looks(50, [100, 100], [1, 0]);
        assert!(newest > 25, "{newest} of 50");
        world.looks(5_000, [100, 100], [1, 0]);
        // And now they do not, and take longer.
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
