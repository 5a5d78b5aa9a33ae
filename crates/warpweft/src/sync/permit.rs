//! Permits that a task has.
//!
//! # Invariants
//!
//! - The mark of a permit is set in the semaphore's word for as long as the permit exists, and no other
//!   permit has it. Where a waiter was given the permit, its mark may be one that is not in the word.
//! - A permit that has a share of its semaphore has no such slot: it is that of a limit.

use super::owner::FIRST;
use super::semaphore::Semaphore;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Permits of a [`Semaphore`], which are given back when it is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the permits back"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    /// How many there are, and in the uppermost byte the mark of the slot in which their task is noted.
    count: usize,
    /// The slot is the first one. As a `bool`, it leaves room for the other variants of results.
    is_first: bool,
}

/// Where the mark is in the count.
pub(super) const MARK_SHIFT: u32 = usize::BITS - 8;
pub(super) const COUNT: usize = (1 << MARK_SHIFT) - 1;
const _: () = assert!(Semaphore::MAX_PERMITS <= COUNT);

impl<'a> Permit<'a> {
    /// Returns the permit of a caller that has taken that number, and has the slot with that mark.
    #[inline]
    pub(super) fn new(semaphore: &'a Semaphore, count: usize, mark: u8) -> Self {
        Self {
            semaphore,
            count: count | usize::from(mark) << MARK_SHIFT,
            is_first: mark == FIRST,
        }
    }

    /// Returns the number of permits.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count & COUNT
    }

    fn mark(&self) -> u8 {
        (self.count >> MARK_SHIFT) as u8
    }

    /// Gives all but `count` of them back. There are at least that many.
    pub(super) fn keep(mut self, count: usize) -> Self {
        let rest = self.count() - count;
        self.count -= rest;
        self.semaphore.note_rest(count, self.mark());
        self.semaphore.release(rest, 0);
        self
    }

    /// Keeps the permits for ever; [`Semaphore::add`] can add as many again.
    pub fn forget(self) {
        let this = ManuallyDrop::new(self);
        this.semaphore.lose(this.count());
        match this.mark() {
            0 => (),
            FIRST => {
                this.semaphore.forget(FIRST);
                this.semaphore.release(0, FIRST);
            }
            mark => this.semaphore.release_beside(0, mark),
        }
    }

    /// Turns it into one that has a share of its semaphore, which is `semaphore`.
    pub(crate) fn into_owned(self, semaphore: &Arc<Semaphore>) -> OwnedPermit {
        let this = ManuallyDrop::new(self);
        OwnedPermit {
            semaphore: Arc::clone(semaphore),
            count: this.count(),
            mark: this.mark(),
        }
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_first {
            self.semaphore.forget(FIRST);
            self.semaphore.release(self.count, FIRST);
        } else {
            self.semaphore.release_beside(self.count(), self.mark());
        }
    }
}

/// Permits with a share of their semaphore.
#[derive(Debug)]
pub(crate) struct OwnedPermit {
    semaphore: Arc<Semaphore>,
    count: usize,
    mark: u8,
}

impl OwnedPermit {
    /// Notes the calling task as the holder, in place of the one that took the permits for it.
    pub(crate) fn adopt(&self) {
        self.semaphore.note(self.count, self.mark);
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        self.semaphore.forget(self.mark);
        self.semaphore.release(self.count, self.mark);
    }
}
