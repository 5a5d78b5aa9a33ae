//! A stealable queue: the owner takes the oldest element, thieves take the oldest half.
//!
//! ```text
//!        claimed by thieves        the queue          free
//!     ... [ w ][ 0 ][ w ]  [ w ][ w ][ w ][ w ]  [ 0 ][ 0 ] ...
//!                          ^head                 ^tail
//!            head: owner's pop adds 1, thieves CAS    tail: stored by the owner alone
//! ```
//!
//! The algorithm is the work-stealing queue of EBSL (B. Modelski, *Using effect handlers for efficient
//! parallel scheduling*, 2022, appendices B.5 and B.7), with another way of growing.
//!
//! # Invariants
//!
//! - Indices only grow, and are 64 bits wide: they never come back. Index `i` uses slot `i` modulo capacity.
//! - The thread that moves `head` over an index has claimed its slot, alone.
//! - Only the owner's pop may move `head` beyond `tail`, by one, and puts it back before it returns. Thieves
//!   move `head` by compare-and-swap and never beyond the `tail` they have read. So no thread can change
//!   `head` while it is beyond `tail`, and a plain store puts it back.
//!
//! # Growth
//!
//! The owner copies the words to a ring of twice the size while thieves continue taking them from the old
//! one. Then it moves `head` far beyond `tail`, which locks thieves out, and publishes the new ring. Finally
//! `head` restarts at the first element that no thief has claimed, behind every index that was ever used.
//!
//! Between lock and restart are three stores, however many elements there are. So a growth costs a thief one
//! lost steal and not a wait for thousands of words. The words that are then in both rings are emptied in the
//! one where no index leads to them. (The owner may read words that a thief has claimed: words, not
//! elements.)
//!
//! Thieves that had claimed elements before empty the old ring in their own time. Unlike EBSL's B.7, the
//! owner waits for no thread; the old ring is freed later (see `ring.rs`).
//!
//! A thief reads `head`, `tail` and the address of the ring, in this order, and follows the address only when
//! its compare-and-swap of `head` has succeeded. Then it has the address of the ring that was live at that
//! moment, even if it slept through growths, because
//!
//! - `head` is the current one, so it is not less than the index at which the present epoch began;
//! - `tail` is greater than `head`, so it was stored in this epoch, and so was the address read behind it;
//! - the address is not one of a later epoch. The owner locks `head` before it stores a new address, so a
//!   thread that has read that address (Acquire) can only swap a `head` that came after the lock.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::delay;
use warpweft_platform::sync::Arc;

use crate::end::{Amount, CapacityError, Full, Glance, Owner, Steal, Thief};
use crate::ring::{Ring, RingClaim, Slots, SlotsRef};
use crate::{Peek, Word};

/// The distance by which a growth moves `head`. No queue lives for that many operations, so a locked `head`
/// is never mistaken for a real one.
const LOCK: u64 = 1 << 62;

struct FifoShared<T: Word> {
    head: CachePadded<AtomicU64>,
    tail: CachePadded<AtomicU64>,
    ring: Ring<T>,
}

/// The number of elements between two indices, as a thief sees it.
enum FifoSpan {
    Locked,
    Nothing,
    Elements(usize),
}

impl FifoSpan {
    #[inline]
    fn of(head: u64, tail: u64) -> Self {
        const LOCKED: i64 = -((LOCK / 2) as i64);
        match tail.wrapping_sub(head) as i64 {
            ..LOCKED => Self::Locked,
            // It is -1 while the owner's pop finds out that it came too late.
            LOCKED..=0 => Self::Nothing,
            distance => Self::Elements(distance as usize),
        }
    }
}

/// The owner's end of a stealable first-in first-out queue.
///
/// ```
/// use warpweft_queue::{Amount, Fifo, Owner, Steal, Thief};
/// # use std::num::NonZeroUsize;
/// # let n = |x| NonZeroUsize::new(x).unwrap();
/// let mut mine = Fifo::with_capacity(8)?;
/// for i in 1..=5 {
///     mine.push(n(i)).unwrap();
/// }
/// assert_eq!(mine.pop(), Some(n(1)));
///
/// let mut other = Fifo::with_capacity(8)?;
/// let stolen = mine.thief().steal_into(&mut other, Amount::Half);
/// assert_eq!(stolen, Steal::Taken { first: n(2), moved: 1 });
/// assert_eq!((other.pop(), mine.pop()), (Some(n(3)), Some(n(4))));
/// # Ok::<(), warpweft_queue::CapacityError>(())
/// ```
///
/// The owner's end moves between threads, and is used by one at a time:
///
/// ```compile_fail,E0277
/// # use warpweft_queue::Fifo;
/// fn shared<T: Sync>() {}
/// shared::<Fifo<Box<u8>>>();
/// ```
///
/// ```compile_fail,E0277
/// # use warpweft_queue::Fifo;
/// fn cloned<T: Clone>() {}
/// cloned::<Fifo<Box<u8>>>();
/// ```
///
/// Its elements move between threads too, so they have to be `Send`:
///
/// ```compile_fail,E0277
/// # use warpweft_queue::{Fifo, Owner};
/// Fifo::<Box<std::rc::Rc<u8>>>::with_capacity(8);
/// ```
pub struct Fifo<T: Word> {
    shared: Arc<FifoShared<T>>,
    /// The live ring; only this owner replaces it.
    slots: SlotsRef,
    /// The same as `shared.tail`, which only this owner writes.
    tail: u64,
    /// Not `Sync`.
    one_thread: PhantomData<Cell<()>>,
}

impl<T: Word> Fifo<T> {
    /// As [`with_capacity`](Owner::with_capacity), with the indices starting at `start`. For tests of their
    /// wrap.
    #[doc(hidden)]
    pub fn with_start(capacity: usize, start: u64) -> Result<Self, CapacityError> {
        let slots = Slots::new(capacity)?;
        let view = slots.view();
        let shared = Arc::new(FifoShared {
            head: CachePadded::new(AtomicU64::new(start)),
            tail: CachePadded::new(AtomicU64::new(start)),
            ring: Ring::new(slots),
        });
        Ok(Self {
            shared,
            slots: view,
            tail: start,
            one_thread: PhantomData,
        })
    }

    /// Makes `count` more elements visible, whose slots are filled already.
    #[inline]
    fn publish(&mut self, count: usize) {
        self.publish_at(self.tail.wrapping_add(count as u64));
    }

    /// Makes the elements before `tail` visible, whose slots are filled already.
    #[inline]
    fn publish_at(&mut self, tail: u64) {
        self.tail = tail;
        // Ordering: Release; a thief that sees this tail sees the words in the slots (partner: `claim`).
        self.shared.tail.store(tail, Ordering::Release);
    }

    /// Returns the index at which a growth restarts: behind every index that an element ever had.
    fn restart(&self) -> u64 {
        self.tail
    }

    /// The long part of a growth: copies the elements to `bigger` while thieves continue taking them. Returns
    /// the index of the first element that it has copied.
    fn copy_to(&self, bigger: SlotsRef) -> u64 {
        // Ordering: Relaxed; a stale head is below the true one, so some elements are copied needlessly. It
        // is not stale enough for a slot to count twice: the owner has refilled a slot only after `is_free`
        // saw what its claimer did after the swap.
        let seen = self.shared.head.load(Ordering::Relaxed);
        let count = self.tail.wrapping_sub(seen) as usize;
        let to = self.restart() as usize;
        // SAFETY: the live ring is not freed before its owner replaces it; `bigger` is new, empty, and twice
        // as large.
        unsafe { self.slots.copy(seen as usize, count, bigger, to) };
        delay::point("fifo.grow.copied");
        seen
    }

    /// The short part: locks thieves out for three stores; they continue in `bigger`. See "Growth" above.
    fn switch_to(&mut self, bigger: Box<Slots>, seen: u64) {
        let (new, old) = (bigger.view(), self.slots);
        let (start, tail) = (self.restart(), self.tail);
        // Ordering: Relaxed; only owner operations follow until the stores below, which are Release.
        let head = self.shared.head.fetch_add(LOCK, Ordering::Relaxed);
        delay::point("fifo.grow.locked");
        // Those before `head` belong to thieves, in the old ring.
        let stolen = head.wrapping_sub(seen);
        let left = tail.wrapping_sub(head) as usize;
        let retired = self.shared.ring.publish(bigger);
        delay::point("fifo.grow.published");
        self.slots = new;
        self.tail = start;
        self.publish(tail.wrapping_sub(seen) as usize);
        // Ordering: Release; a thief that sees this head sees the new ring and tail (partner: `claim`).
        self.shared
            .head
            .store(start.wrapping_add(stolen), Ordering::Release);

        // SAFETY: claims in the new ring begin behind these copies, and no claim in the old ring reaches what
        // was left there.
        unsafe { new.clear(start as usize, stolen as usize) };
        // SAFETY: as before; `retired` is freed below at the earliest.
        unsafe { old.clear(head as usize, left) };
        // SAFETY: we are the owner; no thread can claim in the old ring any more, see "Growth" above.
        unsafe { self.shared.ring.retire(retired) };
    }
}

impl<T: Word> Owner<T> for Fifo<T> {
    type Thief = FifoThief<T>;

    fn with_capacity(capacity: usize) -> Result<Self, CapacityError> {
        Self::with_start(capacity, 0)
    }

    #[inline]
    fn push(&mut self, element: T) -> Result<(), Full<T>> {
        // Local copies: after the atomic operations below the fields would be read again.
        let (slots, tail) = (self.slots, self.tail);
        // SAFETY: the live ring is not freed before its owner replaces it; the owner is here.
        if unsafe { !slots.is_free(tail as usize) } {
            return Err(Full(element));
        }
        // SAFETY: as before, and the slot is free.
        unsafe { slots.put(tail as usize, element.into_word()) };
        self.publish_at(tail.wrapping_add(1));
        Ok(())
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        let head = &self.shared.head;
        // The test for an empty queue costs no read-modify-write instruction.
        // Ordering: Relaxed; a stale head is below the true one, and the next step decides.
        if head.load(Ordering::Relaxed) == self.tail {
            return None;
        }
        // Ordering: Release; with the Acquire in `claim`: a thief that reads this head sees a tail that is
        // not older, and so does not find the queue emptier than it is.
        let claimed = head.fetch_add(1, Ordering::Release);
        if claimed == self.tail {
            delay::point("fifo.pop.overshot");
            // Thieves took the rest meanwhile. No other thread can have changed `head` since: to a thief that
            // reads it the queue is empty, and the swap of a thief that read it before fails.
            // Ordering: Release; a plain store must continue publishing what the last growth has published
            // here.
            head.store(claimed, Ordering::Release);
            return None;
        }
        // SAFETY: the ring is live; `head` was moved over this index by us.
        let word = unsafe { self.slots.take(claimed as usize, Ordering::Relaxed) };
        // SAFETY: the word was put by `push`, or moved from where `push` had put it; we alone took it out.
        Some(unsafe { T::from_word(word) })
    }

    #[cold]
    fn grow(&mut self) -> Result<(), CapacityError> {
        let bigger = Slots::new(self.capacity() * 2)?;
        let seen = self.copy_to(bigger.view());
        self.switch_to(bigger, seen);
        Ok(())
    }

    #[inline]
    fn len(&self) -> usize {
        // Ordering: Relaxed; the answer may be old before the caller reads it.
        let head = self.shared.head.load(Ordering::Relaxed);
        self.tail.wrapping_sub(head) as usize
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    fn thief(&self) -> FifoThief<T> {
        FifoThief {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Word> fmt::Debug for Fifo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish()
    }
}

/// A thief's end of a [`Fifo`].
pub struct FifoThief<T: Word> {
    shared: Arc<FifoShared<T>>,
}

impl<T: Word> FifoThief<T> {
    /// Claims some of the oldest elements. `want` maps the number of elements to the number to claim.
    #[inline]
    fn claim(&self, want: impl FnOnce(usize) -> usize) -> Result<RingClaim, Steal<T>> {
        // Ordering: Acquire; what follows is not older than this head (partners: `pop`, `grow`, and below).
        let head = self.shared.head.load(Ordering::Acquire);
        // Ordering: Acquire, for the words in the slots and the ring of this tail's epoch (partner:
        // `publish`).
        let tail = self.shared.tail.load(Ordering::Acquire);
        let available = match FifoSpan::of(head, tail) {
            FifoSpan::Locked => return Err(Steal::Lost),
            FifoSpan::Nothing => return Err(Steal::Empty),
            FifoSpan::Elements(count) => count,
        };
        let count = want(available);
        if count == 0 {
            return Err(Steal::Few(available));
        }
        // Read before the swap, and not followed before it: see "Growth" above.
        let ring = self.shared.ring.current();
        delay::point("fifo.steal.read");
        let next = head.wrapping_add(count as u64);
        // Ordering: Release as in `pop`. Success needs no Acquire: what the claimer reads was published by
        // `tail`.
        if self
            .shared
            .head
            .compare_exchange(head, next, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            return Err(Steal::Lost);
        }
        delay::point("fifo.steal.claimed");
        // SAFETY: the claim has succeeded, so this was the live ring at that moment, and the claimed words in
        // it keep it from being freed.
        let slots = unsafe { &*ring }.view();
        Ok(RingClaim {
            slots,
            start: head as usize,
            count,
        })
    }
}

impl<T: Word> Thief<T> for FifoThief<T> {
    type Owner = Fifo<T>;

    #[inline]
    fn glance(&self) -> Glance {
        // Ordering: Acquire, so that the tail is not older than the head, and the queue not emptier than it
        // is.
        let head = self.shared.head.load(Ordering::Acquire);
        // Ordering: Acquire; a thread that sees an element here sees it in a steal that follows.
        let tail = self.shared.tail.load(Ordering::Acquire);
        let len = match FifoSpan::of(head, tail) {
            FifoSpan::Locked => 1,
            FifoSpan::Nothing => 0,
            FifoSpan::Elements(count) => count,
        };
        Glance { len, mark: head }
    }

    fn steal_into(&self, into: &mut Fifo<T>, amount: Amount) -> Steal<T> {
        let to_itself = Arc::ptr_eq(&self.shared, &into.shared);
        let index = into.tail as usize;
        let claim = self.claim(|available| match amount.of(available) {
            few @ (0 | 1) => few,
            _ if to_itself => 1,
            // SAFETY: `into` is the owner, with its live ring and its next index.
            wanted => 1 + unsafe { into.slots.room(index, wanted - 1) },
        });
        match claim {
            // SAFETY: the claim is fresh, and all words came from `push`. `room` has found the slots free,
            // and only the owner `into` fills them.
            Ok(claim) => unsafe { claim.steal_into(into.slots, index, |moved| into.publish(moved)) },
            Err(refused) => refused,
        }
    }

    fn steal_one(&self) -> Steal<T> {
        match self.claim(|_| 1) {
            // SAFETY: the claim is fresh and for one element, and all words came from `push`.
            Ok(claim) => unsafe { claim.steal_one() },
            Err(refused) => refused,
        }
    }

    fn peek(&self, most: usize, see: &mut dyn FnMut(Peek<'_, T>)) {
        // Ordering: Acquire for both, as in `claim`: the words before this tail are in their slots.
        let head = self.shared.head.load(Ordering::Acquire);
        let tail = self.shared.tail.load(Ordering::Acquire);
        let FifoSpan::Elements(count) = FifoSpan::of(head, tail) else {
            return;
        };
        let words = self.shared.ring.words(head as usize, count.min(most));
        delay::point("fifo.peek.read");
        // Elements before this head were taken meanwhile. A growth moves it beyond all of them; so what a
        // growth copies, and has not cleared yet, is never shown.
        // Ordering: Acquire, as above.
        let taken = self.shared.head.load(Ordering::Acquire).wrapping_sub(head);
        let left = words.iter().skip(usize::try_from(taken).unwrap_or(usize::MAX));
        for word in left.filter_map(|&word| NonZeroUsize::new(word)) {
            see(Peek::new(word));
        }
    }
}

impl<T: Word> Clone for FifoThief<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Word> fmt::Debug for FifoThief<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FifoThief")
            .field("glance", &self.glance())
            .finish()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;
    use crate::growth_tests::{Grows, a_growth_stops_no_thief};

    impl Grows for Fifo<NonZeroUsize> {
        type Bounds = u64;

        fn copy(&self, bigger: &Slots) -> u64 {
            self.copy_to(bigger.view())
        }

        fn switch(&mut self, bigger: Box<Slots>, seen: u64) {
            self.switch_to(bigger, seen);
        }
    }

    #[test]
    fn thieves_steal_while_a_growth_copies() {
        a_growth_stops_no_thief(|| Fifo::with_capacity(8).expect("a small capacity"));
        // At the wrap of the indices.
        a_growth_stops_no_thief(|| Fifo::with_start(8, u64::MAX - 2).expect("a small capacity"));
    }
}
