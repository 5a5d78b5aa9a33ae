//! The two ends of a stealable queue: one owner and any number of thieves.
//!
//! ```text
//!             oldest                        youngest
//!   thieves <-- [ a ][ b ][ c ][ d ][ e ] <-- push  (owner)
//!                 |                    |
//!        Fifo::pop (owner)      Lifo::pop (owner)
//! ```
//!
//! [`Owner`] is the one handle that pushes, pops and grows; one worker at a time has it. [`Thief`] is a
//! handle that every other worker may clone. It takes the oldest elements, many at once, straight into the
//! thief's own queue. [`Fifo`](crate::Fifo) and [`Lifo`](crate::Lifo) implement both.

use std::num::NonZeroUsize;
use std::{error, fmt};

use crate::{Peek, Word};

/// The largest capacity of a growable queue, in elements.
///
/// It keeps the distance of two 32-bit indices within the range where their order is known.
pub const MAX_CAPACITY: usize = 1 << 30;

/// How many elements a thief wants.
///
/// The free room of the thief's own queue limits every amount, [`AtLeast`](Amount::AtLeast) too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// One element.
    One,
    /// Half of what is there, rounded up.
    Half,
    /// Half, but at least this number; nothing where fewer are there.
    AtLeast(NonZeroUsize),
}

impl Amount {
    /// Returns how many of `available` elements this amount is; 0 if it is more than there are.
    ///
    /// ```
    /// use warpweft_queue::Amount;
    /// # use std::num::NonZeroUsize;
    /// assert_eq!(Amount::One.of(9), 1);
    /// assert_eq!(Amount::Half.of(9), 5);
    /// let three = Amount::AtLeast(NonZeroUsize::new(3).unwrap());
    /// assert_eq!([2, 3, 4, 9].map(|n| three.of(n)), [0, 3, 3, 5]);
    /// ```
    #[inline]
    #[must_use]
    pub const fn of(self, available: usize) -> usize {
        let half = available.div_ceil(2);
        match self {
            Self::One => {
                if available == 0 {
                    0
                } else {
                    1
                }
            }
            Self::Half => half,
            Self::AtLeast(least) if available < least.get() => 0,
            Self::AtLeast(least) if half < least.get() => least.get(),
            Self::AtLeast(_) => half,
        }
    }
}

/// The outcome of an attempt to steal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Steal<T> {
    /// Nothing was there.
    Empty,
    /// Another thread was faster, or the owner was just growing the queue. Another attempt is worthwhile.
    Lost,
    /// Fewer elements were there than [`Amount::AtLeast`] asked for: this number.
    Few(usize),
    /// Elements were taken.
    Taken {
        /// The oldest of them, to be run at once.
        first: T,
        /// How many more went into the thief's own queue, behind what was there, in their order.
        moved: usize,
    },
}

impl<T> Steal<T> {
    /// The element taken, if any.
    #[inline]
    pub fn taken(self) -> Option<T> {
        match self {
            Self::Taken { first, .. } => Some(first),
            Self::Empty | Self::Lost | Self::Few(_) => None,
        }
    }
}

/// A snapshot of a queue, taken without changing it.
///
/// If two glances are equal, no thread took an element between them. So a thief can leave an element to its
/// owner, which is about to take it. It is a hint. Two glances can be equal that should not be, if a counter
/// wraps (after 2^32 pops), or if a glance falls into an owner's pop that comes too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The number of elements. While the owner grows the queue it is 1: a thief that is about to sleep must
    /// not take a queue for empty that is merely locked.
    pub len: usize,
    /// Changes whenever an element is taken; it has no other meaning.
    pub mark: u64,
}

/// There was no room: the element comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

// By hand: an element need not be `Debug`, and would say nothing about the error.
impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue has no room for the element")
    }
}

impl<T> error::Error for Full<T> {}

/// The reason for which a queue cannot have a capacity. The queue, if there was one, is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapacityError {
    /// A capacity of zero.
    Zero,
    /// More than any queue of this kind can have.
    TooLarge {
        /// The capacity asked for, in elements.
        asked: usize,
        /// The largest one possible, in elements.
        limit: usize,
    },
    /// The allocator refused.
    Memory {
        /// The capacity asked for, in elements of one machine word each.
        asked: usize,
    },
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("the capacity is 0; it must be at least 1"),
            Self::TooLarge { asked, limit } => {
                write!(f, "the capacity {asked} is too large; it must be at most {limit}")
            }
            Self::Memory { asked } => {
                write!(
                    f,
                    "no memory for a capacity of {asked} words; a smaller one may be possible"
                )
            }
        }
    }
}

impl error::Error for CapacityError {}

/// The owner's end of a stealable queue: there is one per queue, used by one thread at a time.
///
/// Dropping it does not empty the queue: thieves may continue stealing. The last handle drops what is left.
pub trait Owner<T: Word>: Send + Sized {
    /// The thieves' end.
    type Thief: Thief<T, Owner = Self>;

    /// Makes an empty queue for at least `capacity` elements, rounded up to a power of two.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] if `capacity` is 0 or more than [`MAX_CAPACITY`], or if there is no memory.
    fn with_capacity(capacity: usize) -> Result<Self, CapacityError>;

    /// Adds an element as the youngest, without a read-modify-write instruction and without waiting.
    ///
    /// # Errors
    ///
    /// [`Full`] with the element if the next slot is not empty yet. That can happen below the capacity, while
    /// a thief that has claimed the slot has not emptied it. [`grow`](Owner::grow) helps in any case.
    fn push(&mut self, element: T) -> Result<(), Full<T>>;

    /// Takes the element whose turn it is: the oldest of a FIFO, the youngest of a LIFO. Costs at most one
    /// read-modify-write instruction, never retried.
    fn pop(&mut self) -> Option<T>;

    /// Doubles the capacity. Thieves that are at work finish undisturbed, and the owner does not wait for
    /// them.
    ///
    /// Costs one move per element, so O(1) per push when it is called on [`Full`]. Former buffers that a
    /// preempted thief still reads take less memory than the present one.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] if the capacity would exceed [`MAX_CAPACITY`], or if there is no memory.
    fn grow(&mut self) -> Result<(), CapacityError>;

    /// Returns the number of elements. Thieves may have taken some of them when the caller looks at it.
    fn len(&self) -> usize;

    /// Returns true if [`len`](Owner::len) is 0. Stays true until this owner pushes or steals.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of slots.
    fn capacity(&self) -> usize;

    /// Makes a handle to steal with.
    fn thief(&self) -> Self::Thief;
}

/// A thief's end of a stealable queue. It is cheap to clone, and any number of threads may use it at once.
///
/// No method waits: each does a bounded number of steps, whatever other threads do.
pub trait Thief<T: Word>: Clone + Send + Sync {
    /// The owner's end.
    type Owner: Owner<T, Thief = Self>;

    /// Takes a snapshot of the queue. Costs two loads.
    fn glance(&self) -> Glance;

    /// Takes the oldest elements by one compare-and-swap. The first is returned, and the rest goes into
    /// `into`, whose free room limits the number. `into` never grows.
    ///
    /// Stealing into the very queue that is stolen from takes one element, whatever the amount.
    fn steal_into(&self, into: &mut Self::Owner, amount: Amount) -> Steal<T>;

    /// Takes the oldest element, for a thief without a queue. Never returns [`Steal::Few`].
    fn steal_one(&self) -> Steal<T>;

    /// Shows up to `most` of the elements, the oldest first, and takes none: for reports. Costs one load and
    /// some nanoseconds for each.
    ///
    /// Each of them was in the queue at a moment of this call. Elements that come or go meanwhile may be left
    /// out; so may all, while the owner grows the queue.
    fn peek(&self, most: usize, see: &mut dyn FnMut(Peek<'_, T>));
}
