//! An unbounded queue under a lock, whose length can be read without the lock.
//!
//! This is the overflow queue of the Go and tokio schedulers: off the hot path, where a lock held for one
//! batch beats a read-modify-write instruction per element.
//!
//! ```text
//!   push, pop ──lock──▶ VecDeque ──unlock──▶      len: the holder of the lock writes it, as its last act
//!   len, is_empty ─────────────────────────────────▶ one load
//! ```
//!
//! # Invariants
//!
//! - `len` is stored only under the lock, after the change. So its modification order is that of the changes,
//!   and a thread that reads the value of a change or a later one reads no older value.
//! - Hence a push that *happens before* [`is_empty`](Locked::is_empty) or [`pop`](Locked::pop) is not
//!   overlooked. The same holds if only a pair of `SeqCst` fences orders them, as in the idle protocol. A
//!   pusher pushes, fences and then looks for sleepers; a sleeper announces itself, fences and then pops.
//!   They do not both miss the other.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::{Mutex, MutexGuard};

use crate::Word;

/// An unbounded multi-producer multi-consumer FIFO under a lock.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_queue::Locked;
///
/// let queue = Locked::new();
/// queue.push_batch((1..=5).filter_map(NonZeroUsize::new));
/// let mut oldest = Vec::new();
/// assert_eq!(queue.pop_batch(&mut oldest, 3), 3);
/// assert_eq!(oldest, [1, 2, 3].map(|n| NonZeroUsize::new(n).unwrap()));
/// assert_eq!(queue.pop(), NonZeroUsize::new(4));
/// assert_eq!(queue.len(), 1);
/// ```
pub struct Locked<T: Word> {
    queue: Mutex<VecDeque<T>>,
    /// On its own cache line, so that readers do not slow down the holder of the lock.
    len: CachePadded<AtomicUsize>,
}

impl<T: Word> Locked<T> {
    /// An empty queue. Allocates with the first push.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queue: Mutex::new(VecDeque::new()),
            len: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Adds an element. Amortised O(1).
    pub fn push(&self, element: T) {
        self.lock().push_back(element);
    }

    /// Adds elements in their order, under one lock: no element of another thread comes between them.
    ///
    /// `elements` is iterated under the lock and must not use this queue. If it panics, the elements that it
    /// gave before the panic are in the queue.
    pub fn push_batch(&self, elements: impl IntoIterator<Item = T>) {
        let elements = elements.into_iter();
        self.lock().extend(elements);
    }

    /// Takes the oldest element. An empty queue costs one load and no lock.
    pub fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.lock().pop_front()
    }

    /// Takes the oldest elements, `max` at most, under one lock, and returns their number.
    ///
    /// `into` is extended under the lock and must not use this queue. If it panics, elements that it has not
    /// received are dropped.
    pub fn pop_batch(&self, into: &mut impl Extend<T>, max: usize) -> usize {
        if max == 0 || self.is_empty() {
            return 0;
        }
        let mut queue = self.lock();
        let taken = max.min(queue.len());
        into.extend(queue.drain(..taken));
        taken
    }

    /// Moves the elements for which `wanted` returns true into a vector. The order of the others does not
    /// change. Costs one lock, and one call for each element.
    ///
    /// `wanted` is called under the lock and must not use this queue. If it panics, only the element of that
    /// call is lost: it is dropped. The others may be in another order.
    pub fn extract(&self, into: &mut Vec<T>, mut wanted: impl FnMut(&T) -> bool) {
        if self.is_empty() {
            return;
        }
        let mut queue = self.lock();
        for _ in 0..queue.len() {
            match queue.pop_front() {
                Some(element) if wanted(&element) => into.push(element),
                Some(element) => queue.push_back(element),
                None => break,
            }
        }
    }

    /// Shows up to `most` of the elements, the oldest first, and takes none: for reports. Shows none in a
    /// forked child that has lost the lock.
    ///
    /// `see` is called under the lock, must be short, and must not use this queue.
    pub fn for_each(&self, most: usize, see: impl FnMut(&T)) {
        if let Some(queue) = self.queue.lock_unless_lost() {
            queue.iter().take(most).for_each(see);
        }
    }

    /// Returns the number of elements, by one load. Other threads may have changed it meanwhile.
    pub fn len(&self) -> usize {
        // Ordering: Acquire pairs with the Release in `RingGuard::drop`, so that a thread that sees elements
        // also sees what their pusher did before. Relaxed would be enough not to overlook a push: see the
        // module's invariants.
        self.len.load(Ordering::Acquire)
    }

    /// Returns true if there is no element. Costs one load. Never true after a push that happens before the
    /// call, unless the element was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> RingGuard<'_, T> {
        RingGuard {
            queue: self.queue.lock(),
            len: &self.len,
        }
    }
}

impl<T: Word> Default for Locked<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Word> fmt::Debug for Locked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// The lock, held. It stores the new length before it releases the lock, in a panic too.
struct RingGuard<'a, T> {
    queue: MutexGuard<'a, VecDeque<T>>,
    len: &'a AtomicUsize,
}

impl<T> Drop for RingGuard<'_, T> {
    fn drop(&mut self) {
        // Ordering: Release pairs with the Acquire in `len`. The lock, still held, orders it among the other
        // stores.
        self.len.store(self.queue.len(), Ordering::Release);
    }
}

impl<T> Deref for RingGuard<'_, T> {
    type Target = VecDeque<T>;

    fn deref(&self) -> &VecDeque<T> {
        &self.queue
    }
}

impl<T> DerefMut for RingGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut VecDeque<T> {
        &mut self.queue
    }
}
