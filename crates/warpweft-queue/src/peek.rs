//! What a report sees of an element that others may take at any time.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;

/// An element that was in a queue a moment ago, as a word that owns nothing.
///
/// Any thread may have taken the element since, and may have dropped it. So the word may be compared and
/// counted. To follow it takes `unsafe` code that knows by other means that the element still exists.
///
/// ```
/// use warpweft_queue::{Fifo, Owner, Thief};
/// # use std::num::NonZeroUsize;
/// let mut queue = Fifo::with_capacity(8)?;
/// queue.push(NonZeroUsize::new(7).unwrap()).unwrap();
/// let mut seen = Vec::new();
/// queue.thief().peek(100, &mut |peek| seen.push(peek.word().get()));
/// assert_eq!((seen, queue.len()), (vec![7], 1));
/// # Ok::<(), warpweft_queue::CapacityError>(())
/// ```
///
/// It does not leave the closure that it is given to:
///
/// ```compile_fail
/// # use warpweft_queue::{Fifo, Owner, Peek, Thief};
/// # use std::num::NonZeroUsize;
/// # let queue = Fifo::<NonZeroUsize>::with_capacity(8).unwrap();
/// let mut kept: Option<Peek<'_, NonZeroUsize>> = None;
/// queue.thief().peek(100, &mut |peek| kept = Some(peek));
/// ```
pub struct Peek<'a, T> {
    word: NonZeroUsize,
    /// It lives no longer than the call that shows it.
    _call: PhantomData<&'a ()>,
    _element: PhantomData<fn() -> T>,
}

impl<T> Peek<'_, T> {
    pub(crate) fn new(word: NonZeroUsize) -> Self {
        Self {
            word,
            _call: PhantomData,
            _element: PhantomData,
        }
    }

    /// Returns what [`into_word`](crate::Word::into_word) made of the element.
    #[must_use]
    pub fn word(&self) -> NonZeroUsize {
        self.word
    }
}

impl<T> fmt::Debug for Peek<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Peek").field(&self.word).finish()
    }
}
