//! One queue made of several: pushes go to a random shard, pops look through all shards.
//!
//! However fast a queue is, all its users contend for the cache lines of its two ends. *k* queues have 2*k*
//! such lines. (EBSL B.8: B. Modelski, *Using effect handlers for efficient parallel scheduling*, Cambridge
//! 2022; and the multi-queues of H. Rihani, P. Sanders and R. Dementiev, 2015, without their priorities.)
//!
//! ```text
//!   push(x, pick = 6)               pop(start = 3)
//!             │  shard 0  [ . . . . ]  ▲ 2nd: empty
//!             │  shard 1  [ a b . . ]  ▲ 3rd: a
//!   6 mod 4 = └▶ shard 2  [ c d e x ]
//!                shard 3  [ . . . . ]  ▲ 1st: empty
//! ```
//!
//! # The order
//!
//! Each shard is a linearizable FIFO. The whole is not one: elements of different shards overtake each other.
//! To its users it is a *bag*, which returns each element once, with these weaker answers:
//!
//! - `None` means that each shard was empty at *some* moment of the call, not all at the same one. An element
//!   that was there during the whole call is never overlooked; one that is pushed to a shard already passed
//!   is, even if the last element of a shard not yet passed was taken after that.
//! - [`Full`] likewise means that each shard was full at some moment of the call.
//!
//! That is enough for a scheduler that is about to sleep. It announces itself, then looks through all shards.
//! It finds a push before the announcement; a push after it sees the sleeper (with a `SeqCst` fence on each
//! side).

use std::fmt;
use std::marker::PhantomData;

use crate::{CapacityError, Full, Locked, Mpmc, Word};

/// A queue that can be a part of a [`Multi`].
pub trait Shard<T>: Sync {
    /// Adds an element as the youngest.
    ///
    /// # Errors
    ///
    /// [`Full`] with the element if the shard was full at a moment of the call.
    fn try_push(&self, element: T) -> Result<(), Full<T>>;

    /// Takes the oldest element; `None` if the shard was empty at a moment of the call.
    fn try_pop(&self) -> Option<T>;

    /// Returns about how many elements there are.
    fn len(&self) -> usize;

    /// Returns true if the shard was empty at a moment of the call. False may also mean that another thread
    /// is at work.
    fn is_empty(&self) -> bool;
}

impl<T: Word> Shard<T> for Mpmc<T> {
    fn try_push(&self, element: T) -> Result<(), Full<T>> {
        Mpmc::try_push(self, element)
    }

    fn try_pop(&self) -> Option<T> {
        Mpmc::try_pop(self)
    }

    fn len(&self) -> usize {
        Mpmc::len(self)
    }

    fn is_empty(&self) -> bool {
        Mpmc::is_empty(self)
    }
}

impl<T: Word> Shard<T> for Locked<T> {
    fn try_push(&self, element: T) -> Result<(), Full<T>> {
        self.push(element);
        Ok(())
    }

    fn try_pop(&self) -> Option<T> {
        self.pop()
    }

    fn len(&self) -> usize {
        Locked::len(self)
    }

    fn is_empty(&self) -> bool {
        Locked::is_empty(self)
    }
}

/// A queue of `k` shards.
///
/// The caller supplies the randomness: a worker has its own generator, and a test has none.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_queue::{Locked, Multi};
///
/// let queue = Multi::from_shards((0..4).map(|_| Locked::new()))?;
/// let n = NonZeroUsize::new(7).unwrap();
/// assert_eq!(queue.push(n, 2), Ok(()));
/// assert_eq!(queue.pop(3), Some(n)); // looks at the shards 3, 0, 1, 2
/// assert_eq!(queue.pop(3), None);
/// # Ok::<(), warpweft_queue::CapacityError>(())
/// ```
pub struct Multi<T, S = Mpmc<T>> {
    shards: Box<[S]>,
    /// Elements pass through by value only.
    _elements: PhantomData<fn(T) -> T>,
}

impl<T: Word> Multi<T> {
    /// Makes an empty queue of `shards` rings for at least `capacity` elements each; see
    /// [`Mpmc::with_capacity`].
    ///
    /// # Errors
    ///
    /// [`CapacityError`] if there is no shard, or a shard of this capacity cannot be had.
    pub fn with_capacity(shards: usize, capacity: usize) -> Result<Self, CapacityError> {
        let shards: Result<Vec<_>, _> = (0..shards).map(|_| Mpmc::with_capacity(capacity)).collect();
        Self::from_shards(shards?)
    }
}

impl<T, S: Shard<T>> Multi<T, S> {
    /// Makes a queue of these shards, which may hold elements.
    ///
    /// # Errors
    ///
    /// [`CapacityError::Zero`] if there is none.
    pub fn from_shards(shards: impl IntoIterator<Item = S>) -> Result<Self, CapacityError> {
        let shards: Box<[S]> = shards.into_iter().collect();
        if shards.is_empty() {
            return Err(CapacityError::Zero);
        }
        Ok(Self {
            shards,
            _elements: PhantomData,
        })
    }

    /// Adds an element to shard `pick` modulo the number of shards; if that is full, to the next one that is
    /// not.
    ///
    /// `pick` should be random, so that pushers rarely meet.
    ///
    /// # Errors
    ///
    /// [`Full`] with the element if every shard was full when it was tried.
    pub fn push(&self, mut element: T, pick: usize) -> Result<(), Full<T>> {
        for shard in self.from(pick) {
            match shard.try_push(element) {
                Ok(()) => return Ok(()),
                Err(Full(back)) => element = back,
            }
        }
        Err(Full(element))
    }

    /// Takes the oldest element of shard `start` modulo the number of shards; if there is none, of the next
    /// shard that has one. `None` if every shard was empty when it was tried.
    ///
    /// `start` should be random, or where this thread found something the last time.
    pub fn pop(&self, start: usize) -> Option<T> {
        self.from(start).find_map(Shard::try_pop)
    }

    /// Returns about how many elements there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Returns true if each shard was empty when it was looked at. Never true if an element was there all the
    /// time.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(Shard::is_empty)
    }

    /// Returns the shards.
    pub fn parts(&self) -> &[S] {
        &self.shards
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// All shards once, from the one that `pick` selects.
    fn from(&self, pick: usize) -> impl Iterator<Item = &S> {
        let (before, rest) = self.shards.split_at(pick % self.shards.len());
        rest.iter().chain(before)
    }
}

impl<T, S: Shard<T>> fmt::Debug for Multi<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multi")
            .field("shards", &self.shards())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
