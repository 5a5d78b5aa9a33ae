//! A stealable stack: the owner takes the youngest element, thieves take the oldest half.
//!
//! ```text
//!        claimed by thieves        the stack            free
//!     ... [ w ][ 0 ][ w ]  [ w ][ w ][ w ][ w ]  [ 0 ][ 0 ] ...
//!                          ^head                 ^tail = pushes - pops
//!            word = { pops, head }: owner's pop adds 1 to pops, thieves CAS
//!            pushes: stored by the owner alone
//! ```
//!
//! The shape is that of the work-stealing stack of EBSL (B. Modelski, *Using effect handlers for efficient
//! parallel scheduling*, 2022, appendix B.6). There the owner takes its element by a compare-and-swap of the
//! slot, and a thief that had claimed the same slot has to roll back. Here the owner's pops are counted in
//! the very word that thieves swap. So a thief whose claim succeeds knows that the owner does not take the
//! same element, and conversely; neither rolls back. (The crate `st3` counts in the same way, but refuses a
//! second thief while a first one is busy. Here each slot shows whether it is empty, so any number of thieves
//! work at once.)
//!
//! # Invariants
//!
//! - `pushes`, `pops` and `head` only grow, modulo 2^32, and differ by at most the capacity, 2^30 at most.
//!   Index `i` uses slot `i` modulo capacity.
//! - The elements are `head .. pushes - pops`. The thread that shortens this range at one of its ends, by
//!   changing `word`, has claimed the slots, alone.
//! - Only the owner's pop may make the length of the range -1, and it puts the word back before it returns.
//!   Thieves swap only where they see an element, so no thread can change `word` while it is so, and a plain
//!   store puts it back.
//! - Thieves read `word` before `pushes`. If `word` is unchanged when they swap, then the range that they
//!   have computed is a part of the true one, because `pushes` has only grown; and its slots have not been
//!   refilled, because that takes another pop.
//!
//! A thief could be deceived if it slept between its loads and its swap for exactly a multiple of 2^32 pops.
//!
//! # Growth
//!
//! As in `fifo.rs`: the owner copies the elements to a ring of twice the size, moves `pops` far ahead, which
//! locks thieves out for three stores, and reopens. The elements keep their indices, but `pops` and `pushes`
//! both advance by 2.
//!
//! An advance by 1 would be wrong. A pop that came too late has shown `pops + 1` for a moment, and a thief
//! may remember that word together with an element that was pushed later. It could then swap the word of the
//! new epoch while it holds the address of the old ring. (A thief that reads a word of the new epoch reads
//! the new address behind it.)

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU32, AtomicU64, Ordering};
use warpweft_platform::delay;
use warpweft_platform::sync::Arc;

use crate::end::{Amount, CapacityError, Full, Glance, Owner, Steal, Thief};
use crate::ring::{Ring, RingClaim, Slots, SlotsRef};
use crate::{Peek, Word};

/// One pop in `word`.
const POP: u64 = 1 << 32;

/// The distance by which a growth moves `pops`. It is more than any number of elements, and so far below 2^32
/// that the distance stays negative.
const LOCK: u32 = 3 << 29;

struct LifoShared<T: Word> {
    /// `pops` in the upper half, `head` in the lower one.
    word: CachePadded<AtomicU64>,
    pushes: CachePadded<AtomicU32>,
    ring: Ring<T>,
}

#[inline]
const fn join(pops: u32, head: u32) -> u64 {
    (pops as u64) << 32 | head as u64
}

#[inline]
const fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// The number of elements as a thief sees it.
enum LifoSpan {
    Locked,
    Nothing,
    Elements(usize),
}

impl LifoSpan {
    #[inline]
    fn of(word: u64, pushes: u32) -> Self {
        const LOCKED: i32 = -((LOCK / 4) as i32);
        let (pops, head) = split(word);
        match pushes.wrapping_sub(pops).wrapping_sub(head) as i32 {
            ..LOCKED => Self::Locked,
            // It is -1 while the owner's pop finds out that it came too late.
            LOCKED..=0 => Self::Nothing,
            distance => Self::Elements(distance as usize),
        }
    }
}

/// The owner's end of a stealable last-in first-out queue.
///
/// ```
/// use warpweft_queue::{Amount, Lifo, Owner, Steal, Thief};
/// # use std::num::NonZeroUsize;
/// # let n = |x| NonZeroUsize::new(x).unwrap();
/// let mut mine = Lifo::with_capacity(8)?;
/// for i in 1..=5 {
///     mine.push(n(i)).unwrap();
/// }
/// assert_eq!(mine.pop(), Some(n(5)));
///
/// let mut other = Lifo::with_capacity(8)?;
/// let stolen = mine.thief().steal_into(&mut other, Amount::Half);
/// assert_eq!(stolen, Steal::Taken { first: n(1), moved: 1 });
/// assert_eq!((other.pop(), mine.pop()), (Some(n(2)), Some(n(4))));
/// # Ok::<(), warpweft_queue::CapacityError>(())
/// ```
///
/// The owner's end moves between threads, and is used by one at a time:
///
/// ```compile_fail,E0277
/// # use warpweft_queue::Lifo;
/// fn shared<T: Sync>() {}
/// shared::<Lifo<Box<u8>>>();
/// ```
///
/// ```compile_fail,E0277
/// # use warpweft_queue::Lifo;
/// fn cloned<T: Clone>() {}
/// cloned::<Lifo<Box<u8>>>();
/// ```
///
/// Its elements move between threads too, so they have to be `Send`:
///
/// ```compile_fail,E0277
/// # use warpweft_queue::{Lifo, Owner};
/// Lifo::<Box<std::rc::Rc<u8>>>::with_capacity(8);
/// ```
pub struct Lifo<T: Word> {
    shared: Arc<LifoShared<T>>,
    /// The live ring; only this owner replaces it.
    slots: SlotsRef,
    /// The same as `shared.pushes`, which only this owner writes.
    pushes: u32,
    /// The same as in `shared.word`, where only this owner changes it.
    pops: u32,
    /// Not `Sync`.
    one_thread: PhantomData<Cell<()>>,
}

impl<T: Word> Lifo<T> {
    /// As [`with_capacity`](Owner::with_capacity), with `start` as the first word (pops in the upper half,
    /// head in the lower one). For tests of their wrap.
    #[doc(hidden)]
    pub fn with_start(capacity: usize, start: u64) -> Result<Self, CapacityError> {
        let slots = Slots::new(capacity)?;
        let view = slots.view();
        let (pops, head) = split(start);
        let pushes = pops.wrapping_add(head);
        let shared = Arc::new(LifoShared {
            word: CachePadded::new(AtomicU64::new(start)),
            pushes: CachePadded::new(AtomicU32::new(pushes)),
            ring: Ring::new(slots),
        });
        Ok(Self {
            shared,
            slots: view,
            pushes,
            pops,
            one_thread: PhantomData,
        })
    }

    /// Returns the index behind the youngest element.
    #[inline]
    fn tail(&self) -> u32 {
        self.pushes.wrapping_sub(self.pops)
    }

    /// Makes `count` more elements visible, whose slots are filled already.
    #[inline]
    fn publish(&mut self, count: usize) {
        self.pushes = self.pushes.wrapping_add(count as u32);
        // Ordering: Release; a thief that sees this count sees the words in the slots (partner: `claim`).
        self.shared.pushes.store(self.pushes, Ordering::Release);
    }

    /// The long part of a growth: copies the elements to `bigger` while thieves continue taking them. Returns
    /// the index of the first element that it has copied.
    fn copy_to(&self, bigger: SlotsRef) -> u32 {
        // Ordering: Relaxed; a stale head is below the true one, so some elements are copied needlessly. It
        // is not stale enough for a slot to count twice: the owner has refilled a slot only after `is_free`
        // saw what its claimer did after the swap.
        let (_, seen) = split(self.shared.word.load(Ordering::Relaxed));
        let count = self.tail().wrapping_sub(seen) as usize;
        // SAFETY: the live ring is not freed before its owner replaces it; `bigger` is new, empty, and twice
        // as large.
        unsafe { self.slots.copy(seen as usize, count, bigger, seen as usize) };
        delay::point("lifo.grow.copied");
        seen
    }

    /// The short part: locks thieves out for three stores; they continue in `bigger`. See "Growth" above.
    fn switch_to(&mut self, bigger: Box<Slots>, seen: u32) {
        let (new, old) = (bigger.view(), self.slots);
        // Ordering: Release, as in `pop`: a thread that reads the locked word must not combine it with older
        // pushes, or the negative distance could wrap.
        let (_, head) = split(self.shared.word.fetch_add(join(LOCK, 0), Ordering::Release));
        delay::point("lifo.grow.locked");
        // Those before `head` belong to thieves, in the old ring.
        let stolen = head.wrapping_sub(seen) as usize;
        let left = self.tail().wrapping_sub(head) as usize;
        let retired = self.shared.ring.publish(bigger);
        delay::point("lifo.grow.published");
        self.slots = new;
        // By 2, not 1: see "Growth" above.
        self.pops = self.pops.wrapping_add(2);
        self.publish(2);
        // Ordering: Release; a thief that sees this word sees the new ring and count (partner: `claim`).
        self.shared.word.store(join(self.pops, head), Ordering::Release);

        // SAFETY: claims in the new ring begin behind these copies, and no claim in the old ring reaches what
        // was left there.
        unsafe { new.clear(seen as usize, stolen) };
        // SAFETY: as before; `retired` is freed below at the earliest.
        unsafe { old.clear(head as usize, left) };
        // SAFETY: we are the owner; no thread can claim in the old ring any more, see "Growth" above.
        unsafe { self.shared.ring.retire(retired) };
    }
}

impl<T: Word> Owner<T> for Lifo<T> {
    type Thief = LifoThief<T>;

    fn with_capacity(capacity: usize) -> Result<Self, CapacityError> {
        Self::with_start(capacity, 0)
    }

    #[inline]
    fn push(&mut self, element: T) -> Result<(), Full<T>> {
        // A local copy: after the atomic operation below the field would be read again.
        let (slots, index) = (self.slots, self.tail() as usize);
        // SAFETY: the live ring is not freed before its owner replaces it; the owner is here.
        if unsafe { !slots.is_free(index) } {
            return Err(Full(element));
        }
        // SAFETY: as before, and the slot is free.
        unsafe { slots.put(index, element.into_word()) };
        self.publish(1);
        Ok(())
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        let word = &self.shared.word;
        let tail = self.tail();
        // The test for an empty stack costs no read-modify-write instruction.
        // Ordering: Relaxed; a stale head is below the true one, and the next step decides.
        if split(word.load(Ordering::Relaxed)).1 == tail {
            return None;
        }
        // Ordering: Release; with the Acquire in `claim`: a thief that reads this word reads a count of
        // pushes that is not older, and so does not find the stack emptier than it is.
        let before = word.fetch_add(POP, Ordering::Release);
        if split(before).1 == tail {
            delay::point("lifo.pop.overshot");
            // Thieves took the rest meanwhile. No other thread can have changed the word since: to a thief
            // that reads it the stack is empty, and the swap of a thief that read it before fails.
            // Ordering: Release; a plain store must continue publishing what the last growth has published
            // here.
            word.store(before, Ordering::Release);
            return None;
        }
        self.pops = self.pops.wrapping_add(1);
        // SAFETY: the ring is live; by counting the pop we have claimed the youngest element.
        let word = unsafe { self.slots.take(tail.wrapping_sub(1) as usize, Ordering::Relaxed) };
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
        let (_, head) = split(self.shared.word.load(Ordering::Relaxed));
        self.tail().wrapping_sub(head) as usize
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    fn thief(&self) -> LifoThief<T> {
        LifoThief {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Word> fmt::Debug for Lifo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifo")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish()
    }
}

/// A thief's end of a [`Lifo`].
pub struct LifoThief<T: Word> {
    shared: Arc<LifoShared<T>>,
}

impl<T: Word> LifoThief<T> {
    /// Claims some of the oldest elements. `want` maps the number of elements to the number to claim.
    #[inline]
    fn claim(&self, want: impl FnOnce(usize) -> usize) -> Result<RingClaim, Steal<T>> {
        // Ordering: Acquire; what follows is not older than this word (partners: `pop`, `grow`, and below).
        let word = self.shared.word.load(Ordering::Acquire);
        // Ordering: Acquire, for the words in the slots (partner: `publish`).
        let pushes = self.shared.pushes.load(Ordering::Acquire);
        let available = match LifoSpan::of(word, pushes) {
            LifoSpan::Locked => return Err(Steal::Lost),
            LifoSpan::Nothing => return Err(Steal::Empty),
            LifoSpan::Elements(count) => count,
        };
        let count = want(available);
        if count == 0 {
            return Err(Steal::Few(available));
        }
        // Read before the swap, and not followed before it: see "Growth" above.
        let ring = self.shared.ring.current();
        delay::point("lifo.steal.read");
        let (pops, head) = split(word);
        let next = join(pops, head.wrapping_add(count as u32));
        // Ordering: Release as in `pop`. Success needs no Acquire: what the claimer reads was published by
        // `pushes`.
        if self
            .shared
            .word
            .compare_exchange(word, next, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            return Err(Steal::Lost);
        }
        delay::point("lifo.steal.claimed");
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

impl<T: Word> Thief<T> for LifoThief<T> {
    type Owner = Lifo<T>;

    #[inline]
    fn glance(&self) -> Glance {
        // Ordering: Acquire, so that the pushes are not older than the word, and the stack not emptier than
        // it is.
        let word = self.shared.word.load(Ordering::Acquire);
        // Ordering: Acquire; a thread that sees an element here sees it in a steal that follows.
        let pushes = self.shared.pushes.load(Ordering::Acquire);
        let len = match LifoSpan::of(word, pushes) {
            LifoSpan::Locked => 1,
            LifoSpan::Nothing => 0,
            LifoSpan::Elements(count) => count,
        };
        Glance { len, mark: word }
    }

    fn steal_into(&self, into: &mut Lifo<T>, amount: Amount) -> Steal<T> {
        let to_itself = Arc::ptr_eq(&self.shared, &into.shared);
        let index = into.tail() as usize;
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
        // Ordering: Acquire for both, as in `claim`: the words that were pushed are in their slots.
        let word = self.shared.word.load(Ordering::Acquire);
        let pushes = self.shared.pushes.load(Ordering::Acquire);
        let LifoSpan::Elements(count) = LifoSpan::of(word, pushes) else {
            return;
        };
        let (_, head) = split(word);
        let words = self.shared.ring.words(head as usize, count.min(most));
        delay::point("lifo.peek.read");
        // Thieves took those before this head meanwhile; what a growth copies, and has not cleared yet, is
        // before it, too. What the owner pops it clears, or fills anew.
        // Ordering: Acquire, as above.
        let (_, head_now) = split(self.shared.word.load(Ordering::Acquire));
        let left = words.iter().skip(head_now.wrapping_sub(head) as usize);
        for word in left.filter_map(|&word| NonZeroUsize::new(word)) {
            see(Peek::new(word));
        }
    }
}

impl<T: Word> Clone for LifoThief<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Word> fmt::Debug for LifoThief<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LifoThief")
            .field("glance", &self.glance())
            .finish()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;
    use crate::growth_tests::{Grows, a_growth_stops_no_thief};

    impl Grows for Lifo<NonZeroUsize> {
        type Bounds = u32;

        fn copy(&self, bigger: &Slots) -> u32 {
            self.copy_to(bigger.view())
        }

        fn switch(&mut self, bigger: Box<Slots>, seen: u32) {
            self.switch_to(bigger, seen);
        }
    }

    #[test]
    fn thieves_steal_while_a_growth_copies() {
        a_growth_stops_no_thief(|| Lifo::with_capacity(8).expect("a small capacity"));
        // At the wrap of the indices.
        a_growth_stops_no_thief(|| Lifo::with_start(8, u64::MAX - 2).expect("a small capacity"));
    }
}
