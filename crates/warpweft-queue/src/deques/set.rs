//! A set of stealable deques: a vector, so that choosing and removing cost the same however many deques there
//! are.
//!
//! ```text
//!   thieves                                   member k: suspended      [ a ][ b ]
//!      │ choose 0 .. n: a member, or          member k+1: muggable     [ c ]  + woken
//!      ▼ the active deque if it has tasks     member k+2: resumable           + woken
//! ```

use crate::{Lifo, LifoThief, Owner, Thief, Word};
use std::ops::{Deref, DerefMut};
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::{Mutex, MutexGuard};

/// How many empty stacks a set keeps for later deques.
const SPARES: usize = 4;

/// The most slots that such a stack has. A larger one would keep its memory for nothing.
const SPARE_SLOTS: usize = 1 << 10;

/// What thieves may do with a deque without an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It waits for its task; this is the index of its entry.
    Suspended(u32),
    Resumable,
    Muggable,
}

/// The owner's and the thieves' end of a stack.
pub(super) type Ends<T> = (Lifo<T>, LifoThief<T>);

/// A deque without an owner, which has tasks.
pub(super) struct Member<T: Word> {
    pub(super) standing: Standing,
    /// Both ends of its stack. None if the deque was empty when its task was woken: one task needs no stack.
    pub(super) ends: Option<Ends<T>>,
    /// The task for which it waited: at the bottom, below the stack's youngest.
    pub(super) woken: Option<T>,
}

impl<T: Word> Member<T> {
    pub(super) fn len(&self) -> usize {
        self.ends.as_ref().map_or(0, |(stack, _)| stack.len()) + usize::from(self.woken.is_some())
    }

    /// Takes the oldest task. None only if another has just taken it, which the set's lock prevents.
    pub(super) fn pop_top(&mut self) -> Option<T> {
        match &self.ends {
            Some((stack, thieves)) if !stack.is_empty() => thieves.steal_one().taken(),
            _ => self.woken.take(),
        }
    }
}

/// The deques that can be stolen from at one worker.
pub(super) struct Set<T: Word> {
    /// The end of the worker's active deque. It counts as a member while it has tasks.
    pub(super) active: Option<LifoThief<T>>,
    /// The deques without an owner.
    pub(super) members: Vec<Member<T>>,
    cursor: usize,
    spares: Vec<Lifo<T>>,
}

impl<T: Word> Set<T> {
    pub(super) fn new() -> Self {
        Self {
            active: None,
            members: Vec::new(),
            cursor: 0,
            spares: Vec::new(),
        }
    }

    /// How many tasks the active deque has.
    pub(super) fn active_len(&self) -> usize {
        self.active.as_ref().map_or(0, |active| active.glance().len)
    }

    /// Returns the member whose turn it is: downwards, then from the end again. The last member takes the
    /// index of a removed one. So members move downwards only, and none is passed over forever.
    pub(super) fn next_in_turn(&mut self) -> Option<usize> {
        let last = self.members.len().checked_sub(1)?;
        self.cursor = match self.cursor.min(last + 1) {
            0 => last,
            cursor => cursor - 1,
        };
        Some(self.cursor)
    }

    /// Keeps an empty stack for a later deque, if few are kept and it is small.
    pub(super) fn keep(&mut self, stack: Lifo<T>) {
        debug_assert!(stack.is_empty(), "a stack with tasks is a deque");
        if self.spares.len() < SPARES && stack.capacity() <= SPARE_SLOTS {
            self.spares.push(stack);
        }
    }

    pub(super) fn spare(&mut self) -> Option<Lifo<T>> {
        self.spares.pop()
    }
}

/// A set and its lock.
pub(super) struct LockedSet<T: Word> {
    set: Mutex<Set<T>>,
    /// Twice the number of members, and 1 if the worker has an active deque: written under the lock, read
    /// without.
    glance: AtomicUsize,
}

impl<T: Word> LockedSet<T> {
    pub(super) fn new(set: Set<T>) -> Self {
        Self {
            set: Mutex::new(set),
            glance: AtomicUsize::new(0),
        }
    }

    /// How many members there are; a hint.
    pub(super) fn len(&self) -> usize {
        self.glance() / 2
    }

    /// Returns true if there is no deque; a hint.
    pub(super) fn is_vacant(&self) -> bool {
        self.glance() == 0
    }

    fn glance(&self) -> usize {
        // Ordering: Acquire pairs with the Release in `SetGuard::drop`.
        self.glance.load(Ordering::Acquire)
    }

    pub(super) fn lock(&self) -> SetGuard<'_, T> {
        SetGuard {
            set: self.set.lock(),
            glance: &self.glance,
        }
    }
}

/// A locked set. It publishes how many deques there are before it releases the lock.
pub(super) struct SetGuard<'a, T: Word> {
    set: MutexGuard<'a, Set<T>>,
    glance: &'a AtomicUsize,
}

impl<T: Word> Drop for SetGuard<'_, T> {
    fn drop(&mut self) {
        let glance = 2 * self.set.members.len() + usize::from(self.set.active.is_some());
        // Ordering: Release pairs with the Acquire in `LockedSet::glance`. The lock, still held, orders it
        // among the other stores.
        self.glance.store(glance, Ordering::Release);
    }
}

impl<T: Word> Deref for SetGuard<'_, T> {
    type Target = Set<T>;

    fn deref(&self) -> &Set<T> {
        &self.set
    }
}

impl<T: Word> DerefMut for SetGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut Set<T> {
        &mut self.set
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;

    /// The cost of a resumable deque that was empty when it was suspended.
    #[test]
    fn a_member_has_56_bytes() {
        assert_eq!(size_of::<Member<Box<u8>>>(), 56);
    }
}
