//! A slot for one element, which any thread may fill and any thread may empty.
//!
//! ```text
//!   swap(b) ──▶ [ a ] ──▶ a          take ──▶ [ b ] ──▶ b          take ──▶ [   ] ──▶ nothing
//! ```
//!
//! A scheduler keeps the task here that became ready last, because its data is in the cache. Or it keeps a
//! message from one worker to another, of which only the last one counts.
//!
//! # Invariants
//!
//! - The word is 0 or one element, and changes by swaps only. The thread that swaps an element out owns it;
//!   no thread follows it without taking.
//! - So an element that comes back to the slot (the same address again) deceives no thread: a thief takes
//!   what is there now.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicUsize, Ordering};

use crate::{Glance, Peek, Word};

/// A slot for one element.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_queue::Slot;
///
/// let slot = Slot::new();
/// let [a, b] = [1, 2].map(|n| NonZeroUsize::new(n).unwrap());
/// assert_eq!(slot.swap(a), None);
/// assert_eq!(slot.swap(b), Some(a));
/// assert_eq!(slot.take(), Some(b));
/// assert_eq!(slot.take(), None);
/// ```
pub struct Slot<T: Word> {
    /// On its own line: the neighbours are other workers' slots.
    word: CachePadded<AtomicUsize>,
    /// Elements go through by value only.
    _elements: PhantomData<fn(T) -> T>,
}

impl<T: Word> Slot<T> {
    /// Makes an empty slot.
    #[must_use]
    pub fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicUsize::new(0)),
            _elements: PhantomData,
        }
    }

    /// Fills the slot, and returns its former element. Costs one read-modify-write instruction.
    #[inline]
    pub fn swap(&self, element: T) -> Option<T> {
        self.swap_word(element.into_word().get())
    }

    /// Takes the element, if there is one. An empty slot costs one load.
    #[inline]
    pub fn take(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.swap_word(0)
    }

    /// Returns true if the slot is empty. Costs one load. Never true after a push that happens before the
    /// call, unless the element was taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Ordering: Acquire; a thread that sees an element also sees what came before it was put there
        // (partner: `swap_word`).
        self.word.load(Ordering::Acquire) == 0
    }

    /// Takes a snapshot of the slot. Two equal glances mean that the same element was there both times; it
    /// may have been taken and put back between them.
    pub fn glance(&self) -> Glance {
        // Ordering: Acquire, as in `is_empty`.
        let word = self.word.load(Ordering::Acquire);
        Glance {
            len: usize::from(word != 0),
            mark: word as u64,
        }
    }

    /// Shows the element, if there is one, and leaves it. It may be taken, and dropped, at any time.
    pub fn peek(&self, see: &mut dyn FnMut(Peek<'_, T>)) {
        // Ordering: Acquire, as in `is_empty`.
        if let Some(word) = NonZeroUsize::new(self.word.load(Ordering::Acquire)) {
            see(Peek::new(word));
        }
    }

    fn swap_word(&self, word: usize) -> Option<T> {
        // Ordering: Release for what comes with the element that goes in, Acquire for that of the element
        // that comes out.
        let before = self.word.swap(word, Ordering::AcqRel);
        // SAFETY: a word in the slot is from `into_word`; the swap took it out, so it is taken back once.
        NonZeroUsize::new(before).map(|before| unsafe { T::from_word(before) })
    }
}

impl<T: Word> Default for Slot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Word> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.swap_word(0));
    }
}

impl<T: Word> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}
