//! How many tasks a thief takes at once: a fixed amount, or one or half, whichever it has learned to be
//! better.
//!
//! Half is right where tasks are short and many, because then each theft has to pay for many tasks. It is
//! wrong where tasks are long: the next thief takes the stolen tasks before they have run, and each task
//! changes worker several times. The thief itself can observe both:
//!
//! ```text
//!   took many, ran less than half of them, and has nothing any more   ──▶ others took them: take fewer
//!   took one, is back within 20 µs, and more is there                 ──▶ it steals all the time: take more
//! ```

use super::StealAmount;
use crate::{Count, Cx};
use warpweft_queue::Amount;

/// A thief that is back within this time, in nanoseconds, takes too few: a theft costs some hundred
/// nanoseconds, and disturbs the victim.
const SOON: u64 = 20_000;
/// From this score on the amount is half.
const HALF: u8 = 4;
const MOST: u8 = 8;

/// The learned amount of one thief.
pub(super) struct AdaptiveAmount {
    portion: StealAmount,
    /// From 0 to 8.
    score: u8,
    /// What it took last, how many tasks it had run until then, and when.
    last: Option<(usize, u64, u64)>,
}

impl AdaptiveAmount {
    pub(super) fn new(portion: StealAmount) -> Self {
        Self {
            portion,
            score: MOST,
            last: None,
        }
    }

    /// Returns how many to take now.
    pub(super) fn amount(&self) -> Amount {
        match self.portion {
            StealAmount::Fixed(amount) => amount,
            StealAmount::Adaptive if self.score >= HALF => Amount::Half,
            StealAmount::Adaptive => Amount::One,
        }
    }

    /// Learns from a theft: the worker, which had no tasks, took `taken` of `lay` tasks.
    pub(super) fn took(&mut self, taken: usize, lay: usize, cx: &Cx<'_>) {
        if self.portion != StealAmount::Adaptive {
            return;
        }
        let (ran, now) = (cx.counted(Count::Ran), cx.now_ns());
        let Some((before, ran_then, then)) = self.last.replace((taken, ran, now)) else {
            return;
        };
        let ran_since = usize::try_from(ran.saturating_sub(ran_then)).unwrap_or(usize::MAX);
        if before > 1 && ran_since < before / 2 {
            self.score = self.score.saturating_sub(1);
        } else if now.saturating_sub(then) < SOON && (before > 1 || lay > taken) {
            self.score = (self.score + 1).min(MOST);
        }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;
    use crate::{Clock, Counters, WorkerId};
    use std::cell::{Cell, RefCell};
    use warpweft_platform::random::Rng;

    /// A thief that takes `taken` of `lay` again and again, and runs `ran` tasks in `ns` nanoseconds between.
    /// Returns how many it takes then.
    fn after(
        amount: &mut AdaptiveAmount,
        times: usize,
        taken: usize,
        lay: usize,
        ran: u64,
        ns: u64,
    ) -> Amount {
        let (counters, random, now) = (Counters::default(), RefCell::new(Rng::seeded(1)), Cell::new(0));
        amount.last = None;
        for _ in 0..=times {
            let cx = Cx::for_worker(WorkerId(0), 2, &counters, &random, Clock::Virtual(&now));
            amount.took(taken, lay, &cx);
            counters.add(Count::Ran, ran);
            now.set(now.get() + ns);
        }
        amount.amount()
    }

    #[test]
    fn what_goes_on_before_it_runs_makes_it_small_and_short_tasks_large_again() {
        let mut amount = AdaptiveAmount::new(StealAmount::Adaptive);
        assert_eq!(amount.amount(), Amount::Half);
        // It runs all that it takes.
        assert_eq!(after(&mut amount, 100, 32, 64, 32, 1_000_000), Amount::Half);
        // It takes 32 and runs one: a few of those do not change the amount.
        assert_eq!(after(&mut amount, 3, 32, 64, 1, 1_000_000), Amount::Half);
        assert_eq!(after(&mut amount, 20, 32, 64, 1, 1_000_000), Amount::One);
        // One long task after the other: one at a time is right.
        assert_eq!(after(&mut amount, 100, 1, 64, 1, 1_000_000), Amount::One);
        // The last one, again and again: half would be the same.
        assert_eq!(after(&mut amount, 100, 1, 1, 1, 1_000), Amount::One);
        // Short ones, of which there are more.
        assert_eq!(after(&mut amount, 20, 1, 64, 1, 1_000), Amount::Half);
    }

    #[test]
    fn what_was_said_stays() {
        for fixed in [Amount::One, Amount::Half] {
            let mut amount = AdaptiveAmount::new(fixed.into());
            assert_eq!(after(&mut amount, 100, 32, 64, 1, 1), fixed);
            assert_eq!(after(&mut amount, 100, 1, 64, 1, 1), fixed);
        }
    }
}
