//! A hierarchical timing wheel. To set, cancel and expire a timer takes constant time, whatever the number of
//! timers.
//!
//! ```text
//!   level 0: 64 slots of 65.5 µs     level 1: 64 slots of 4.2 ms     …     level 7: 64 slots of 9 years
//!            ▲ reached                        each slot: its timers and the earliest deadline
//! ```
//!
//! The level of a timer is that of the highest digit (of six bits) in which its tick differs from `reached`;
//! its slot is that digit. When time reaches a slot of a higher level, its timers move down. Each timer moves
//! at most seven times. 16 bits within a tick and eight levels of six bits are the 64 bits of the clock:
//! there is nothing beyond the last level.
//!
//! ```text
//!   level 1:  [ 0 ][ 1 ][ X ][   ] …          X is the first slot with timers
//!                         │ some at each expiry
//!                         ▼
//!   level 0:  the slots of now     the slots of X, ahead ─── time reaches X: they change places
//! ```
//!
//! A slot of level 2 may hold a hundred thousand timers. If they all moved at once, other timers would be
//! late. So each level has a second set of slots, *ahead*, into which the next slot of the level above is
//! emptied: in small steps, evenly over the time until its own time comes. Many at a time would be as bad.
//!
//! The numbers of a slot's timers are in [`blocks`]. So the next ones are known, and are fetched into the
//! cache while one is looked at.
//!
//! Ticks only sort. The deadline itself decides what expires, to the nanosecond, and `next` is a deadline,
//! too. So no timer is rounded, and no thread wakes up only to move timers down.
//!
//! # Invariants
//!
//! - Every timer of a level is due before every timer of the next level; within a level, before those of
//!   later slots.
//! - No timer is in a slot before the one of `reached`; on level 0 it may be in that one.
//! - What is ahead of a level belongs to one slot of the level above, which starts at `from`. So does the
//!   rest of that slot.
//! - A slot's `first` is no later than any of its deadlines, and [`NEVER`] if it is empty.
//! - An entry with a waker is in one slot, and knows its place there.
//! - An entry's generation changes when its timer is removed: an `EntryId` finds its own timer or none.

mod blocks;
mod segments;
#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests;

use self::blocks::{Blocks, SlotList};
use self::segments::Segments;
use super::timers::NEVER;
use std::task::Waker;
use warpweft_platform::prefetch::{prefetch, prefetch_to_write};

/// The nanoseconds of a tick, as a power of two.
const TICK_BITS: u32 = 16;
const DIGIT_BITS: u32 = 6;
const LEVELS: usize = 8;
const SLOTS: usize = 1 << DIGIT_BITS;
/// How many timers each expiry moves ahead beside an even share.
const LEAST_MOVED: usize = 32;
/// How many it moves at most, so that they make no others late.
const MOST_MOVED: usize = 2048;
/// How many timers of a slot are fetched ahead of the one that is looked at.
const FETCHED: u32 = 8;
/// The end of the list of vacant entries.
const NONE: u32 = u32::MAX;

/// The position of a timer, and its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryId {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
pub(crate) struct Wheel {
    /// The first tick that has not expired: all earlier ones have.
    reached: u64,
    /// The time of the last call of `expire`.
    expired_at: u64,
    /// Two sets of slots for each level: the present ones, and those ahead. The last level has nothing above
    /// it.
    sets: [Box<[Level; LEVELS]>; 2],
    /// For each level, which of the two sets is the present one.
    now: [u8; LEVELS],
    /// The first tick of what is ahead of each level.
    from: [u64; LEVELS],
    entries: Segments<WheelEntry, 256>,
    blocks: Blocks,
    /// The first vacant entry.
    vacant: u32,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    /// One bit for each slot that is not empty.
    occupied: u64,
    slots: [WheelSlot; SLOTS],
}

#[derive(Debug, Clone, Copy)]
struct WheelSlot {
    timers: SlotList,
    first: u64,
}

#[derive(Debug)]
struct WheelEntry {
    deadline: u64,
    /// Empty if the entry is vacant.
    waker: Option<Waker>,
    generation: u32,
    /// Its place in its slot; for a vacant entry, the next vacant one.
    place: u32,
    /// `(set * LEVELS + level) * SLOTS + slot`.
    slot: u16,
}

impl Level {
    /// Returns a time no later than the first deadline of the level; [`NEVER`] if it is empty.
    fn first(&self) -> u64 {
        match self.occupied {
            0 => NEVER,
            occupied => self.slots[occupied.trailing_zeros() as usize].first,
        }
    }
}

/// One of the two sets of slots of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Now,
    Ahead,
}

/// Returns the digit of a tick that decides at that level.
fn digit(tick: u64, level: usize) -> usize {
    (tick >> (DIGIT_BITS * level as u32)) as usize % SLOTS
}

impl Wheel {
    /// Calls `see` with the deadline and the waker of each timer.
    pub(crate) fn each(&self, mut see: impl FnMut(u64, &Waker)) {
        for entry in self.entries.iter() {
            if let Some(waker) = &entry.waker {
                see(entry.deadline, waker);
            }
        }
    }

    pub(crate) fn new() -> Self {
        let slot = WheelSlot {
            timers: SlotList::EMPTY,
            first: NEVER,
        };
        let level = Level {
            occupied: 0,
            slots: [slot; SLOTS],
        };
        // A boxed array would be built on the stack before: that of a fiber, perhaps.
        let set = || match vec![level; LEVELS].into_boxed_slice().try_into() {
            Ok(set) => set,
            Err(_) => unreachable!("the vector has as many levels"),
        };
        Self {
            reached: 0,
            expired_at: 0,
            sets: [set(), set()],
            now: [0; LEVELS],
            from: [0; LEVELS],
            entries: Segments::new(),
            blocks: Blocks::new(),
            vacant: NONE,
        }
    }

    pub(crate) fn insert(&mut self, deadline: u64, waker: Waker) -> EntryId {
        let index = self.occupy(deadline, waker);
        self.link(index);
        EntryId {
            index,
            generation: self.entries[index].generation,
        }
    }

    pub(crate) fn remove(&mut self, place: EntryId) -> Option<Waker> {
        self.waker(place)?;
        self.unlink(place.index);
        self.vacate(place.index)
    }

    pub(crate) fn waker(&mut self, place: EntryId) -> Option<&mut Waker> {
        let entry = &mut self.entries[place.index];
        entry
            .waker
            .as_mut()
            .filter(|_| entry.generation == place.generation)
    }

    /// Returns a time no later than the first deadline, and within its slot; [`NEVER`] if there is none.
    pub(crate) fn next(&self) -> u64 {
        let Some((level, slot)) = self.first_slot() else {
            return NEVER;
        };
        let first = self.set(Set::Now, level).slots[slot].first;
        match level.checked_sub(1) {
            Some(below) if self.from[below] == self.start(level, slot) => {
                first.min(self.set(Set::Ahead, below).first())
            }
            _ => first,
        }
    }

    /// Removes what is due at `now`, `most` timers at most. Returns true if there may be more.
    pub(crate) fn expire(&mut self, now: u64, most: usize, wakers: &mut Vec<Waker>) -> bool {
        let before = wakers.len();
        let more = self.take_due(now, most, wakers);
        let taken = wakers.len() - before;
        let since = now.saturating_sub(std::mem::replace(&mut self.expired_at, now));
        self.move_ahead(|timers, start| {
            // Half as much again as an even share of the time that is left, so that the next slot is in
            // place before its time comes. Two for each that expires, if many are late. But never so many
            // that others are late.
            let left = (start << TICK_BITS).saturating_sub(now);
            let share = f64::from(timers) * since.min(left) as f64 / left.max(1) as f64;
            (2 * taken).max((1.5 * share) as usize).min(MOST_MOVED) + LEAST_MOVED
        });
        more
    }

    fn take_due(&mut self, now: u64, most: usize, wakers: &mut Vec<Waker>) -> bool {
        let now_tick = now >> TICK_BITS;
        let mut left = most;
        while let Some((level, slot)) = self.first_slot() {
            let start = self.start(level, slot);
            if start > now_tick {
                break;
            }
            self.reached = self.reached.max(start);
            if level > 0 {
                let below = level - 1;
                if self.from[below] == start {
                    // The present slots are empty: their timers come before this one.
                    self.now[below] ^= 1;
                }
                // Move all the rest, so that the levels stay in order.
                while let Some(index) = self.pop(level, slot) {
                    self.link(index);
                }
                // What came from ahead into the slot that has begun belongs to the levels below, too: so it
                // is not behind the rest.
                let begun = digit(start, below);
                while below > 0
                    && let Some(index) = self.pop(below, begun)
                {
                    self.link(index);
                }
                continue;
            }
            // What is not due yet goes back: its tick is the present one.
            let mut back = SlotList::EMPTY;
            while left > 0
                && let Some(index) = self.pop(level, slot)
            {
                if self.entries[index].deadline <= now {
                    let waker = self.vacate(index);
                    // The task's state, which the waker is about to change.
                    let task = waker.iter().map(|waker| waker.data().cast());
                    task.for_each(prefetch_to_write);
                    wakers.extend(waker);
                    left -= 1;
                } else {
                    self.blocks.push(&mut back, index);
                }
            }
            while let Some(index) = self.blocks.pop(&mut back) {
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

    /// Moves timers of the next slot of each level to where they will be when its time comes. `most` returns
    /// how many, for the number of timers in the slot and its first tick. Returns true if some are left.
    pub(crate) fn move_ahead(&mut self, most: impl Fn(u32, u64) -> usize) -> bool {
        let mut left = false;
        for level in 1..LEVELS {
            let occupied = self.set(Set::Now, level).occupied;
            if occupied == 0 {
                continue;
            }
            let slot = occupied.trailing_zeros() as usize;
            let (start, below) = (self.start(level, slot), level - 1);
            if self.set(Set::Ahead, below).occupied == 0 {
                self.from[below] = start;
            } else if self.from[below] != start {
                // It holds the timers of a later slot, from before timers came into this one.
                continue;
            }
            for _ in 0..most(self.set(Set::Now, level).slots[slot].timers.len(), start) {
                let Some(index) = self.pop(level, slot) else {
                    break;
                };
                let tick = self.entries[index].deadline >> TICK_BITS;
                self.enter(index, Set::Ahead, below, digit(tick, below));
            }
            left |= !self.set(Set::Now, level).slots[slot].timers.is_empty();
        }
        left
    }

    /// Returns the number of timers. Looks at each place.
    pub(crate) fn len(&self) -> usize {
        self.entries.iter().filter(|entry| entry.waker.is_some()).count()
    }

    fn set(&self, set: Set, level: usize) -> &Level {
        &self.sets[self.which(set, level)][level]
    }

    fn which(&self, set: Set, level: usize) -> usize {
        let now = usize::from(self.now[level]);
        match set {
            Set::Now => now,
            Set::Ahead => 1 - now,
        }
    }

    /// Returns the slot of the earliest timers: they are in it, or ahead of it.
    fn first_slot(&self) -> Option<(usize, usize)> {
        (0..LEVELS).find_map(|level| {
            let mut occupied = self.set(Set::Now, level).occupied;
            if level > 0 && self.set(Set::Ahead, level - 1).occupied != 0 {
                occupied |= 1 << digit(self.from[level - 1], level);
            }
            (occupied != 0).then(|| (level, occupied.trailing_zeros() as usize))
        })
    }

    fn start(&self, level: usize, slot: usize) -> u64 {
        let shift = DIGIT_BITS * level as u32;
        let above = u64::MAX.checked_shl(shift + DIGIT_BITS).unwrap_or(0);
        self.reached & above | (slot as u64) << shift
    }

    /// Enters a timer into the slot where its deadline belongs.
    fn link(&mut self, index: u32) {
        let deadline = self.entries[index].deadline;
        // Overdue timers belong to the present tick.
        let tick = (deadline >> TICK_BITS).max(self.reached);
        let level = ((tick ^ self.reached).checked_ilog2().unwrap_or(0) / DIGIT_BITS) as usize;
        self.enter(index, Set::Now, level, digit(tick, level));
    }

    fn enter(&mut self, index: u32, set: Set, level: usize, digit: usize) {
        let which = self.which(set, level);
        let entry = &mut self.entries[index];
        let its_level = &mut self.sets[which][level];
        its_level.occupied |= 1 << digit;
        let slot = &mut its_level.slots[digit];
        slot.first = slot.first.min(entry.deadline);
        entry.place = self.blocks.push(&mut slot.timers, index);
        // Below 1024.
        entry.slot = ((which * LEVELS + level) * SLOTS + digit) as u16;
    }

    fn unlink(&mut self, index: u32) {
        let WheelEntry { place, slot, .. } = self.entries[index];
        // The last one of the slot takes its place.
        if let Some(last) = self.pop_of(slot).filter(|&last| last != index) {
            self.blocks.replace(place, last);
            self.entries[last].place = place;
        }
    }

    /// Takes a timer out of a present slot.
    fn pop(&mut self, level: usize, slot: usize) -> Option<u32> {
        let timers = self.set(Set::Now, level).slots[slot].timers;
        if let Some(soon) = self.blocks.after(timers, FETCHED) {
            prefetch(self.entries.address(soon).cast());
        }
        let which = self.which(Set::Now, level);
        self.pop_of(((which * LEVELS + level) * SLOTS + slot) as u16)
    }

    /// Takes the last timer out of a slot. Taking the only one empties the slot.
    fn pop_of(&mut self, slot: u16) -> Option<u32> {
        let (level, digit) = (usize::from(slot) / SLOTS, usize::from(slot) % SLOTS);
        let level = &mut self.sets[level / LEVELS][level % LEVELS];
        let slot = &mut level.slots[digit];
        let last = self.blocks.pop(&mut slot.timers)?;
        if slot.timers.is_empty() {
            slot.first = NEVER;
            level.occupied &= !(1 << digit);
        }
        Some(last)
    }

    fn occupy(&mut self, deadline: u64, waker: Waker) -> u32 {
        if self.vacant != NONE {
            let index = self.vacant;
            let entry = &mut self.entries[index];
            self.vacant = entry.place;
            entry.deadline = deadline;
            entry.waker = Some(waker);
            return index;
        }
        self.entries.push(WheelEntry {
            deadline,
            waker: Some(waker),
            generation: 0,
            place: 0,
            slot: 0,
        })
    }

    fn vacate(&mut self, index: u32) -> Option<Waker> {
        let entry = &mut self.entries[index];
        entry.generation = entry.generation.wrapping_add(1);
        entry.place = std::mem::replace(&mut self.vacant, index);
        entry.waker.take()
    }
}
