//! A bounded queue for any number of producers and consumers, with fetch-and-add on both ends.
//!
//! The queue is that of EBSL (B. Modelski, *Using effect handlers for efficient parallel scheduling*,
//! Cambridge 2022, B.1 to B.4). Here the answers of the calls that do not wait are made sound. A
//! fetch-and-add never fails, so threads that meet at an end of the queue do not make each other retry. Each
//! draws a *ticket*, and the ticket names the slot. The price is overshoot: a ticket may be drawn for an
//! element, or room, that is not there, and must be handed back.
//!
//! ```text
//!                    head              tail
//!                     ▼                 ▼
//!   ticket   2     3     4     5     6     7        the slot of ticket i is i mod capacity
//!          taken taken full  being full  not yet
//!                            filled      drawn
//!
//!   turn of a slot:   2i      empty, waits for push ticket i
//!                     2i + 1  full, waits for pop ticket i, which makes it 2(i + capacity), and so on
//! ```
//!
//! # Invariants
//!
//! 1. *Every ticket below `tail` is held by exactly one push, every one below `head` by exactly one pop*, at
//!    work or done. A ticket is handed back by a compare-and-swap of the index from `ticket + 1` to `ticket`.
//!    That succeeds only for the highest ticket that is out, and its holder does nothing with it afterwards.
//! 2. *The turn lets one push and one pop per ticket at the slot*, in that order, and no thread of another
//!    lap. So elements leave in the order of their tickets: strictly FIFO, at any capacity from 1.
//! 3. *A used ticket is never handed back, nor is any below it*: index values up to it are never used again.
//!    A slot whose turn has passed ticket i thus proves that the indices are past i, forever.
//!
//! # Why the slot decides, and not the indices
//!
//! The obvious answer of a pop that has overshot ("`tail` is not above my ticket, I hand it back and return
//! `None`") is wrong. It looks at `tail` and hands back later; a push may draw the matching ticket in
//! between. Handing back is still harmless, since the element waits for the next holder. But a third thread
//! that pops meanwhile finds `head` as high as `tail`, because of a ticket that no thread will use. It
//! reports an empty queue although the element was there before it began. A second look at the indices does
//! not help, since the thread that holds the ticket is preempted.
//!
//! So handing back a ticket decides nothing here; it only makes the thread start over. An index that is
//! possibly too high decides nothing either. `None` is returned if
//!
//! - the element of the last ticket drawn for a push, `tail - 1`, *was taken* (its slot shows it), and
//! - `tail` is still the same.
//!
//! By 3, every push and pop with a ticket below `tail` will be done, and by the second load none above has
//! been pushed: at that moment the queue was empty. [`Full`] is the mirror image: the slot of ticket `head +
//! capacity - 1` is full, and `head` is still the same.
//!
//! # Progress
//!
//! The queue is not lock-free. A thread whose ticket has a matching ticket on the other side waits for that
//! one, a few instructions of another thread. A thread that has overshot and is not on top waits for those
//! above to hand back. Of several waiting threads the top one can always proceed, so no thread waits forever
//! if every thread runs now and then; waiting threads yield the CPU for that.
//!
//! The blocking calls draw no ticket without a matching one either. A thread that slept on a ticket would
//! keep each thread below from handing back, and a `try_pop` from returning.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU64, AtomicUsize, Ordering};
use warpweft_platform::delay;

use crate::backoff::Backoff;
use crate::{CapacityError, Full, MAX_CAPACITY, Peek, Word};

/// A bounded multi-producer multi-consumer FIFO.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_queue::{Full, Mpmc};
///
/// let queue = Mpmc::with_capacity(2)?;
/// let [one, two, three] = [1, 2, 3].map(|n| NonZeroUsize::new(n).unwrap());
/// assert_eq!(queue.try_push(one), Ok(()));
/// assert_eq!(queue.try_push(two), Ok(()));
/// assert_eq!(queue.try_push(three), Err(Full(three)));
/// assert_eq!(queue.try_pop(), Some(one));
/// # Ok::<(), warpweft_queue::CapacityError>(())
/// ```
pub struct Mpmc<T: Word> {
    /// The next ticket for a pop.
    head: CachePadded<AtomicU64>,
    /// The next ticket for a push.
    tail: CachePadded<AtomicU64>,
    slots: Box<[MpmcSlot]>,
    /// Elements pass through by value only.
    _elements: PhantomData<fn(T) -> T>,
}

struct MpmcSlot {
    turn: AtomicU64,
    element: AtomicUsize,
}

/// The turn of a slot that waits for the push with this ticket.
fn empty(ticket: u64) -> u64 {
    ticket.wrapping_mul(2)
}

/// The turn of a slot that waits for the pop with this ticket.
fn full(ticket: u64) -> u64 {
    empty(ticket).wrapping_add(1)
}

/// Returns how far `to` is ahead of `from`; negative if it is behind. Correct across the wrap of either.
fn distance(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

impl<T: Word> Mpmc<T> {
    /// Makes an empty queue for at least `capacity` elements, rounded up to a power of two. It takes two
    /// words per element.
    ///
    /// # Errors
    ///
    /// [`CapacityError`] if `capacity` is 0 or more than [`MAX_CAPACITY`], or if there is no memory.
    pub fn with_capacity(capacity: usize) -> Result<Self, CapacityError> {
        Self::with_start(capacity, 0)
    }

    /// Like [`with_capacity`](Self::with_capacity); the first ticket is `start`.
    #[doc(hidden)]
    pub fn with_start(capacity: usize, start: u64) -> Result<Self, CapacityError> {
        Ok(Self {
            slots: empty_slots(capacity, start)?,
            head: CachePadded::new(AtomicU64::new(start)),
            tail: CachePadded::new(AtomicU64::new(start)),
            _elements: PhantomData,
        })
    }

    /// Adds an element, unless the queue is full. Costs one fetch-and-add; a full queue costs loads only.
    ///
    /// It may wait for another thread that is in the middle of a call: see the module's notes on progress.
    ///
    /// # Errors
    ///
    /// [`Full`] with the element if the queue had `capacity` elements at a moment of this call.
    pub fn try_push(&self, element: T) -> Result<(), Full<T>> {
        let word = element.into_word();
        let mut backoff = Backoff::default();
        loop {
            // Ordering: Relaxed for both, here and wherever indices are read: they are hints, and only the
            // drawing of a ticket depends on them. `head` first: then the room that we see, if wrong, is less
            // than there was.
            let head = self.head.load(Ordering::Relaxed);
            let tail = self.tail.load(Ordering::Relaxed);
            if distance(head, tail) < self.lap().cast_signed() {
                // Ordering: Relaxed; a ticket conveys nothing but its number. The slot's turn does the rest.
                let ticket = self.tail.fetch_add(1, Ordering::Relaxed);
                delay::point("mpmc: push ticket drawn");
                if self.fill(ticket, word, &mut backoff) {
                    return Ok(());
                }
            } else if self.is_full_from(head) {
                // SAFETY: the word comes from `into_word` above and was not put into a slot.
                return Err(Full(unsafe { T::from_word(word) }));
            } else {
                backoff.wait();
            }
        }
    }

    /// Takes the oldest element. Costs one fetch-and-add; an empty queue costs loads only.
    ///
    /// `None` means that the queue was empty at a moment of this call. A push that happens before it is not
    /// overlooked, nor is one that a `SeqCst` fence on each side puts before it. The call may wait for
    /// another thread that is in the middle of a call: see the module's notes on progress.
    pub fn try_pop(&self) -> Option<T> {
        let mut backoff = Backoff::default();
        loop {
            // `tail` first: then the elements that we see, if wrong, are fewer than there were.
            let tail = self.tail.load(Ordering::Relaxed);
            let head = self.head.load(Ordering::Relaxed);
            if distance(head, tail) > 0 {
                let ticket = self.head.fetch_add(1, Ordering::Relaxed);
                delay::point("mpmc: pop ticket drawn");
                if let Some(word) = self.empty_out(ticket, &mut backoff) {
                    // SAFETY: `empty_out` returns a word that a push got from `into_word`, once.
                    return Some(unsafe { T::from_word(word) });
                }
            } else if self.is_empty_up_to(tail) {
                return None;
            } else {
                backoff.wait();
            }
        }
    }

    /// Adds an element. While the queue is full it waits, spinning and then yielding the CPU.
    pub fn push_blocking(&self, mut element: T) {
        let mut backoff = Backoff::default();
        while let Err(Full(back)) = self.try_push(element) {
            element = back;
            backoff.wait();
        }
    }

    /// Takes the oldest element. While the queue is empty it waits, spinning and then yielding the CPU.
    pub fn pop_blocking(&self) -> T {
        let mut backoff = Backoff::default();
        loop {
            if let Some(element) = self.try_pop() {
                return element;
            }
            backoff.wait();
        }
    }

    /// Shows up to `most` of the elements, the oldest first, and takes none: for reports. Each was in the
    /// queue at a moment of this call, or was pushed during it. Costs two loads for each.
    pub fn peek(&self, most: usize, see: &mut dyn FnMut(Peek<'_, T>)) {
        let head = self.head.load(Ordering::Relaxed);
        for ticket in (0..self.len().min(most) as u64).map(|offset| head.wrapping_add(offset)) {
            let slot = self.slot(ticket);
            // Ordering: Acquire pairs with the Releases in `fill`. If the slot was refilled meanwhile, the
            // word is of a later element.
            if slot.turn.load(Ordering::Acquire) == full(ticket)
                && let Some(word) = NonZeroUsize::new(slot.element.load(Ordering::Acquire))
            {
                see(Peek::new(word));
            }
        }
    }

    /// Returns about how many elements there are: exact if no other thread is at work.
    pub fn len(&self) -> usize {
        let tail = self.tail.load(Ordering::Relaxed);
        let head = self.head.load(Ordering::Relaxed);
        usize::try_from(distance(head, tail)).map_or(0, |len| len.min(self.capacity()))
    }

    /// Returns true if the queue was empty at a moment of this call; false while a push is at work. Costs
    /// three loads.
    pub fn is_empty(&self) -> bool {
        self.is_empty_up_to(self.tail.load(Ordering::Relaxed))
    }

    /// Returns the number of elements for which there is room.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// With a push ticket: fills the slot, or hands the ticket back and returns false.
    fn fill(&self, ticket: u64, word: NonZeroUsize, backoff: &mut Backoff) -> bool {
        let slot = self.slot(ticket);
        loop {
            // Ordering: Acquire pairs with the Release in `empty_out`: the former element was read.
            if slot.turn.load(Ordering::Acquire) == empty(ticket) {
                // Ordering: Release pairs with the Acquire in `empty_out`, and of the element with `peek`.
                slot.element.store(word.get(), Ordering::Release);
                slot.turn.store(full(ticket), Ordering::Release);
                return true;
            }
            // Does a pop have the ticket of the element in our slot? Then the slot will soon be empty.
            let paired = distance(self.head.load(Ordering::Relaxed), ticket) < self.lap().cast_signed();
            if !paired && hand_back(&self.tail, ticket) {
                return false;
            }
            backoff.wait();
        }
    }

    /// With a pop ticket: takes what is in the slot, or hands the ticket back.
    fn empty_out(&self, ticket: u64, backoff: &mut Backoff) -> Option<NonZeroUsize> {
        let slot = self.slot(ticket);
        loop {
            // Ordering: Acquire pairs with the Release in `fill`: the element is there.
            if slot.turn.load(Ordering::Acquire) == full(ticket) {
                // Ordering: Relaxed, then Release: pairs with the Acquire in `fill`.
                let element = slot.element.load(Ordering::Relaxed);
                slot.turn
                    .store(empty(ticket.wrapping_add(self.lap())), Ordering::Release);
                return NonZeroUsize::new(element);
            }
            // Does a push have our ticket? Then the slot will soon be full.
            let paired = distance(ticket, self.tail.load(Ordering::Relaxed)) > 0;
            if !paired && hand_back(&self.head, ticket) {
                return None;
            }
            backoff.wait();
        }
    }

    /// Returns true if all elements with tickets below `tail` were taken and none was pushed behind. See the
    /// module.
    fn is_empty_up_to(&self, tail: u64) -> bool {
        let last = tail.wrapping_sub(1);
        // Ordering: Acquire pairs with the Release in `empty_out`, which follows the drawing of ticket
        // `last`: the load of `tail` after it does not read an older value.
        let taken = distance(full(last), self.slot(last).turn.load(Ordering::Acquire)) > 0;
        taken && self.tail.load(Ordering::Relaxed) == tail
    }

    /// Returns true if every slot from `head` on is full, one lap long, and none was taken. See the module.
    fn is_full_from(&self, head: u64) -> bool {
        let last = head.wrapping_add(self.lap() - 1);
        // Ordering: Acquire pairs with the Release in `fill`, which follows the drawing of pop ticket
        // `head - 1`: the load of `head` after it does not read an older value.
        let filled = self.slot(last).turn.load(Ordering::Acquire) == full(last);
        filled && self.head.load(Ordering::Relaxed) == head
    }

    fn slot(&self, ticket: u64) -> &MpmcSlot {
        // The length is a power of two, so that the slots follow each other across the wrap of the ticket.
        &self.slots[ticket as usize & (self.slots.len() - 1)]
    }

    fn lap(&self) -> u64 {
        self.slots.len() as u64
    }
}

/// Makes the slots of an empty queue whose first ticket is `start`. Elements are words, so their type does
/// not matter: one copy serves all queues, and is compiled here.
fn empty_slots(capacity: usize, start: u64) -> Result<Box<[MpmcSlot]>, CapacityError> {
    match capacity {
        0 => return Err(CapacityError::Zero),
        1..=MAX_CAPACITY => {}
        asked => {
            return Err(CapacityError::TooLarge {
                asked,
                limit: MAX_CAPACITY,
            });
        }
    }
    let count = capacity.next_power_of_two();
    let mut slots = Vec::new();
    slots
        .try_reserve_exact(count)
        .map_err(|_| CapacityError::Memory { asked: count })?;
    let last = count as u64 - 1;
    slots.extend((0..=last).map(|slot| {
        let ticket = start.wrapping_add(slot.wrapping_sub(start) & last);
        MpmcSlot {
            turn: AtomicU64::new(empty(ticket)),
            element: AtomicUsize::new(0),
        }
    }));
    Ok(slots.into_boxed_slice())
}

/// Hands a ticket back, if it is the highest one out. Returns true if it did.
fn hand_back(index: &AtomicU64, ticket: u64) -> bool {
    delay::point("mpmc: about to hand a ticket back");
    let above = ticket.wrapping_add(1);
    // Ordering: Relaxed; its next holder learns nothing from us.
    index
        .compare_exchange(above, ticket, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}

impl<T: Word> Drop for Mpmc<T> {
    fn drop(&mut self) {
        // No thread is left that could be in the middle of a call.
        while self.try_pop().is_some() {}
    }
}

impl<T: Word> fmt::Debug for Mpmc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mpmc")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}
