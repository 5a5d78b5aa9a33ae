//! One queue made of several: pushes go to a random shard, pops look through all of them.
//!
//! However fast a queue is, its two ends are two cache lines that everyone wants. *k* queues have 2*k* such
//! lines. (EBSL B.8: B. Modelski, *Using effect handlers for efficient parallel scheduling*, Cambridge 2022;
//! and the multi-queues of H. Rihani, P. Sanders and R. Dementiev, 2015, without their priorities.)
//!
//! ```text
//!   push(x, pick = 6)               pop(start = 3)
//!             │  shard 0  [ . . . . ]  ▲ 2nd: empty
//!             │  shard 1  [ a b . . ]  ▲ 3rd: a
//!   6 mod 4 = └▶ shard 2  [ c d e x ]
//!                shard 3  [ . . . . ]  ▲ 1st: empty
//! ```
//!
//! # What the order is
//!
//! Each shard is a linearizable FIFO. The whole is not one: elements of different shards overtake each other.
//! To a user it is a *bag*, which returns each element once, with these weaker answers:
//!
//! - `None` means that each shard was empty at *some* moment of the call, not all at the same one. An element
//!   that was there during the whole call is never overlooked; one that is pushed to a shard already passed
//!   is, even if the last element of a shard not yet passed was taken after that.
//! - [`Full`] likewise means that each shard was full at some moment of the call.
//!
//! A scheduler that is about to sleep needs no more: it announces itself, then looks through all shards. A
//! push before the announcement is found, one after it sees the sleeper (with a `SeqCst` fence on each side).

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

    /// About how many elements there are.
    fn len(&self) -> usize;

    /// Whether the shard was empty at a moment of the call. False may also mean that another thread is at
    /// work.
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
/// Randomness is the caller's: a worker has a generator of its own, and a test has none.
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
    /// Elements go through by value only.
    _elements: PhantomData<fn(T) -> T>,
}

impl<T: Word> Multi<T> {
    /// An empty queue of `shards` rings for at least `capacity` elements each; see [`Mpmc::with_capacity`].
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
    /// A queue made of these shards, which may hold elements.
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

    /// About how many elements there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Whether each shard was empty when it was looked at. Never true if an element was there all the time.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(Shard::is_empty)
    }

    /// The shards themselves.
    pub fn parts(&self) -> &[S] {
        &self.shards
    }

    /// The number of shards.
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
