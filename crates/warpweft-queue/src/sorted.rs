//! An unbounded queue under a lock, ordered by a key, whose length can be read without the lock.
//!
//! ```text
//!   push, pop ──lock──▶ heap ──unlock──▶      len: the holder of the lock writes it, as its last act
//!   len, is_empty ────────────────────────────▶ one load
//! ```
//!
//! # Invariants
//!
//! - `len` is stored only under the lock, after the change, as in [`Locked`](crate::Locked). So a push that
//!   *happens before* [`is_empty`](Sorted::is_empty) or [`pop`](Sorted::pop) is not overlooked.

use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::fmt;

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::Mutex;

/// An unbounded multi-producer multi-consumer queue under a lock. The element with the smallest key is first,
/// and of equal keys the oldest.
///
/// ```
/// use warpweft_queue::Sorted;
///
/// let queue = Sorted::new();
/// for (key, element) in [(3, 'c'), (1, 'a'), (3, 'd'), (2, 'b')] {
///     queue.push(key, element);
/// }
/// let all: String = std::iter::from_fn(|| queue.pop()).collect();
/// assert_eq!(all, "abcd");
/// assert!(queue.is_empty());
/// ```
pub struct Sorted<T> {
    heap: Mutex<Heap<T>>,
    /// On its own cache line, so that readers do not slow down the holder of the lock.
    len: CachePadded<AtomicUsize>,
}

struct Heap<T> {
    entries: BinaryHeap<Entry<T>>,
    pushes: u64,
}

struct Entry<T> {
    key: u64,
    /// The number of pushes before this one.
    age: u64,
    element: T,
}

impl<T> Ord for Entry<T> {
    /// The heap has the greatest first.
    fn cmp(&self, other: &Self) -> Order {
        (other.key, other.age).cmp(&(self.key, self.age))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Order::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> Sorted<T> {
    /// An empty queue. Allocates with the first push.
    #[must_use]
    pub fn new() -> Self {
        Self {
            heap: Mutex::new(Heap {
                entries: BinaryHeap::new(),
                pushes: 0,
            }),
            len: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Heap<T>) -> R) -> R {
        let mut heap = self.heap.lock();
        let result = f(&mut heap);
        // Ordering: Release, and Acquire where it is read, as in `Locked`.
        self.len.store(heap.entries.len(), Ordering::Release);
        result
    }

    /// Adds an element. O(log n).
    pub fn push(&self, key: u64, element: T) {
        self.with(|heap| {
            let age = heap.pushes;
            heap.pushes += 1;
            heap.entries.push(Entry { key, age, element });
        });
    }

    /// Takes the first element, in O(log n). An empty queue costs one load and no lock.
    pub fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.with(|heap| heap.entries.pop()).map(|entry| entry.element)
    }

    /// Moves the elements that are wanted behind those of `into`. O(n).
    ///
    /// `wanted` is called under the lock and must not use this queue. If it panics, elements are lost: they
    /// are dropped.
    pub fn extract(&self, into: &mut Vec<T>, wanted: impl Fn(&T) -> bool) {
        self.with(|heap| {
            let all = std::mem::take(&mut heap.entries).into_iter();
            let (taken, kept): (Vec<_>, Vec<_>) = all.partition(|entry| wanted(&entry.element));
            heap.entries = kept.into();
            into.extend(taken.into_iter().map(|entry| entry.element));
        });
    }

    /// Shows up to `most` of the elements, in no order, and takes none: for reports. Shows none in a forked
    /// child that has lost the lock.
    ///
    /// `see` is called under the lock, must be short, and must not use this queue.
    pub fn for_each(&self, most: usize, mut see: impl FnMut(&T)) {
        if let Some(heap) = self.heap.lock_unless_lost() {
            heap.entries
                .iter()
                .take(most)
                .for_each(|entry| see(&entry.element));
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns true if there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Sorted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorted").field("len", &self.len()).finish()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_extracted_stays_in_its_order() {
        let queue = Sorted::new();
        for number in [5, 2, 9, 4, 7, 2, 8] {
            queue.push(number, number);
        }
        let mut even = Vec::new();
        queue.extract(&mut even, |number| number % 2 == 0);
        even.sort_unstable();
        assert_eq!(even, [2, 2, 4, 8]);
        assert_eq!(queue.len(), 3);
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [5, 7, 9]);
    }

    #[test]
    fn of_equal_keys_the_oldest_is_first() {
        let queue = Sorted::new();
        (0..100).for_each(|number| queue.push(number % 3, number));
        let all: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let expected = (0..3).flat_map(|key| (0..100).filter(move |number| number % 3 == key));
        assert_eq!(all, expected.collect::<Vec<_>>());
    }
}
