//! The word of a semaphore: free permits, and which permits have a slot in which they note their task.

use super::owner::{FIRST, SLOTS};

pub(super) const LINE: usize = 1;
/// No permits are given any more. Never cleared.
pub(super) const CLOSED: usize = 2;
/// Where the marks are: the first slot's is the lowest one.
pub(super) const MARK: usize = 4;
pub(super) const MARKS: usize = ((1 << SLOTS) - 1) * MARK;
pub(super) const ONE: usize = MARK << SLOTS;

/// Returns the slots that are never free. With more permits than slots not all holders could be known, so
/// only the first one is: shared use costs less then.
pub(super) fn unnoted(permits: usize) -> usize {
    if permits > SLOTS {
        MARKS & !in_word(FIRST)
    } else {
        0
    }
}

/// Returns the mark of a slot that is free in the word; 0 if none is.
#[inline]
pub(super) fn vacant(word: usize) -> u8 {
    // The lowest bit that is not set. If all marks are, the carry leaves them.
    let bit = (word | (MARK - 1)).wrapping_add(1) & !word & MARKS;
    (bit / MARK) as u8
}

#[inline]
pub(super) fn in_word(mark: u8) -> usize {
    usize::from(mark) * MARK
}
