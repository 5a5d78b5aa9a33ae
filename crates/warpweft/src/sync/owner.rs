//! The task that has a lock, or that used an object last, for dumps.
//!
//! The words are a hint: they are written after the lock was taken, and a dump reads them at any time.

use std::sync::OnceLock;
use warpweft_platform::counter::{Gauge, PointerHint};
use warpweft_task::frame::Who;

#[derive(Debug)]
pub(crate) struct Owner {
    id: Gauge,
    origin: PointerHint,
}

impl Default for Owner {
    fn default() -> Self {
        Self {
            id: Gauge::new(),
            origin: PointerHint::null(),
        }
    }
}

impl Owner {
    #[inline]
    pub(crate) fn set(&self, who: Who) {
        self.id.set(who.id as u64);
        self.origin.set(who.origin);
    }

    #[inline]
    pub(crate) fn forget(&self) {
        self.id.set(0);
    }

    pub(crate) fn set_if_unknown(&self, who: Who) {
        if self.id.get() == 0 {
            self.set(who);
        }
    }

    pub(crate) fn get(&self) -> Who {
        Who {
            id: self.id.get() as usize,
            origin: self.origin.get(),
        }
    }
}

/// How many holders of a semaphore's permits are noted at a time.
pub(crate) const SLOTS: usize = 8;
/// The mark of the first slot. That of another one is a higher bit, and 0 that of none. The slots of permits
/// that a waiter was given have the odd marks from 3 on, which are not in the word.
pub(crate) const FIRST: u8 = 1;
/// How many holders are noted beside those: of the permits that waiters were given when no mark was free.
const WAITED: usize = 32;

/// Returns true if the slot with that mark is one of those that waiters are given.
#[inline]
fn is_of_waiters(mark: u8) -> bool {
    mark & FIRST != 0 && mark != FIRST
}

/// A task that has permits of a semaphore, and how many it took.
#[derive(Debug, Default)]
pub(crate) struct Holder {
    owner: Owner,
    count: Gauge,
}

impl Holder {
    /// Notes the number of permits of the calling task.
    #[inline]
    pub(crate) fn set(&self, who: Who, count: usize) {
        self.count.set(count as u64);
        self.owner.set(who);
    }

    /// Notes that the same task has given all but this number back.
    pub(crate) fn keeps(&self, count: usize) {
        self.count.set(count as u64);
    }

    #[inline]
    pub(crate) fn forget(&self) {
        self.owner.forget();
    }

    /// Takes over what `other` notes, if it notes a task.
    pub(crate) fn copy(&self, other: &Self) {
        let (who, count) = other.get();
        if who.id != 0 {
            self.set(who, count);
        }
    }

    pub(crate) fn get(&self) -> (Who, usize) {
        (self.owner.get(), self.count.get() as usize)
    }
}

/// The holders of a semaphore's permits, as far as there are slots. Each slot belongs to one permit.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    slots: [Holder; SLOTS],
    /// The slots of permits that waiters were given. One is free while its number of permits is 0, and is
    /// reserved under the lock of the semaphore. Made when first needed.
    waited: OnceLock<Box<[Holder; WAITED]>>,
    /// 1 if the last permit that was given back to a waiter came from another task than the one that took it.
    passed_on: Gauge,
}

impl Holders {
    /// Notes which task gives a permit back, while others wait.
    pub(crate) fn given_back_by(&self, who: Who, mark: u8) {
        let taker = self.any(mark).map_or(0, |holder| holder.get().0.id);
        self.passed_on.set(u64::from(taker != who.id));
    }

    /// Returns true if tasks seem to take permits for others.
    pub(crate) fn are_passed_on(&self) -> bool {
        self.passed_on.get() != 0
    }

    /// Returns the slot with that mark.
    #[inline]
    pub(crate) fn of(&self, mark: u8) -> &Holder {
        &self.slots[mark.trailing_zeros() as usize % SLOTS]
    }

    /// Returns the slot with that mark, be it one of those that waiters are given.
    pub(crate) fn any(&self, mark: u8) -> Option<&Holder> {
        match is_of_waiters(mark) {
            true => self.waited.get()?.get(usize::from(mark / 2 - 1)),
            false => Some(self.of(mark)),
        }
    }

    /// Reserves a slot for a waiter that is given that number of permits, and returns its mark: 0 if none is
    /// free. The caller has the lock of the semaphore.
    pub(crate) fn reserve(&self, count: usize) -> u8 {
        if count == 0 {
            return 0;
        }
        let slots = self.waited.get_or_init(Box::default);
        let marks = (3_u8..).step_by(2);
        let free = slots.iter().zip(marks).find(|(slot, _)| slot.count.get() == 0);
        free.map_or(0, |(slot, mark)| {
            slot.keeps(count);
            mark
        })
    }

    /// Notes that the permit with that mark is about to be given back. Returns the mark that the word has of
    /// it.
    #[inline]
    pub(crate) fn forget(&self, mark: u8) -> u8 {
        if is_of_waiters(mark) {
            if let Some(slot) = self.any(mark) {
                slot.forget();
                slot.keeps(0);
            }
            return 0;
        }
        self.of(mark).forget();
        mark
    }

    /// Returns what the slots with these marks note, and those of waiters.
    pub(crate) fn marked(&self, marks: u8) -> impl Iterator<Item = (Who, usize)> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(move |(slot, _)| marks >> slot & 1 != 0)
            .map(|(_, holder)| holder)
            .chain(self.waited.get().into_iter().flat_map(|waited| waited.iter()))
            .map(Holder::get)
            .filter(|(who, _)| who.id != 0)
    }
}
