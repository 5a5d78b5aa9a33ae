//! What a worker whose tasks only yield sees of another worker: whether that one is stuck.
//!
//! Tasks that only yield wait until other tasks have done something, and those may be behind the one task
//! that another worker is in. The monitor finds such a worker after milliseconds. A worker whose tasks only
//! yield has nothing better to do than to look earlier.
//!
//! # Invariants
//!
//! - A worker that runs anything else looks at no neighbour: it would only disturb the order of what it
//!   takes.
//! - The line with the counts of another worker is read once in [`LOOKS`] looks, so that workers that all
//!   yield do not slow each other down. After one was stuck it is read more often, and then less and less.

use std::cell::Cell;

/// The most looks from one look at the other worker to the next: some 20 µs of yields.
const LOOKS: u32 = 16;
/// The number of yields of a task that is the only ready one which count as a look: some 2 µs.
const YIELDS: u32 = 256;
/// Of this number of steps one may be no yield.
const OTHERS: u64 = 16;

/// The other worker that a worker looks at, and what it saw.
#[derive(Debug)]
pub(crate) struct Neighbour {
    /// The looks since the last look at the other worker.
    looks: Cell<u32>,
    /// The number of looks from one look at the other worker to the next.
    interval: Cell<u32>,
    /// The worker's own steps and yields at that look.
    own: Cell<(u64, u64)>,
    /// How many workers further the other one is.
    further: Cell<usize>,
    /// The other one's steps at that look, if it was awake and the worker's own tasks only yielded.
    steps: Cell<Option<u64>>,
    /// True if it was stuck.
    stuck: Cell<bool>,
    /// The yields of a task that is the only ready one until the next look at the other worker.
    lone: Cell<u32>,
}

impl Default for Neighbour {
    fn default() -> Self {
        Self {
            looks: Cell::default(),
            interval: Cell::new(LOOKS),
            own: Cell::default(),
            further: Cell::default(),
            steps: Cell::default(),
            stuck: Cell::default(),
            lone: Cell::new(YIELDS * LOOKS),
        }
    }
}

impl Neighbour {
    /// Returns true if worker `me` of `workers` only yields, and another worker is in one task meanwhile.
    /// `own` has the numbers of its own steps and yields, and `steps_of` returns the steps of a worker that
    /// is awake.
    pub(crate) fn is_stuck(
        &self,
        me: usize,
        workers: usize,
        own: (u64, u64),
        steps_of: impl Fn(usize) -> Option<u64>,
    ) -> bool {
        let looks = self.looks.get() + 1;
        self.looks.set(looks);
        if workers < 2 || looks < self.interval.get() && !self.stuck.get() {
            return false;
        }
        self.looks.set(0);
        let before = self.own.replace(own);
        let (steps, yields) = (own.0.wrapping_sub(before.0), own.1.wrapping_sub(before.1));
        if steps.saturating_sub(yields) > steps / OTHERS {
            self.steps.set(None);
            self.stuck.set(false);
            self.interval.set(LOOKS);
            return false;
        }
        self.look(me, workers, steps_of)
    }

    /// The same for a task that yields and is the only ready one: it goes on without a step of its worker.
    /// `is_due` has said that it is time.
    pub(crate) fn is_stuck_beside_one(
        &self,
        me: usize,
        workers: usize,
        steps_of: impl Fn(usize) -> Option<u64>,
    ) -> bool {
        let is_stuck = workers > 1 && self.look(me, workers, steps_of);
        self.lone.set(YIELDS * self.interval.get());
        is_stuck
    }

    /// Counts a yield of a task that is the only ready one. Returns true if it is time to look.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let left = self.lone.get() - 1;
        self.lone.set(left);
        left == 0
    }

    /// Looks at the other worker.
    #[cold]
    fn look(&self, me: usize, workers: usize, steps_of: impl Fn(usize) -> Option<u64>) -> bool {
        let further = self.further.get() % (workers - 1);
        let now = steps_of((me + 1 + further) % workers);
        let is_stuck = match (self.steps.get(), now) {
            (Some(before), Some(now)) if before == now => {
                self.interval.set(1);
                true
            }
            (None, Some(now)) => {
                self.steps.set(Some(now));
                false
            }
            // It made a step, or sleeps: the next one.
            _ => {
                self.steps.set(None);
                self.further.set(further + 1);
                self.interval.set(LOOKS.min(self.interval.get() * 2));
                false
            }
        };
        self.stuck.set(is_stuck);
        is_stuck
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{LOOKS, Neighbour, YIELDS};

    /// Returns after how many looks of worker 0, which makes 61 steps and `yields` yields each, it sees a
    /// stuck worker.
    fn looks(workers: usize, yields: u64, steps_of: impl Fn(usize, u32) -> Option<u64>) -> Option<u32> {
        let neighbour = Neighbour::default();
        (1..100 * LOOKS).find(|&look| {
            let own = (u64::from(look) * 61, u64::from(look) * yields);
            neighbour.is_stuck(0, workers, own, |worker| steps_of(worker, look))
        })
    }

    #[test]
    fn one_that_makes_no_step_is_seen_in_the_second_look() {
        assert_eq!(looks(2, 61, |_, _| Some(7)), Some(2 * LOOKS));
        // Of three others it looks at one after another.
        let third = |worker, look| Some(if worker == 3 { 7 } else { u64::from(look) });
        assert_eq!(looks(4, 61, third), Some(6 * LOOKS));
    }

    #[test]
    fn one_that_makes_steps_or_sleeps_is_not_stuck() {
        assert_eq!(looks(2, 61, |_, look| Some(u64::from(look))), None);
        assert_eq!(looks(2, 61, |_, _| None), None);
        assert_eq!(looks(1, 61, |_, _| unreachable!("there is no other")), None);
    }

    #[test]
    fn a_worker_that_runs_tasks_looks_at_nobody() {
        assert_eq!(
            looks(2, 50, |_, _| unreachable!("it has better things to do")),
            None
        );
    }

    #[test]
    fn each_look_is_at_one_that_is_stuck_until_it_makes_a_step() {
        let neighbour = Neighbour::default();
        let mut look = 0;
        let mut is_stuck = |steps| {
            look += 1;
            neighbour.is_stuck(0, 2, (look * 61, look * 61), |_| Some(steps))
        };
        while !is_stuck(7) {}
        assert!(is_stuck(7) && is_stuck(7));
        assert!(!is_stuck(8) && !is_stuck(8));
    }

    #[test]
    fn after_one_was_stuck_the_looks_are_frequent_for_a_while() {
        let neighbour = Neighbour::default();
        let (mut look, steps) = (0, std::cell::Cell::new(1));
        let mut looks_until = |seen: &dyn Fn() -> bool| {
            let before = look;
            loop {
                look += 1;
                let is_stuck = neighbour.is_stuck(0, 2, (look * 61, look * 61), |_| Some(steps.get()));
                if is_stuck || seen() {
                    return look - before;
                }
            }
        };
        assert_eq!(looks_until(&|| false), u64::from(2 * LOOKS));
        steps.set(2);
        assert!(looks_until(&|| false) < 8, "it is stuck again soon");
        steps.set(3);
        // Now it makes a step between any two looks.
        let moves = || {
            steps.set(steps.get() + 1);
            steps.get() > 10 * u64::from(LOOKS)
        };
        looks_until(&moves);
        assert_eq!(neighbour.interval.get(), LOOKS);
    }

    #[test]
    fn a_lone_task_that_yields_sees_it_too() {
        let neighbour = Neighbour::default();
        let mut yields = 0;
        let mut is_stuck = |steps| {
            yields += 1;
            neighbour.is_due() && neighbour.is_stuck_beside_one(0, 2, |_| Some(steps))
        };
        while !is_stuck(7) {}
        assert_eq!(yields, 2 * LOOKS * YIELDS);
        let neighbour = Neighbour::default();
        let mut steps = 0;
        let moves = |_| {
            steps += 1;
            Some(steps)
        };
        let moves = std::cell::RefCell::new(moves);
        let is_stuck = |_| {
            neighbour.is_due() && neighbour.is_stuck_beside_one(0, 2, |worker| (moves.borrow_mut())(worker))
        };
        assert!(!(0..10 * LOOKS * YIELDS).any(is_stuck));
        assert!(
            !(0..10 * LOOKS * YIELDS)
                .any(|_| neighbour.is_due() && neighbour.is_stuck_beside_one(0, 1, |_| Some(7)))
        );
    }
}
