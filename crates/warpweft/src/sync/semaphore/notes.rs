//! Which tasks have permits: notes for reports, in the slots of their marks.

use super::Semaphore;
use crate::execution::current_task::current_task;
use crate::pool::lending;
use crate::sync::marks::LINE;
use crate::sync::owner::{FIRST, Holders};
use warpweft_platform::atomic::Ordering;

impl Semaphore {
    /// Notes in the slot with that mark that the calling task has this number of permits.
    #[inline]
    pub(in crate::sync) fn note(&self, count: usize, mark: u8) {
        if mark == 0 {
            return;
        }
        let who = current_task();
        if mark == FIRST {
            self.holder.set(who, count);
        }
        if let Some(holders) = self.list.beside() {
            holders.of(mark).set(who, count);
        }
    }

    /// Notes that the permit with that mark keeps this number.
    pub(in crate::sync) fn note_rest(&self, count: usize, mark: u8) {
        if mark == FIRST {
            self.holder.keeps(count);
        }
        if let Some(holders) = self.list.beside().filter(|_| mark != 0) {
            holders.any(mark).iter().for_each(|holder| holder.keeps(count));
        }
    }

    /// Notes that the permit with that mark is about to be given back.
    #[inline]
    pub(in crate::sync) fn forget(&self, mark: u8) {
        if mark == FIRST {
            self.holder.forget();
            if self.list.beside().is_some() {
                self.forget_copy();
            }
        } else if let Some(holders) = self.list.beside().filter(|_| mark != 0) {
            holders.of(mark).forget();
        }
    }

    #[inline(never)]
    fn forget_copy(&self) {
        let node = self.list.node();
        self.note_giver(&node.beside, FIRST);
        node.beside.of(FIRST).forget();
        lending::released(std::ptr::from_ref(&node.state).addr());
    }

    /// Reserves a slot for a waiter that is given permits while no mark is free. The caller has the lock.
    pub(super) fn reserve(&self, count: usize) -> u8 {
        self.list.beside().map_or(0, |holders| holders.reserve(count))
    }

    /// As [`note`](Self::note), for permits that a waiter was given.
    pub(super) fn note_given(&self, count: usize, mark: u8) {
        let beside = self.list.beside().filter(|_| mark != 0 && mark != FIRST);
        match beside.and_then(|holders| holders.any(mark)) {
            Some(holder) => holder.set(current_task(), count),
            None => self.note(count, mark),
        }
    }

    /// Notes which task gives a permit back, if others wait.
    #[inline]
    pub(super) fn note_giver(&self, holders: &Holders, mark: u8) {
        if self.word.load(Ordering::Relaxed) & LINE != 0 {
            holders.given_back_by(current_task(), mark);
        }
    }
}
