//! The two ends of a stealable queue: one owner, any number of thieves.
//!
//! ```text
//!             oldest                        youngest
//!   thieves <-- [ a ][ b ][ c ][ d ][ e ] <-- push  (owner)
//!                 |                    |
//!        Fifo::pop (owner)      Lifo::pop (owner)
//! ```
//!
//! [`Owner`] is the one handle that pushes, pops and grows; it belongs to one worker at a time. [`Thief`] is
//! a handle that every other worker may clone; it takes the oldest elements, many at once, straight into the
//! thief's own queue. [`Fifo`](crate::Fifo) and [`Lifo`](crate::Lifo) implement both.

use std::num::NonZeroUsize;
use std::{error, fmt};

use crate::Word;

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
    /// Half, but at least so many; nothing where fewer are there.
    AtLeast(NonZeroUsize),
}

impl Amount {
    /// How many of `available` elements this amount is; 0 if it is more than there are.
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

/// What became of an attempt to steal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Steal<T> {
    /// Nothing was there.
    Empty,
    /// Another thread was faster, or the owner was just growing the queue: worth trying again.
    Lost,
    /// Fewer elements were there than [`Amount::AtLeast`] asked for: so many.
    Few(usize),
    /// Elements were taken.
    Taken {
        /// The oldest of them: to be run at once.
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

/// A look at a queue that changes nothing.
///
/// If two glances are equal, nobody took an element between them. A thief can spare an element that way whose
/// owner is about to take it. It is a hint: a counter that wraps (after 2^32 pops), or a glance at the very
/// moment of an owner's pop that comes too late, can make two glances equal that should not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// How many elements were there. While the owner is growing the queue it says 1, whatever is there: a
    /// thief that is about to sleep must not take a queue for empty that is merely closed.
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

/// A capacity that cannot be had. The queue, if there was one, is as before.
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
/// Dropping it does not empty the queue: thieves may go on stealing. What is left when the last handle goes
/// is dropped then.
pub trait Owner<T: Word>: Send + Sized {
    /// The other end.
    type Thief: Thief<T, Owner = Self>;

    /// An empty queue for at least `capacity` elements; rounded up to a power of two.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] if `capacity` is 0 or more than [`MAX_CAPACITY`], or if there is no memory.
    fn with_capacity(capacity: usize) -> Result<Self, CapacityError>;

    /// Adds an element as the youngest. No read-modify-write instruction, no wait.
    ///
    /// # Errors
    ///
    /// [`Full`] with the element if the next slot is not empty yet. That can happen below the capacity: a
    /// thief that has claimed the slot may not have emptied it. [`grow`](Owner::grow) helps in any case.
    fn push(&mut self, element: T) -> Result<(), Full<T>>;

    /// Takes the element that is the owner's turn: the oldest of a FIFO, the youngest of a LIFO. One
    /// read-modify-write instruction at most, never retried.
    fn pop(&mut self) -> Option<T>;

    /// Doubles the capacity. Thieves that are at work finish undisturbed, and are not waited for.
    ///
    /// Costs one move per element, so O(1) per push when it is called on [`Full`]. The memory of former
    /// buffers that a preempted thief still reads is less than that of the present one.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] if the capacity would exceed [`MAX_CAPACITY`], or if there is no memory.
    fn grow(&mut self) -> Result<(), CapacityError>;

    /// The number of elements. Thieves may have taken some of them when the caller looks at it.
    fn len(&self) -> usize;

    /// Whether [`len`](Owner::len) is 0. Stays true until this owner pushes or steals.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of slots.
    fn capacity(&self) -> usize;

    /// A handle to steal with.
    fn thief(&self) -> Self::Thief;
}

/// A thief's end of a stealable queue. Cheap to clone, usable by any number of threads at once.
///
/// No method waits: each does a bounded number of steps, whatever other threads do.
pub trait Thief<T: Word>: Clone + Send + Sync {
    /// The other end.
    type Owner: Owner<T, Thief = Self>;

    /// Looks at the queue. Two loads.
    fn glance(&self) -> Glance;

    /// Takes the oldest elements by one compare-and-swap: the first is returned, the rest goes into `into`,
    /// whose free room limits the number. `into` never grows.
    ///
    /// Stealing into the very queue that is stolen from takes one element, whatever the amount: the others
    /// are where they should go already.
    fn steal_into(&self, into: &mut Self::Owner, amount: Amount) -> Steal<T>;

    /// Takes the oldest element; no queue of one's own is needed. Never returns [`Steal::Few`].
    fn steal_one(&self) -> Steal<T>;
}
