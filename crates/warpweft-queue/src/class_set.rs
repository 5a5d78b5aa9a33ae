//! A set of classes whose queues may have elements: one bit for each class, in one word.
//!
//! It is used in front of many queues, so that one load shows which of them to look at.
//!
//! ```text
//!   push:    element ──▶ queue of class c ──▶ insert(c)     bit c is set after the element is there
//!   look:    first() ──▶ c ──▶ queue of class c ──▶ element, or nothing
//!   nothing: remove_if(c, is the queue empty?)              the bit is cleared, the queue checked again,
//!                                                           the bit perhaps set again
//! ```
//!
//! # Invariants
//!
//! - After each push the pusher calls [`insert`](ClassSet::insert). Only [`remove_if`](ClassSet::remove_if)
//!   clears bits.
//! - So when no call is under way, the bit of a class whose queues have elements is set. A set bit without
//!   elements is allowed: the next look clears it.
//! - The set is a hint while calls are under way. A thread on its way to sleep looks at the queues
//!   themselves.
//!
//! *Proof.* `insert` fences between the push and its load of the word. `remove_if` fences between clearing
//! the bit and looking at the queue. One of the two fences is first. If it is the pusher's, the look sees the
//! element, and the bit is set again. If it is the other one, the load sees the bit cleared, or a later
//! value, and `insert` sets it.

use std::fmt;

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU64, Ordering, fence};

/// A set of up to 64 classes, of which the lowest is found by one load.
///
/// ```
/// use warpweft_queue::ClassSet;
///
/// let set = ClassSet::new();
/// set.insert(5);
/// set.insert(2);
/// assert_eq!((set.first(), set.next_from(3)), (Some(2), Some(5)));
/// set.remove_if(2, || true);
/// set.remove_if(5, || false);
/// assert_eq!(set.first(), Some(5));
/// ```
pub struct ClassSet {
    /// On its own line: workers read it for each task, and it is seldom written.
    bits: CachePadded<AtomicU64>,
}

impl ClassSet {
    /// The number of classes, from 0.
    pub const CLASSES: usize = u64::BITS as usize;

    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bits: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Records that a class may have elements, after one was pushed. Costs one fence, and no write if the bit
    /// is set already.
    ///
    /// # Panics
    ///
    /// If the class is [`CLASSES`](Self::CLASSES) or more.
    pub fn insert(&self, class: usize) {
        let bit = bit(class);
        // Ordering: SeqCst orders the push before the load (partner: `remove_if`). Without it the load could
        // see a bit that is about to be cleared by a thread that does not see the element.
        fence(Ordering::SeqCst);
        // Ordering: Relaxed; the fence orders it. The write that is avoided would take the line from all its
        // readers.
        if self.bits.load(Ordering::Relaxed) & bit == 0 {
            // Ordering: Relaxed; a thread that sees the bit takes the element by the queue's own
            // synchronisation.
            self.bits.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns the lowest class that may have elements. Costs one load.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        lowest(self.load())
    }

    /// Returns the lowest class from `class` on that may have elements. Costs one load.
    #[must_use]
    pub fn next_from(&self, class: usize) -> Option<usize> {
        let from = u64::MAX.checked_shl(u32::try_from(class).ok()?)?;
        lowest(self.load() & from)
    }

    /// Returns true if no class seems to have elements. Costs one load.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.load() == 0
    }

    /// Removes a class whose queues are empty. `is_empty` looks at the queues; the class stays in the set if
    /// it returns `false`.
    ///
    /// # Panics
    ///
    /// If the class is [`CLASSES`](Self::CLASSES) or more.
    pub fn remove_if(&self, class: usize, is_empty: impl FnOnce() -> bool) {
        let bit = bit(class);
        // Ordering: Relaxed; the fence orders it.
        self.bits.fetch_and(!bit, Ordering::Relaxed);
        // Ordering: SeqCst orders the clearing before the look (partner: `insert`).
        fence(Ordering::SeqCst);
        if !is_empty() {
            // Ordering: Relaxed, as in `insert`.
            self.bits.fetch_or(bit, Ordering::Relaxed);
        }
    }

    #[inline]
    fn load(&self) -> u64 {
        // Ordering: Relaxed; it is a hint, and the queues synchronise.
        self.bits.load(Ordering::Relaxed)
    }
}

fn bit(class: usize) -> u64 {
    assert!(
        class < ClassSet::CLASSES,
        "class {class}: there are {}",
        ClassSet::CLASSES
    );
    1 << class
}

#[inline]
fn lowest(bits: u64) -> Option<usize> {
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

impl Default for ClassSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ClassSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClassSet({:#b})", self.load())
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_found_from_the_lowest_on() {
        let set = ClassSet::new();
        assert!(set.is_empty() && set.first().is_none());
        for class in [63, 0, 17] {
            set.insert(class);
            set.insert(class);
        }
        assert_eq!(
            [0, 1, 17, 18, 63, 64, usize::MAX].map(|from| set.next_from(from)),
            [Some(0), Some(17), Some(17), Some(63), Some(63), None, None]
        );
        set.remove_if(0, || true);
        set.remove_if(17, || false);
        set.remove_if(3, || true);
        assert_eq!(set.first(), Some(17));
        assert_eq!(format!("{set:?}").len(), "ClassSet(0b)".len() + 64);
    }

    #[test]
    #[should_panic(expected = "class 64: there are 64")]
    fn a_class_too_many_is_refused() {
        ClassSet::new().insert(64);
    }
}
