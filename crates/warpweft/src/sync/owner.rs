//! The task that has a lock, or that used an object last, for reports.
//!
//! The words are a hint: they are written after the lock was taken, and a report reads them at any time.

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
/// The mark of the first slot. That of another one is a higher bit, and 0 that of none.
pub(crate) const FIRST: u8 = 1;

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
    /// 1 if the last permit that was given back to a waiter came from another task than the one that took it.
    passed_on: Gauge,
}

impl Holders {
    /// Notes which task gives a permit back, while others wait.
    pub(crate) fn given_back_by(&self, who: Who, mark: u8) {
        self.passed_on.set(u64::from(self.of(mark).get().0.id != who.id));
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

    /// Returns what the slots with these marks note.
    pub(crate) fn marked(&self, marks: u8) -> impl Iterator<Item = (Who, usize)> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(move |(slot, _)| marks >> slot & 1 != 0)
            .map(|(_, holder)| holder.get())
            .filter(|(who, _)| who.id != 0)
    }
}
