//! Which priorities the fibers of a thread have: where all have the same, their line needs no order.

use std::cell::Cell;
use warpweft_policy::priority;

/// Once in so many turns the line is left as it is, so that the ones that are not urgent have a turn.
const ROUND: u32 = 9;
const LAST_BIT: u32 = u64::BITS - 1;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ClassMix {
    /// The number of priorities of the pool; 0 if it has none.
    levels: usize,
    /// A bit for each level of a fiber that has begun since the thread had no other fiber.
    seen: Cell<u64>,
    /// The number of turns since one went by age.
    turns: Cell<u32>,
}

impl ClassMix {
    pub(crate) fn new(levels: u8) -> Self {
        Self {
            levels: levels.into(),
            seen: Cell::new(0),
            turns: Cell::new(0),
        }
    }

    pub(crate) fn levels(&self) -> usize {
        self.levels
    }

    /// Notes that a fiber begins; `word` returns its policy word. `is_alone` returns true if the thread has
    /// no other one.
    #[inline]
    pub(crate) fn note(&self, word: impl FnOnce() -> u64, is_alone: impl FnOnce() -> bool) {
        if self.levels > 1 {
            let before = if is_alone() { 0 } else { self.seen.get() };
            // Levels beyond the bits share the last one, and count as mixed.
            let level = priority::level(word(), self.levels).min(LAST_BIT as usize);
            let shared = if level == LAST_BIT as usize {
                1 << (LAST_BIT - 1)
            } else {
                0
            };
            self.seen.set(before | 1 << level | shared);
        }
    }

    /// Returns true if the fibers may have different priorities.
    #[inline]
    pub(crate) fn is_mixed(&self) -> bool {
        self.seen.get().count_ones() > 1
    }

    /// Returns the least urgent level that a fiber may have; 0 if there is none.
    #[inline]
    pub(crate) fn least_urgent(&self) -> usize {
        match self.seen.get().checked_ilog2() {
            Some(LAST_BIT) => usize::from(u8::MAX),
            level => level.unwrap_or(0) as usize,
        }
    }

    /// Counts a turn. Returns true if it goes by age.
    pub(crate) fn goes_by_age(&self) -> bool {
        let turns = self.turns.get();
        self.turns.set((turns + 1) % ROUND);
        turns + 1 == ROUND
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{ClassMix, ROUND};
    use warpweft_policy::priority;

    fn note(mix: &ClassMix, level: u8, is_alone: bool) -> bool {
        mix.note(|| priority::word(level), || is_alone);
        mix.is_mixed()
    }

    #[test]
    fn fibers_of_one_priority_are_not_mixed() {
        let mix = ClassMix::new(3);
        assert!(!note(&mix, 1, true) && !note(&mix, 1, false));
        assert!(note(&mix, 0, false), "another one comes");
        assert!(note(&mix, 0, false), "the first ones may still be there");
        assert_eq!(mix.least_urgent(), 1);
        assert!(!note(&mix, 2, true), "they have all ended");
        assert_eq!(mix.least_urgent(), 2);
        let none = ClassMix::new(0);
        assert!(!note(&none, 0, false) && !note(&none, 1, false));
        let many = ClassMix::new(u8::MAX);
        assert!(note(&many, 200, true), "more levels than bits");
        assert!(many.least_urgent() >= 200);
    }

    #[test]
    fn one_turn_of_a_round_goes_by_age() {
        let mix = ClassMix::new(2);
        for _ in 0..3 {
            let by_age: Vec<_> = (0..ROUND).map(|_| mix.goes_by_age()).collect();
            assert_eq!(by_age.iter().filter(|&&is| is).count(), 1);
            assert!(by_age[ROUND as usize - 1]);
        }
    }
}
