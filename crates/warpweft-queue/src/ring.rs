//! The ring of slots that the growable queues share, and the former rings that thieves may still read.
//!
//! ```text
//!   Ring::current ──> Slots   [ 0 ][ w ][ w ][ 0 ]...[ 0 ]     the live one: owner and thieves
//!   Ring::retired ──> Slots   [ 0 ][ w ][ 0 ][ 0 ]             a thief that claimed `w` before the growth
//!                                                              is still busy here
//! ```
//!
//! # Invariants
//!
//! - A slot holds 0 or the word of exactly one element. Only while the owner grows the ring may a word be in
//!   two rings. An index of one of them leads to it, and the owner empties the other slot before it does
//!   anything else.
//! - Only the owner turns 0 into a word, and only in the live ring. Only the thread that has *claimed* a
//!   slot, by moving an index of the queue over it, turns its word into 0: the owner or one thief.
//! - So a slot that the owner saw as 0 stays 0 until the owner fills it, and a claimed slot stays filled
//!   until its claimer empties it. No other index or flag is needed.
//! - A ring is freed when it is not live any more, all its slots are 0, and no thread peeks. A thief reads a
//!   ring only between its claim and the moment at which it empties the last claimed slot, so it never reads
//!   a freed one. A thread that peeks says so before it looks for the live ring.
//!
//! # Orderings
//!
//! The words in the slots need no ordering for thieves: a thief sees an element because the owner publishes
//! an index (Release) behind it. A refilled slot cannot deceive the thief that emptied it. The thief read the
//! slot before it stored the 0, and the owner's store comes after that 0 in the slot's modification order.
//!
//! Freeing a ring needs an order: everything that thieves did there must come before. So thieves empty slots
//! with Release, and the owner reads slots with Acquire, both in [`Ring::retire`] and in
//! [`SlotsRef::is_free`]. The latter is necessary because the owner may refill a slot that a thief has
//! emptied, and empty it again. Then `retire` sees the owner's 0, which is no proof about the thief.

use std::marker::PhantomData;
use std::num::NonZeroUsize;

use warpweft_platform::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use warpweft_platform::cell::UnsafeCell;

use crate::Word;
use crate::end::{CapacityError, MAX_CAPACITY, Steal};

/// An array of slots, a power of two of them.
pub(crate) struct Slots {
    // A thief reads the cell when it starts to work here, and the owner "writes" it to free the ring. The
    // cell costs nothing, and lets loom report a ring that is freed too early as a race.
    slots: UnsafeCell<Box<[AtomicUsize]>>,
}

impl Slots {
    /// Empty slots for at least `capacity` elements.
    pub(crate) fn new(capacity: usize) -> Result<Box<Self>, CapacityError> {
        if capacity == 0 {
            return Err(CapacityError::Zero);
        }
        if capacity > MAX_CAPACITY {
            return Err(CapacityError::TooLarge {
                asked: capacity,
                limit: MAX_CAPACITY,
            });
        }
        let capacity = capacity.next_power_of_two();
        let mut slots = Vec::new();
        if slots.try_reserve_exact(capacity).is_err() {
            return Err(CapacityError::Memory { asked: capacity });
        }
        slots.extend((0..capacity).map(|_| AtomicUsize::new(0)));
        Ok(Box::new(Self {
            slots: UnsafeCell::new(slots.into_boxed_slice()),
        }))
    }

    /// Returns the slots, to be used without this header.
    pub(crate) fn view(&self) -> SlotsRef {
        // SAFETY: the cell is written only when the ring is freed. The holder of `&self` prevents that.
        let slots = self.slots.with(|slots| unsafe { &**slots });
        SlotsRef {
            first: slots.as_ptr(),
            mask: slots.len() - 1,
        }
    }
}

/// A copy of a ring's address and size, for the hot paths.
#[derive(Clone, Copy)]
pub(crate) struct SlotsRef {
    first: *const AtomicUsize,
    mask: usize,
}

// SAFETY: a view is an address. The unsafe functions that follow it state when that is allowed, on any
// thread.
unsafe impl Send for SlotsRef {}

impl SlotsRef {
    /// The number of slots.
    #[inline]
    pub(crate) fn capacity(self) -> usize {
        self.mask + 1
    }

    /// Returns the slot of an index. All indices that are equal modulo the capacity share it.
    ///
    /// # Safety
    ///
    /// The ring is not freed while the result is used.
    #[inline]
    pub(crate) unsafe fn slot<'a>(self, index: usize) -> &'a AtomicUsize {
        let slot = self.first.wrapping_add(index & self.mask);
        // SAFETY: `mask` is the number of slots less one, so `slot` is one of them; the ring lives by
        // contract.
        unsafe { &*slot }
    }

    /// Returns true if the owner may fill the slot of `index`.
    ///
    /// # Safety
    ///
    /// The ring lives; the caller is its owner.
    #[inline]
    pub(crate) unsafe fn is_free(self, index: usize) -> bool {
        // SAFETY: by this function's contract.
        let slot = unsafe { self.slot(index) };
        // Ordering: Acquire; the thief that emptied the slot is done with it before the ring can be freed
        // (partner: `take`; see the head of this file for the reason).
        slot.load(Ordering::Acquire) == 0
    }

    /// Fills the slot of `index`.
    ///
    /// # Safety
    ///
    /// The ring lives; the caller is its owner and found the slot [free](SlotsRef::is_free).
    #[inline]
    pub(crate) unsafe fn put(self, index: usize, word: NonZeroUsize) {
        // SAFETY: by this function's contract.
        let slot = unsafe { self.slot(index) };
        // Ordering: the index that the owner stores next publishes the word to thieves. Release is for a
        // thread that peeks (partner: `words`): a word that was put there after it had read the index shows
        // it that the index has changed.
        slot.store(word.get(), Ordering::Release);
    }

    /// Returns how many slots from `index` on are free, up to `limit`. Costs one load for each.
    ///
    /// # Safety
    ///
    /// The ring lives; the caller is its owner and `index` is the next that it will fill.
    pub(crate) unsafe fn room(self, index: usize, limit: usize) -> usize {
        let limit = limit.min(self.capacity());
        (0..limit)
            // SAFETY: by this function's contract.
            .position(|offset| unsafe { !self.is_free(index.wrapping_add(offset)) })
            .unwrap_or(limit)
    }

    /// Empties the slot of `index`. `ordering` is that of the store of 0. The owner uses Relaxed, because it
    /// also frees the ring later. A thief uses Release (partners: [`SlotsRef::is_free`], [`Ring::retire`]).
    ///
    /// # Safety
    ///
    /// The ring lives; the caller has claimed the slot.
    #[inline]
    pub(crate) unsafe fn take(self, index: usize, ordering: Ordering) -> NonZeroUsize {
        // SAFETY: by this function's contract.
        let slot = unsafe { self.slot(index) };
        // Ordering: Relaxed; the index that was read before the claim (Acquire) published the word.
        let word = slot.load(Ordering::Relaxed);
        slot.store(0, ordering);
        NonZeroUsize::new(word).unwrap_or_else(|| claimed_slot_was_empty())
    }

    /// Copies the words of `count` slots from `from` on to `new`, from `to` on, while thieves may be emptying
    /// them. A slot that was claimed meanwhile leaves a word or 0 in the copy, which has no owner: the caller
    /// [clears](SlotsRef::clear) it.
    ///
    /// # Safety
    ///
    /// Both rings live; the caller owns both; no other thread knows `new`, which is empty and large enough.
    pub(crate) unsafe fn copy(self, from: usize, count: usize, new: Self, to: usize) {
        for offset in 0..count {
            // SAFETY: the ring lives, by this function's contract.
            let slot = unsafe { self.slot(from.wrapping_add(offset)) };
            // SAFETY: as before.
            let copy = unsafe { new.slot(to.wrapping_add(offset)) };
            // Ordering: Relaxed for both; the words that no thread claims are the owner's stores, and the
            // index that it stores after the copy publishes them.
            copy.store(slot.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Empties `count` slots from `from` on. Their words are copies, or were copied.
    ///
    /// # Safety
    ///
    /// The ring lives; the caller is its owner; no thread has claimed or can claim these slots, and their
    /// words are elsewhere, too.
    pub(crate) unsafe fn clear(self, from: usize, count: usize) {
        for offset in 0..count {
            // SAFETY: the ring lives, by this function's contract.
            let slot = unsafe { self.slot(from.wrapping_add(offset)) };
            // Ordering: Relaxed, as the owner's `take`.
            slot.store(0, Ordering::Relaxed);
        }
    }
}

/// A claimed slot is filled until its claimer empties it. So 0 in it means that two threads have claimed it.
#[cold]
#[inline(never)]
fn claimed_slot_was_empty() -> ! {
    panic!("a claimed slot was empty: this is a bug of the queue, please report it")
}

/// The slots that a thief has claimed. It must empty them all.
#[must_use]
pub(crate) struct RingClaim {
    /// The ring of the slots.
    pub(crate) slots: SlotsRef,
    /// The index of the oldest slot.
    pub(crate) start: usize,
    /// The number of slots, at least one.
    pub(crate) count: usize,
}

impl RingClaim {
    /// Takes the first element, and moves the others to `into` from `index` on; `publish` is called with
    /// their number.
    ///
    /// # Safety
    ///
    /// The claim was made by a compare-and-swap, and `slots` is the ring that was live then. Its words came
    /// from [`T::into_word`](Word::into_word). The caller owns the ring `into`, which has
    /// [room](SlotsRef::room) for `count - 1` words at `index`.
    #[inline]
    pub(crate) unsafe fn steal_into<T: Word>(
        self,
        into: SlotsRef,
        index: usize,
        publish: impl FnOnce(usize),
    ) -> Steal<T> {
        // SAFETY: the slot is claimed, so the ring is not freed before it is emptied here.
        let first = unsafe { self.slots.take(self.start, Ordering::Release) };
        for offset in 1..self.count {
            // SAFETY: as before.
            let word = unsafe {
                self.slots
                    .take(self.start.wrapping_add(offset), Ordering::Release)
            };
            // SAFETY: by contract the slot is free and the caller's to fill.
            unsafe { into.put(index.wrapping_add(offset - 1), word) };
        }
        let moved = self.count - 1;
        if moved > 0 {
            publish(moved);
        }
        // SAFETY: by contract the word was an element's; the claim alone took it out.
        let first = unsafe { T::from_word(first) };
        Steal::Taken { first, moved }
    }

    /// Takes the one element of the claim.
    /// Contract: as for [`steal_into`](RingClaim::steal_into), and `count` is 1.
    #[inline]
    pub(crate) unsafe fn steal_one<T: Word>(self) -> Steal<T> {
        debug_assert_eq!(
            self.count, 1,
            "a claim of more than one element needs a place for the others"
        );
        // SAFETY: the slot is claimed, so the ring is not freed before it is emptied here.
        let word = unsafe { self.slots.take(self.start, Ordering::Release) };
        // SAFETY: by contract the word was an element's; the claim alone took it out.
        let first = unsafe { T::from_word(word) };
        Steal::Taken { first, moved: 0 }
    }
}

/// The live ring of a queue and the former ones.
pub(crate) struct Ring<T: Word> {
    /// From `Box::into_raw`; replaced by the owner only.
    current: AtomicPtr<Slots>,
    /// From `Box::into_raw`; touched by the owner only.
    retired: UnsafeCell<Vec<*mut Slots>>,
    /// How many threads peek. No ring is freed meanwhile.
    peeking: AtomicUsize,
    /// `fn() -> T`: the ring hands elements out, and holds them as words.
    elements: PhantomData<fn() -> T>,
}

// SAFETY: the elements are `Send` (`Word` demands it) and each is given to one thread; only the owner uses
// `retired`.
unsafe impl<T: Word> Send for Ring<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Word> Sync for Ring<T> {}

impl<T: Word> Ring<T> {
    /// Makes `slots` the live ring.
    pub(crate) fn new(slots: Box<Slots>) -> Self {
        Self {
            current: AtomicPtr::new(Box::into_raw(slots)),
            retired: UnsafeCell::new(Vec::new()),
            peeking: AtomicUsize::new(0),
            elements: PhantomData,
        }
    }

    /// Returns the address of the live ring, which may be freed already. It must not be followed before a
    /// claim was made.
    #[inline]
    pub(crate) fn current(&self) -> *const Slots {
        // Ordering: Acquire, for the contents of `Slots`, and so that a thief that sees a new ring also sees
        // the queue locked or in its next epoch (partner: the Release in `publish`).
        self.current.load(Ordering::Acquire)
    }

    /// Makes `slots` the live ring and returns the former one, for [`retire`](Ring::retire).
    pub(crate) fn publish(&self, slots: Box<Slots>) -> *mut Slots {
        // Ordering: Release (partner: `current`).
        self.current.swap(Box::into_raw(slots), Ordering::Release)
    }

    /// Copies the words of up to `count` slots of the live ring, from the index `from` on, without a claim:
    /// 0, or what was there at a moment of this call. A caller that reads the queue's indices before and
    /// after knows which of them are elements.
    pub(crate) fn words(&self, from: usize, count: usize) -> Vec<usize> {
        // Ordering: the fence pairs with that in `retire`. The owner sees that this thread peeks, or this
        // thread sees the ring that is live since.
        self.peeking.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let ring = self.current();
        // SAFETY: the ring was live after this thread said that it peeks, so it is not freed before the end.
        let words = unsafe { &*ring }.slots.with(|slots| {
            // SAFETY: as before.
            let slots = unsafe { &**slots };
            let slot = |offset| &slots[from.wrapping_add(offset) & (slots.len() - 1)];
            // Ordering: Acquire, so that the indices that the caller reads next are not older.
            let word = |offset| slot(offset).load(Ordering::Acquire);
            (0..count.min(slots.len())).map(word).collect()
        });
        // Ordering: Release pairs with the Acquire in `retire`: the reads come before the ring is freed.
        self.peeking.fetch_sub(1, Ordering::Release);
        words
    }

    /// Keeps a former ring until its slots are all empty, and frees the former rings whose slots are empty
    /// now, unless a thread peeks.
    ///
    /// # Safety
    ///
    /// The caller is the owner; `old` came from [`publish`](Ring::publish), once; no claim can be made on it.
    pub(crate) unsafe fn retire(&self, old: *mut Slots) {
        self.retired.with_mut(|retired| {
            // SAFETY: only the one owner calls this.
            let retired = unsafe { &mut *retired };
            retired.push(old);
            // Ordering: see `words`.
            fence(Ordering::SeqCst);
            if self.peeking.load(Ordering::Acquire) == 0 {
                // SAFETY: they are all from `publish`, and leave the list when they are freed.
                retired.retain(|&ring| unsafe { !free_if_empty(ring) });
            }
        });
    }
}

/// Frees a ring if all its slots are empty. Returns true if it did.
///
/// # Safety
///
/// `ring` came from `Box::into_raw` and was not freed; it is not live and belongs to the caller; no claim can
/// be made on it any more.
unsafe fn free_if_empty(ring: *mut Slots) -> bool {
    // SAFETY: by this function's contract it was not freed.
    let view = unsafe { &*ring }.view();
    for index in 0..view.capacity() {
        // SAFETY: by contract the ring was not freed.
        let slot = unsafe { view.slot(index) };
        // Ordering: Acquire; the thief that emptied the slot has done everything else before (partner:
        // `take`).
        if slot.load(Ordering::Acquire) != 0 {
            return false;
        }
    }
    // SAFETY: by contract no claim can be made any more. Each claim that was made has emptied its slots, as
    // its last access of the ring, and all slots are empty.
    unsafe { free(ring) };
    true
}

/// Frees a ring.
///
/// # Safety
///
/// `ring` came from `Box::into_raw` and was not freed; no other thread uses it, then or later.
unsafe fn free(ring: *mut Slots) {
    // SAFETY: by this function's contract.
    let slots = unsafe { Box::from_raw(ring) };
    // This only reports to loom that the access is exclusive.
    slots.slots.with_mut(|_| ());
}

impl<T: Word> Drop for Ring<T> {
    fn drop(&mut self) {
        /// Takes the elements out one by one; if the drop of one panics, the others follow during unwinding.
        struct Rest<T: Word>(SlotsRef, usize, PhantomData<fn() -> T>);
        impl<T: Word> Rest<T> {
            fn drop_all(&mut self) {
                while self.1 < self.0.capacity() {
                    // SAFETY: the ring lives until after this.
                    let slot = unsafe { self.0.slot(self.1) };
                    self.1 += 1;
                    // Ordering: Relaxed; this is the last handle, so everything happened before.
                    if let Some(word) = NonZeroUsize::new(slot.load(Ordering::Relaxed)) {
                        // SAFETY: a word in a slot is an element that no thread has taken back.
                        drop(unsafe { T::from_word(word) });
                    }
                }
            }
        }
        impl<T: Word> Drop for Rest<T> {
            fn drop(&mut self) {
                self.drop_all();
            }
        }

        /// Frees the rings, also when an element's drop panics.
        struct Rings(*mut Slots, Vec<*mut Slots>);
        impl Drop for Rings {
            fn drop(&mut self) {
                for &ring in &self.1 {
                    // SAFETY: no handle is left, so every claim was carried out, and no thread uses the
                    // rings.
                    let empty = unsafe { free_if_empty(ring) };
                    debug_assert!(empty, "a thief claimed elements and did not take them");
                }
                // SAFETY: as before.
                unsafe { free(self.0) };
            }
        }

        let retired = self.retired.with_mut(|retired| {
            // SAFETY: `&mut self`.
            std::mem::take(unsafe { &mut *retired })
        });
        // Ordering: Relaxed, `&mut self`.
        let rings = Rings(self.current.load(Ordering::Relaxed), retired);
        // SAFETY: the live ring is not freed before `rings` goes.
        let view = unsafe { &*rings.0 }.view();
        Rest::<T>(view, 0, PhantomData).drop_all();
    }
}
