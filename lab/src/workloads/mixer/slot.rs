//! A slot: room for one thing, handed over from one task to one other. No task waits for it: a task that
//! finds it full, or empty, does something else.
//!
//! ```text
//!   writer ── put, if it is empty ──▶ [ full? | place ] ── take, if it is full ──▶ reader
//! ```
//!
//! Only the writer sets `full`, and only the reader clears it, so what either sees at its turn stays true
//! until it acts. The lock around the place is there for the compiler and is never contended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A slot; see the module. Neighbours share no line, nor a pair of lines.
#[repr(align(128))]
pub(super) struct Slot<T> {
    full: AtomicBool,
    place: Mutex<T>,
}

impl<T> Slot<T> {
    /// An empty slot around a place.
    pub(super) fn around(place: T) -> Self {
        Self {
            full: AtomicBool::new(false),
            place: Mutex::new(place),
        }
    }

    /// Returns true if something is in it.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        // Acquire, partner of the releases below: what is there, or that it was taken, is seen.
        self.full.load(Ordering::Acquire)
    }

    /// Fills the place, and says so. The caller alone fills it and has seen it empty.
    #[inline]
    pub(super) fn put(&self, fill: impl FnOnce(&mut T)) {
        debug_assert!(!self.is_full(), "nothing may be overwritten");
        fill(&mut self.place.lock().unwrap_or_else(PoisonError::into_inner));
        // Release, partner of `is_full`.
        self.full.store(true, Ordering::Release);
    }

    /// Reads the place, and leaves it empty. The caller alone empties it and has seen it full.
    #[inline]
    pub(super) fn take<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        debug_assert!(self.is_full(), "nothing may be read twice");
        let read = read(&self.place.lock().unwrap_or_else(PoisonError::into_inner));
        // Release, partner of `is_full`.
        self.full.store(false, Ordering::Release);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn all_that_is_handed_over_arrives_once_and_in_order() {
        let slot = Slot::around(0_u64);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=10_000 {
                    while slot.is_full() {
                        thread::yield_now();
                    }
                    slot.put(|place| *place = number);
                }
            });
            for number in 1..=10_000 {
                while !slot.is_full() {
                    thread::yield_now();
                }
                assert_eq!(slot.take(|place| *place), number);
            }
        });
        assert!(!slot.is_full());
    }
}
