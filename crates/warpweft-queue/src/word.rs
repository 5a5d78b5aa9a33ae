//! Elements of one machine word.

use std::num::NonZeroUsize;

/// A value that fits in one non-zero machine word, and travels as such through a queue.
///
/// One-word elements let every slot be a plain atomic. So a slot is read and claimed without a data race,
/// which a queue of arbitrary `T` cannot promise. Zero marks an empty slot.
///
/// # Safety
///
/// `from_word(into_word(x))` returns `x`, on any thread. `into_word` passes ownership to the word, which is
/// turned back at most once.
pub unsafe trait Word: Send + Sized {
    /// Turns the value into a word, which owns it.
    fn into_word(self) -> NonZeroUsize;

    /// Turns the word back into the value.
    ///
    /// # Safety
    ///
    /// `word` came from [`into_word`](Word::into_word) of the same type and was not taken back before.
    unsafe fn from_word(word: NonZeroUsize) -> Self;
}

// SAFETY: the number is the word.
unsafe impl Word for NonZeroUsize {
    fn into_word(self) -> NonZeroUsize {
        self
    }

    unsafe fn from_word(word: NonZeroUsize) -> Self {
        word
    }
}

// SAFETY: `into_raw` and `from_raw` are inverse, a box's address is never zero, and `T: Send` allows taking
// the box back on another thread.
unsafe impl<T: Send> Word for Box<T> {
    fn into_word(self) -> NonZeroUsize {
        // The address is exposed so that `from_word` may rebuild the pointer from it.
        let address = Box::into_raw(self).expose_provenance();
        NonZeroUsize::new(address).unwrap_or_else(|| unreachable!("a box has a non-zero address"))
    }

    unsafe fn from_word(word: NonZeroUsize) -> Self {
        let pointer = std::ptr::with_exposed_provenance_mut(word.get());
        // SAFETY: by this function's contract the word is the address of a box that `into_word` gave up,
        // once.
        unsafe { Box::from_raw(pointer) }
    }
}
