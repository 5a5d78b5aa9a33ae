//! A stealable queue that grows by adding rings: horizontally, in the words of EBSL, and not in place.
//!
//! ```text
//!             oldest                                          youngest
//!   pop, steal ◀── [ first ring ] ◀── [ ring 1 ] ◀── [ ring 2 ] ◀── push
//!                    stays forever      └── removed when they are empty
//! ```
//!
//! Growth moves nothing, and the memory that a burst has taken is freed after it. A queue that was never full
//! is its first ring, and costs each thief one more load. Each ring is a [`Fifo`](crate::Fifo) that never
//! grows. The list of rings is under a lock. It is taken to add or drop a ring, and by thieves while there is
//! more than the first ring.
//!
//! # Invariants
//!
//! - Only the last ring is pushed to. A ring that has another ring behind it gets no more elements: a look
//!   that finds it empty is final, *if it had a successor before that look*.
//! - While there are further rings, the first one is not pushed to; so its elements are older than all
//!   others.
//! - A ring leaves the list when it was found empty for good. Or all leave at once, when the owner finds
//!   nothing in any; then the first ring is the only one again. An element is in a ring of the list, or
//!   claimed.
//! - Rings have numbers that are never used again, so a thread drops only the ring that it has seen empty.

use std::collections::VecDeque;
use std::fmt;

use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::{Arc, Mutex, MutexGuard};

use crate::end::{Amount, CapacityError, Full, Glance, Owner, Steal, Thief};
use crate::{Fifo, FifoThief, Peek, Word};

/// Each ring is twice as large as the one before, up to this limit. So there are few rings, and an emptied
/// ring is not large.
const LARGEST: usize = 1 << 16;

/// A ring behind the first one.
struct Link<R> {
    number: u64,
    ring: R,
}

/// The state that owner and thieves share besides the rings.
struct ChainShared<T: Word> {
    links: Mutex<VecDeque<Link<FifoThief<T>>>>,
    /// How many links there are, stored under the lock.
    count: AtomicUsize,
}

impl<T: Word> ChainShared<T> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Link<FifoThief<T>>>> {
        self.links.lock()
    }

    /// Changes the list.
    fn change(&self, change: impl FnOnce(&mut VecDeque<Link<FifoThief<T>>>)) {
        let mut links = self.lock();
        change(&mut links);
        // Ordering: Release; a thread that reads that there are links finds them, and what was pushed to the
        // first ring before (partner: `is_single`).
        self.count.store(links.len(), Ordering::Release);
    }

    /// Drops the ring of this number, which is empty for good, unless another thread has dropped it.
    fn unlink(&self, number: u64) {
        self.change(|links| {
            if links.front().is_some_and(|link| link.number == number) {
                links.pop_front();
            }
        });
    }

    #[inline]
    fn is_single(&self) -> bool {
        // Ordering: Acquire (partner: `change`).
        self.count.load(Ordering::Acquire) == 0
    }
}

/// The owner's end of a stealable first-in first-out queue of rings.
///
/// [`grow`](Owner::grow) adds a ring and moves nothing. A thief takes from the oldest ring that has elements,
/// and from that one only.
///
/// ```
/// use warpweft_queue::{Amount, Chain, Full, Owner, Steal, Thief};
/// # use std::num::NonZeroUsize;
/// # let n = |x| NonZeroUsize::new(x).unwrap();
/// let mut mine = Chain::with_capacity(2)?;
/// assert_eq!((mine.push(n(1)), mine.push(n(2)), mine.push(n(3))), (Ok(()), Ok(()), Err(Full(n(3)))));
/// mine.grow()?;
/// assert_eq!((mine.push(n(3)), mine.capacity()), (Ok(()), 2 + 4));
///
/// let mut other = Chain::with_capacity(2)?;
/// assert_eq!(mine.thief().steal_into(&mut other, Amount::Half), Steal::Taken { first: n(1), moved: 0 });
/// assert_eq!((mine.pop(), mine.pop(), mine.pop()), (Some(n(2)), Some(n(3)), None));
/// assert_eq!(mine.capacity(), 2);
/// # Ok::<(), warpweft_queue::CapacityError>(())
/// ```
///
/// The owner's end moves between threads, and is used by one at a time:
///
/// ```compile_fail,E0277
/// # use warpweft_queue::Chain;
/// fn shared<T: Sync>() {}
/// shared::<Chain<Box<u8>>>();
/// ```
pub struct Chain<T: Word> {
    first: Fifo<T>,
    /// The owner's ends of the further rings. Some of the oldest may have left the shared list already.
    more: VecDeque<Link<Fifo<T>>>,
    /// The number of the next ring.
    next: u64,
    shared: Arc<ChainShared<T>>,
}

impl<T: Word> Chain<T> {
    /// As [`with_capacity`](Owner::with_capacity), with the indices of the first ring starting at `start`.
    /// For tests of their wrap.
    #[doc(hidden)]
    pub fn with_start(capacity: usize, start: u64) -> Result<Self, CapacityError> {
        Ok(Self {
            first: Fifo::with_start(capacity, start)?,
            more: VecDeque::new(),
            next: 0,
            shared: Arc::new(ChainShared {
                links: Mutex::new(VecDeque::new()),
                count: AtomicUsize::new(0),
            }),
        })
    }

    /// The last ring, which is pushed to.
    #[inline]
    fn last(&mut self) -> &mut Fifo<T> {
        match self.more.back_mut() {
            None => &mut self.first,
            Some(link) => &mut link.ring,
        }
    }

    /// Pops from the further rings, after the first ring was found empty.
    #[cold]
    fn pop_further(&mut self) -> Option<T> {
        while let Some(link) = self.more.front_mut() {
            let element = link.ring.pop();
            if element.is_some() {
                return element;
            }
            let number = link.number;
            if self.more.len() == 1 {
                // All rings are empty, and only this thread pushes.
                self.more.clear();
                self.shared.change(VecDeque::clear);
            } else {
                self.more.pop_front();
                self.shared.unlink(number);
            }
        }
        None
    }
}

impl<T: Word> Owner<T> for Chain<T> {
    type Thief = ChainThief<T>;

    fn with_capacity(capacity: usize) -> Result<Self, CapacityError> {
        Self::with_start(capacity, 0)
    }

    #[inline]
    fn push(&mut self, element: T) -> Result<(), Full<T>> {
        self.last().push(element)
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        let element = self.first.pop();
        if element.is_none() && !self.more.is_empty() {
            return self.pop_further();
        }
        element
    }

    #[cold]
    fn grow(&mut self) -> Result<(), CapacityError> {
        let largest = LARGEST.max(self.first.capacity());
        let ring = Fifo::with_capacity((2 * self.last().capacity()).min(largest))?;
        let (number, thief) = (self.next, ring.thief());
        self.next += 1;
        self.more.push_back(Link { number, ring });
        self.shared
            .change(|links| links.push_back(Link { number, ring: thief }));
        Ok(())
    }

    fn len(&self) -> usize {
        let further: usize = self.more.iter().map(|link| link.ring.len()).sum();
        self.first.len() + further
    }

    fn capacity(&self) -> usize {
        let further: usize = self.more.iter().map(|link| link.ring.capacity()).sum();
        self.first.capacity() + further
    }

    fn thief(&self) -> ChainThief<T> {
        ChainThief {
            first: self.first.thief(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Word> fmt::Debug for Chain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("rings", &(1 + self.more.len()))
            .finish()
    }
}

/// A thief's end of a [`Chain`].
pub struct ChainThief<T: Word> {
    first: FifoThief<T>,
    shared: Arc<ChainShared<T>>,
}

impl<T: Word> ChainThief<T> {
    /// Tries the rings from the oldest on, until one is not empty.
    #[inline]
    fn steal(&self, mut steal: impl FnMut(&FifoThief<T>) -> Steal<T>) -> Steal<T> {
        match steal(&self.first) {
            Steal::Empty if !self.shared.is_single() => self.steal_further(steal),
            other => other,
        }
    }

    #[cold]
    fn steal_further(&self, mut steal: impl FnMut(&FifoThief<T>) -> Steal<T>) -> Steal<T> {
        // We have seen further rings, so we also see what came into the first ring before them. It is the
        // oldest.
        match steal(&self.first) {
            Steal::Empty => {}
            other => return other,
        }
        loop {
            let (number, ring, has_successor) = {
                let links = self.shared.lock();
                let Some(link) = links.front() else {
                    return Steal::Empty;
                };
                (link.number, link.ring.clone(), links.len() > 1)
            };
            match steal(&ring) {
                // It had a successor before we looked, so it is empty for good.
                Steal::Empty if has_successor => self.shared.unlink(number),
                other => return other,
            }
        }
    }
}

impl<T: Word> Thief<T> for ChainThief<T> {
    type Owner = Chain<T>;

    fn glance(&self) -> Glance {
        let first = self.first.glance();
        if self.shared.is_single() {
            return first;
        }
        let links = self.shared.lock();
        let further = links.iter().map(|link| link.ring.glance());
        further.fold(first, |all, one| Glance {
            len: all.len + one.len,
            // A change of one mark changes the whole. Two changes that cancel each other out are a wrong
            // hint.
            mark: all.mark.rotate_left(1) ^ one.mark,
        })
    }

    fn steal_into(&self, into: &mut Chain<T>, amount: Amount) -> Steal<T> {
        if Arc::ptr_eq(&self.shared, &into.shared) {
            return self.steal_one();
        }
        self.steal(|ring| ring.steal_into(into.last(), amount))
    }

    fn steal_one(&self) -> Steal<T> {
        self.steal(Thief::steal_one)
    }

    fn peek(&self, most: usize, see: &mut dyn FnMut(Peek<'_, T>)) {
        let further: Vec<_> = self.shared.lock().iter().map(|link| link.ring.clone()).collect();
        let mut left = most;
        for ring in std::iter::once(&self.first).chain(&further) {
            let mut seen = 0;
            ring.peek(left, &mut |peek| {
                seen += 1;
                see(peek);
            });
            left -= seen;
        }
    }
}

impl<T: Word> Clone for ChainThief<T> {
    fn clone(&self) -> Self {
        Self {
            first: self.first.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Word> fmt::Debug for ChainThief<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChainThief")
            .field("glance", &self.glance())
            .finish()
    }
}
