//! A hierarchical timing wheel: constant time to set, to cancel and to expire, whatever the number of timers.
//!
//! ```text
//!   level 0: 64 slots of 65.5 us     level 1: 64 slots of 4.2 ms     …     level 7: 64 slots of 9 years
//!            ▲ reached                        each slot: a list of timers and the earliest deadline in it
//! ```
//!
//! A timer lies at the level of the highest digit (of six bits) in which its tick differs from `reached`, in the slot of that digit.
//! When time reaches a slot of a higher level its timers move down; each does so at most seven times. 16 bits within a tick and
//! eight levels of six bits are the 64 bits of the clock: there is nothing beyond the last level.
//!
//! Ticks only sort. What expires is decided by the deadline itself, to the nanosecond, and `next` is a deadline too: no timer is
//! rounded, and nobody wakes up only to move timers down.
//!
//! # Invariants
//!
//! - Every timer of a level is due before every timer of the next level; within a level, before those of later slots.
//! - No timer's slot is before `reached`, those of level 0 at the earliest in its slot.
//! - A slot's `first` is no later than any of its deadlines, and [`NEVER`] if it is empty.
//! - An entry's generation changes when its timer goes: a place finds its own timer or none.

use super::timers::NEVER;
use std::task::Waker;

/// Nanoseconds of a tick, as a power of two.
const TICK_BITS: u32 = 16;
const DIGIT_BITS: u32 = 6;
const LEVELS: usize = 8;
const SLOTS: usize = 1 << DIGIT_BITS;
/// The end of a list.
const NONE: u32 = u32::MAX;

/// Where a timer is, and which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
pub(super) struct Wheel {
    /// All ticks before this one have expired.
    reached: u64,
    levels: Box<[Level; LEVELS]>,
    entries: Vec<Entry>,
    /// The first vacant entry.
    vacant: u32,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    /// A bit for each slot that is not empty.
    occupied: u64,
    slots: [Slot; SLOTS],
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    head: u32,
    first: u64,
}

#[derive(Debug)]
struct Entry {
    deadline: u64,
    /// Empty if the entry is vacant.
    waker: Option<Waker>,
    previous: u32,
    /// In its slot's list; of a vacant entry, in the list of those.
    next: u32,
    generation: u32,
    /// `level * SLOTS + slot`.
    home: u32,
}

impl Wheel {
    pub(super) fn new() -> Self {
        let slot = Slot {
            head: NONE,
            first: NEVER,
        };
        let level = Level {
            occupied: 0,
            slots: [slot; SLOTS],
        };
        Self {
            reached: 0,
            levels: Box::new([level; LEVELS]),
            entries: Vec::new(),
            vacant: NONE,
        }
    }

    pub(super) fn insert(&mut self, deadline: u64, waker: Waker) -> Place {
        let index = self.occupy(deadline, waker);
        self.link(index);
        Place {
            index,
            generation: self.entries[index as usize].generation,
        }
    }

    /// Takes a timer off, if it is still there.
    pub(super) fn remove(&mut self, place: Place) -> Option<Waker> {
        self.waker(place)?;
        self.unlink(place.index);
        self.vacate(place.index)
    }

    /// Whom the timer wakes, if it is still there.
    pub(super) fn waker(&mut self, place: Place) -> Option<&mut Waker> {
        let entry = &mut self.entries[place.index as usize];
        entry
            .waker
            .as_mut()
            .filter(|_| entry.generation == place.generation)
    }

    /// No later than the first deadline, and within its slot; [`NEVER`] if there is none.
    pub(super) fn next(&self) -> u64 {
        self.first_slot()
            .map_or(NEVER, |(level, slot)| self.levels[level].slots[slot].first)
    }

    /// Takes off what is due at `now`, `most` timers at the most; whether there may be more.
    pub(super) fn expire(&mut self, now: u64, most: usize, wakers: &mut Vec<Waker>) -> bool {
        let now_tick = now >> TICK_BITS;
        let mut left = most;
        while let Some((level, slot)) = self.first_slot() {
            let start = self.start(level, slot);
            if start > now_tick {
                break;
            }
            self.reached = self.reached.max(start);
            if level > 0 {
                // All of them, so that the levels stay in order.
                while let Some(index) = self.pop(level, slot) {
                    self.link(index);
                }
                continue;
            }
            // What is not due yet goes back: its tick is the present one.
            let mut back = NONE;
            while left > 0
                && let Some(index) = self.pop(level, slot)
            {
                if self.entries[index as usize].deadline <= now {
                    wakers.extend(self.vacate(index));
                    left -= 1;
                } else {
                    self.entries[index as usize].next = back;
                    back = index;
                }
            }
            while back != NONE {
                let index = back;
                back = self.entries[index as usize].next;
                self.link(index);
            }
            if left == 0 {
                return true;
            }
            if start >= now_tick {
                break;
            }
        }
        self.reached = self.reached.max(now_tick);
        false
    }

    #[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
    pub(super) fn len(&self) -> usize {
        self.entries.iter().filter(|entry| entry.waker.is_some()).count()
    }

    /// Where the earliest timers are.
    fn first_slot(&self) -> Option<(usize, usize)> {
        let level = self.levels.iter().position(|level| level.occupied != 0)?;
        Some((level, self.levels[level].occupied.trailing_zeros() as usize))
    }

    /// The first tick of a slot.
    fn start(&self, level: usize, slot: usize) -> u64 {
        let shift = DIGIT_BITS * level as u32;
        let above = u64::MAX.checked_shl(shift + DIGIT_BITS).unwrap_or(0);
        self.reached & above | (slot as u64) << shift
    }

    /// Enters an entry into the list where its deadline belongs.
    fn link(&mut self, index: u32) {
        let deadline = self.entries[index as usize].deadline;
        // What is overdue belongs to the present tick.
        let tick = (deadline >> TICK_BITS).max(self.reached);
        let level = (tick ^ self.reached).checked_ilog2().unwrap_or(0) / DIGIT_BITS;
        let digit = (tick >> (DIGIT_BITS * level)) as usize % SLOTS;
        let level = level as usize;
        self.levels[level].occupied |= 1 << digit;
        let slot = &mut self.levels[level].slots[digit];
        slot.first = slot.first.min(deadline);
        let next = std::mem::replace(&mut slot.head, index);
        if next != NONE {
            self.entries[next as usize].previous = index;
        }
        let entry = &mut self.entries[index as usize];
        entry.previous = NONE;
        entry.next = next;
        // Below 512.
        entry.home = (level * SLOTS + digit) as u32;
    }

    fn unlink(&mut self, index: u32) {
        let Entry {
            previous, next, home, ..
        } = self.entries[index as usize];
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
            return;
        }
        let (level, digit) = (home as usize / SLOTS, home as usize % SLOTS);
        let slot = &mut self.levels[level].slots[digit];
        slot.head = next;
        if next == NONE {
            slot.first = NEVER;
            self.levels[level].occupied &= !(1 << digit);
        }
    }

    /// Takes an entry out of a slot. The last one leaves it empty.
    fn pop(&mut self, level: usize, slot: usize) -> Option<u32> {
        let head = self.levels[level].slots[slot].head;
        if head == NONE {
            return None;
        }
        self.unlink(head);
        Some(head)
    }

    fn occupy(&mut self, deadline: u64, waker: Waker) -> u32 {
        if self.vacant != NONE {
            let index = self.vacant;
            let entry = &mut self.entries[index as usize];
            self.vacant = entry.next;
            entry.deadline = deadline;
            entry.waker = Some(waker);
            return index;
        }
        // 2³² timers would take 160 GiB.
        let index = u32::try_from(self.entries.len()).unwrap_or_else(|_| unreachable!("memory ends before"));
        self.entries.push(Entry {
            deadline,
            waker: Some(waker),
            previous: NONE,
            next: NONE,
            generation: 0,
            home: 0,
        });
        index
    }

    fn vacate(&mut self, index: u32) -> Option<Waker> {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = std::mem::replace(&mut self.vacant, index);
        entry.waker.take()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Entry, NEVER, Wheel};
    use std::task::Waker;

    fn expired(wheel: &mut Wheel, now: u64) -> usize {
        let mut wakers = Vec::new();
        while wheel.expire(now, 3, &mut wakers) {}
        wakers.len()
    }

    #[test]
    fn a_timer_costs_forty_bytes() {
        assert!(size_of::<Entry>() <= 40, "{}", size_of::<Entry>());
    }

    /// Around every power of two, where digits change: never a nanosecond early, never late.
    #[test]
    fn exact_at_every_digit() {
        for start in [0, 1, 1 << 22, (1 << 40) - 1, 1 << 63] {
            for bit in 0..64 {
                for deadline in [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1] {
                    let deadline = deadline.saturating_add(start).min(NEVER - 1);
                    let mut wheel = Wheel::new();
                    expired(&mut wheel, start);
                    wheel.insert(deadline, Waker::noop().clone());
                    assert_eq!(wheel.next(), deadline, "nobody wakes up before");
                    assert_eq!(
                        expired(&mut wheel, deadline.saturating_sub(1)),
                        usize::from(deadline == 0),
                        "{start} {deadline}"
                    );
                    assert_eq!(
                        expired(&mut wheel, deadline),
                        usize::from(deadline != 0),
                        "{start} {deadline}"
                    );
                    assert_eq!(wheel.next(), NEVER);
                }
            }
        }
    }

    #[test]
    fn many_at_one_moment_and_one_behind() {
        let mut wheel = Wheel::new();
        for _ in 0..10 {
            wheel.insert(1_000_000, Waker::noop().clone());
        }
        let later = wheel.insert(1_000_001, Waker::noop().clone());
        assert_eq!(expired(&mut wheel, 1_000_000), 10);
        assert_eq!((wheel.next(), wheel.len()), (1_000_001, 1));
        assert!(wheel.remove(later).is_some());
        assert!(wheel.remove(later).is_none());
        wheel.insert(5, Waker::noop().clone());
        assert_eq!(wheel.next(), 5, "what is overdue is next");
        assert_eq!(expired(&mut wheel, 1_000_000), 1);
    }

    #[test]
    fn the_last_deadline_of_all() {
        let mut wheel = Wheel::new();
        wheel.insert(NEVER - 1, Waker::noop().clone());
        assert_eq!(expired(&mut wheel, NEVER - 2), 0);
        assert_eq!(expired(&mut wheel, NEVER), 1);
    }
}
