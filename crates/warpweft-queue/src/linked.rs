//! An unbounded lock-free queue of linked nodes that travel with the elements.
//!
//! The queue of M. Michael and M. Scott (1996), in the form of F. Negele, F. Friedrich, S. Oh and B. Egger
//! (2014). [`Nodes`] explains what happens to the nodes.
//!
//! ```text
//!    head                         tail, or one behind
//!     ▼                            ▼
//!   [ dummy ] ──▶ [ a ] ──▶ [ b ] ──▶ [ c ] ──▶ none
//!
//!   pop:   head moves to the node of a, which is the dummy now; the old dummy goes along with a
//!   push:  a node is linked behind the last one, by the thread that wins the exchange of its `next`;
//!          then the tail moves
//! ```
//!
//! # Invariants
//!
//! - The tail is never behind the head: a pop moves it on before it moves the head. So a node that has left
//!   the queue is neither. A thread that still reads its number from `head` or `tail` reads an older value,
//!   which a fence rules out.
//! - `next` of a node in the queue changes once, from none to the node behind. A node that has left keeps its
//!   `next` until it is used again. So an exchange of its `next` fails while a thread has announced the node.
//! - *Why one hazard is enough.* A pop announces the head. While that holds, an exchange of `head` succeeds
//!   only if the head was there all the time, so the node behind had not left either. Then `next`, and the
//!   word read from the node behind, are valid. If it had left and is used for something else, the word is
//!   invalid, but the exchange fails and the word is dropped.
//!
//! Push and pop are lock-free for workers: a retry means that another thread made progress. The number of
//! hazard slots bounds the search for hazards. Pushes from outside share a few hazard slots, and wait for one
//! if more of them run at once.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU32, Ordering};
use warpweft_platform::delay;

use crate::Word;
use crate::nodes::{Carried, NONE, Nodes, Processor, announce, confirm, leave};

/// An unbounded multi-producer multi-consumer FIFO, whose nodes travel with the elements.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_queue::{Carried, Linked, Nodes};
///
/// let (nodes, workers) = Nodes::new(1, 1);
/// let (ready, done) = (Linked::new(&nodes), Linked::new(&nodes));
/// for n in (1..=3).filter_map(NonZeroUsize::new) {
///     ready.push(&workers[0], n, Carried::NONE);
/// }
/// while let Some((n, carried)) = ready.pop(&workers[0]) {
///     done.push(&workers[0], n, carried);
/// }
/// // One for each element, one for each queue.
/// assert_eq!(nodes.made(), 3 + 2);
/// ```
pub struct Linked<T: Word> {
    head: CachePadded<AtomicU32>,
    tail: CachePadded<AtomicU32>,
    nodes: Nodes,
    /// Elements pass through by value only.
    _elements: PhantomData<fn(T) -> T>,
}

impl<T: Word> Linked<T> {
    /// Makes an empty queue, whose nodes come from this table. Takes one node.
    #[must_use]
    pub fn new(nodes: &Nodes) -> Self {
        let (dummy, _) = nodes.fresh();
        // Ordering: Relaxed; the thread that shares the queue publishes it.
        nodes.node(dummy).next.store(NONE, Ordering::Relaxed);
        Self {
            head: CachePadded::new(AtomicU32::new(dummy)),
            tail: CachePadded::new(AtomicU32::new(dummy)),
            nodes: nodes.clone(),
            _elements: PhantomData,
        }
    }

    /// Adds an element as the youngest, in the node that it carries, or in a fresh one. Returns true if a
    /// node was made for it.
    ///
    /// Costs a fence, three read-modify-writes and a load for each hazard slot.
    ///
    /// # Panics
    ///
    /// The processor is of another table. There is no memory for a node, or there are 2^31.
    #[inline]
    pub fn push(&self, processor: &Processor, element: T, carried: Carried) -> bool {
        self.push_in(self.place_of(processor), element, carried)
    }

    /// As [`push`](Self::push), for threads without a processor: claims a shared hazard slot for the length
    /// of the call.
    ///
    /// # Panics
    ///
    /// There is no memory for a node, or there are 2^31.
    pub fn push_from_outside(&self, element: T, carried: Carried) -> bool {
        let visit = self.nodes.visit();
        self.push_in(visit.place, element, carried)
    }

    /// Takes the oldest element, and a node for its next push. `None` means that the queue was empty at a
    /// moment of this call: a push that happens before it is not overlooked, nor is one that a `SeqCst` fence
    /// on each side puts before it.
    ///
    /// Costs a fence and one or two read-modify-writes.
    ///
    /// # Panics
    ///
    /// The processor is of another table.
    #[inline]
    pub fn pop(&self, processor: &Processor) -> Option<(T, Carried)> {
        let hazard = self.nodes.hazard(self.place_of(processor));
        loop {
            let head = announce(&self.head, hazard);
            delay::point("linked: head announced");
            // Ordering: Acquire pairs with the Release in `push_in`: the node behind is filled.
            let next = self.nodes.node(head).next.load(Ordering::Acquire);
            if next == NONE {
                leave(hazard);
                return None;
            }
            // Ordering: Relaxed suffices to see it here if it is here: the thread that moved the head to
            // where we found it had seen the tail there, or behind. Release as in `push_in`.
            if self.tail.load(Ordering::Relaxed) == head {
                self.move_tail(head, next);
            }
            let element = self.nodes.node(next).element.load(Ordering::Relaxed);
            delay::point("linked: about to take");
            // Ordering: Release pairs with the Acquire in `confirm`: a thread that finds the head there knows
            // where the tail is, and that our read of the node behind is over when it takes that node out in
            // its turn.
            if self
                .head
                .compare_exchange(head, next, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                leave(hazard);
                let element = NonZeroUsize::new(element)?;
                // SAFETY: a push put the word there, from `into_word`; the exchange of the head past it
                // succeeds once.
                return Some((unsafe { T::from_word(element) }, self.nodes.travel(head)));
            }
        }
    }

    /// Returns true if the queue was empty at a moment of this call, as a pop that finds nothing.
    pub fn is_empty(&self, processor: &Processor) -> bool {
        let hazard = self.nodes.hazard(self.place_of(processor));
        let head = announce(&self.head, hazard);
        // Ordering: Acquire as in `pop`.
        let next = self.nodes.node(head).next.load(Ordering::Acquire);
        leave(hazard);
        next == NONE
    }

    /// Returns true if the queue seems to be empty. Costs two loads and no fence. It is a hint: a thread that
    /// acts on it looks again before it sleeps.
    #[inline]
    pub fn seems_empty(&self) -> bool {
        let head = self.head.load(Ordering::Acquire);
        self.nodes.node(head).next.load(Ordering::Relaxed) == NONE
    }

    /// Returns true if the queue seems to have more than one element. Costs three loads and no fence. It is a
    /// hint.
    pub fn seems_to_have_several(&self) -> bool {
        let head = self.head.load(Ordering::Acquire);
        let first = self.nodes.node(head).next.load(Ordering::Acquire);
        first != NONE && self.nodes.node(first).next.load(Ordering::Relaxed) != NONE
    }

    #[inline]
    fn push_in(&self, place: usize, element: T, carried: Carried) -> bool {
        let (nodes, hazard) = (&self.nodes, self.nodes.hazard(place));
        let node = nodes.redeem(carried);
        // The fence of the search is also that of the announcement.
        let seen = self.tail.load(Ordering::Relaxed);
        // Ordering: Release as in `announce`.
        hazard.store(seen, Ordering::Release);
        let (number, made) = match nodes.acquire(node) {
            NONE => nodes.fresh(),
            node => (node, false),
        };
        let node = nodes.node(number);
        // Ordering: Relaxed for both; the exchange below publishes them.
        node.element.store(element.into_word().get(), Ordering::Relaxed);
        node.next.store(NONE, Ordering::Relaxed);
        let mut tail = confirm(&self.tail, hazard, seen);
        loop {
            delay::point("linked: tail announced");
            let last = nodes.node(tail);
            // Ordering: Release pairs with the Acquire in `pop`, and with that below.
            match last
                .next
                .compare_exchange(NONE, number, Ordering::Release, Ordering::Acquire)
            {
                Ok(_) => break,
                // The tail is one behind: help.
                Err(next) => self.move_tail(tail, next),
            }
            tail = announce(&self.tail, hazard);
        }
        delay::point("linked: before the tail moves");
        self.move_tail(tail, number);
        leave(hazard);
        made
    }

    #[inline]
    fn move_tail(&self, from: u32, to: u32) {
        // Ordering: Release pairs with the Acquire in `confirm`: the node's `next` is there. If it fails,
        // a thread helped.
        let _ = self
            .tail
            .compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }

    #[inline]
    fn place_of(&self, processor: &Processor) -> usize {
        assert!(
            self.nodes.is(&processor.nodes),
            "the processor is of another table of nodes than the queue"
        );
        processor.place
    }
}

impl<T: Word> Drop for Linked<T> {
    fn drop(&mut self) {
        // No other thread can reach the queue: its nodes go back without a search.
        let mut number = self.head.load(Ordering::Acquire);
        loop {
            let next = self.nodes.node(number).next.load(Ordering::Acquire);
            self.nodes.put_free(number);
            if next == NONE {
                return;
            }
            number = next;
            let element = self.nodes.node(number).element.load(Ordering::Relaxed);
            if let Some(element) = NonZeroUsize::new(element) {
                // SAFETY: a push put the word there, from `into_word`, and no pop has taken it.
                drop(unsafe { T::from_word(element) });
            }
        }
    }
}

impl<T: Word> fmt::Debug for Linked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linked")
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}
