//! Nodes that travel with the elements of linked queues, and hazard pointers that show when a node may be
//! used again.
//!
//! After F. Negele, F. Friedrich, S. Oh and B. Egger, *On the design and implementation of an efficient
//! lock-free scheduler* (2014), section 4. A pop from a [`Linked`](crate::Linked) queue also returns the node
//! that the queue no longer needs. The next push of that element gives it back. So a steady flow allocates
//! nothing, and there are no lists of retired nodes.
//!
//! A slow thread may still read such a node. So before it is linked again, all *hazard pointers* are searched
//! for it. If one is found, the node is exchanged for the one that was left there last time.
//!
//! ```text
//!                         hazard     pool                  push(x, node 7)
//!   processor 0 (worker)  [ 7 ]     [ 4 ]   ◀── swap ──▶   processor 0 reads 7: leave it there, take 4
//!   processor 1 (worker)  [ – ]     [ 9 ]                  no processor reads 4: link it
//!   processor 2 (shared)  [ – ]     [ – ]
//! ```
//!
//! Hazard pointers belong to *processors*, the threads that may be inside a call at the same time, and not to
//! tasks. A worker has its own. All other threads share a few, and claim one by a lock for the length of a
//! call. So the number of processors bounds the search, however many tasks there are.
//!
//! # What differs from the original
//!
//! - *One* hazard pointer per processor. The second one of the original guards the node behind the head while
//!   its element is read. Here the element is one atomic word, and nodes are never unmapped. A thread that
//!   reads it too late throws the word away, because its exchange of the head fails. See `linked.rs`.
//! - The original assumes sequential consistency. Here a `SeqCst` fence separates the announcement of a
//!   hazard from the check whether it still holds, and another separates the removal of a node from the
//!   search. One of the two comes first: either the search finds the hazard, or the announcer sees that the
//!   node has gone.
//! - Nodes are numbers in a table, so an element carries 32 bits, which can be checked. Safe code may invent
//!   a number, and gets a fresh node for it.
//!
//! # Invariants
//!
//! - A node is in exactly one of: a queue, an element (`travels`), a pool, the free list, or a thread that is
//!   in the middle of a call. Redeeming is an exchange of `travels`, so at most one thread gets a node.
//! - The owner of a node changes its links only if no hazard pointer had it after a fence that follows its
//!   retirement.
//! - Each pool keeps at most one node, forever. So with T elements in queues or in use, Q queues and N
//!   processors there are at least T, and at most T + Q + N nodes. No more are ever made, because released
//!   nodes are taken first.

use std::cell::Cell;
use std::fmt;
use std::iter;
use std::marker::PhantomData;
use std::sync::OnceLock;

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use warpweft_platform::delay;
use warpweft_platform::random::Rng;
use warpweft_platform::sync::{Arc, Mutex, MutexGuard};

/// The number of nodes in the first chunk of the table; each chunk has twice as many as the one before. For
/// the model checkers one chunk is enough: loom does not see that `OnceLock` publishes it.
const FIRST: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    16
} else {
    64
};

/// Chunks that hold 2^31 nodes or more, from either first size.
const CHUNKS: usize = 30;

/// The largest number of nodes in a table.
const MOST: u32 = 1 << 31;

/// No node: numbers begin with 1.
pub(crate) const NONE: u32 = 0;

/// A node of a queue. All fields are atomics: a late read of a node that is used again is invalid and
/// harmless.
pub(crate) struct Node {
    /// In a queue the node behind; in the free list the one below.
    pub(crate) next: AtomicU32,
    /// 1 if an element carries it.
    travels: AtomicU32,
    /// The element's word.
    pub(crate) element: AtomicUsize,
}

/// The announcement of one processor, and the node that was left with it.
struct HazardSlot {
    hazard: AtomicU32,
    pool: AtomicU32,
    /// For a shared slot: held while a thread uses it.
    in_use: Mutex<()>,
}

/// The node that an element carries: [`Linked::pop`](crate::Linked::pop) returns it for the next push of that
/// element.
///
/// It is plain bits, so that it fits into whatever travels with the element. An invented one does no harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "a node that is neither pushed nor released is lost until its table ends"]
pub struct Carried(u32);

impl Carried {
    /// No node: for an element that was never in a queue.
    pub const NONE: Self = Self(NONE);

    /// Returns it as bits; 0 means none.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Makes it from bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// The right to use the queues of one table without claiming a hazard slot each time. One thread at a time
/// has it.
///
/// It can be sent to another thread, but not shared:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<warpweft_queue::Processor>();
/// ```
pub struct Processor {
    pub(crate) nodes: Nodes,
    pub(crate) place: usize,
    /// Not `Sync`: two threads in one slot would overwrite each other's hazard.
    _alone: PhantomData<Cell<()>>,
}

/// A table of nodes, and the hazard slots of the threads that use its queues. A clone is the same table.
#[derive(Clone)]
pub struct Nodes(Arc<Table>);

struct Table {
    chunks: [OnceLock<Box<[Node]>>; CHUNKS],
    made: AtomicU32,
    /// The free list: a count of changes and the number of the top, `changes:32 | top:32`.
    free: CachePadded<AtomicU64>,
    places: Box<[CachePadded<HazardSlot>]>,
    /// The slots with lower indices belong to processors.
    workers: usize,
}

impl Nodes {
    /// Makes a table without nodes, and the processors that may use its queues. All other threads share
    /// `external` hazard slots, at least one. That many threads can push from outside at the same time;
    /// others wait.
    #[must_use]
    pub fn new(workers: usize, external: usize) -> (Self, Vec<Processor>) {
        let places = (0..workers + external.max(1)).map(|_| {
            CachePadded::new(HazardSlot {
                hazard: AtomicU32::new(NONE),
                pool: AtomicU32::new(NONE),
                in_use: Mutex::new(()),
            })
        });
        let nodes = Self(Arc::new(Table {
            chunks: std::array::from_fn(|_| OnceLock::new()),
            made: AtomicU32::new(0),
            free: CachePadded::new(AtomicU64::new(0)),
            places: places.collect(),
            workers,
        }));
        let processor = |place| Processor {
            nodes: nodes.clone(),
            place,
            _alone: PhantomData,
        };
        let processors = (0..workers).map(processor).collect();
        (nodes, processors)
    }

    /// Returns how many nodes were ever made. It is at most the largest number of elements at one time, plus
    /// the queues, plus [`places`](Self::places).
    #[must_use]
    pub fn made(&self) -> usize {
        // Ordering: Relaxed; a count that orders nothing.
        self.0.made.load(Ordering::Relaxed) as usize
    }

    /// Returns how many threads can be inside a call at the same time: workers and external threads.
    #[must_use]
    pub fn places(&self) -> usize {
        self.0.places.len()
    }

    /// Takes back the node of an element that has ended. A number that no element carries is ignored.
    pub fn release(&self, carried: Carried) {
        let node = self.acquire(self.redeem(carried));
        if node != NONE {
            self.put_free(node);
        }
    }

    /// Returns true if `other` is the same table.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the node of that number, which was made before.
    #[inline]
    pub(crate) fn node(&self, number: u32) -> &Node {
        let (chunk, offset) = position(number);
        self.find(chunk, offset)
            .unwrap_or_else(|| unreachable!("only nodes that were made are linked"))
    }

    fn find(&self, chunk: usize, offset: usize) -> Option<&Node> {
        self.0.chunks.get(chunk)?.get()?.get(offset)
    }

    /// Takes the node that an element carries, if there is one.
    #[inline]
    pub(crate) fn redeem(&self, carried: Carried) -> u32 {
        let Carried(number) = carried;
        if number == NONE {
            return NONE;
        }
        let (chunk, offset) = position(number);
        match self.find(chunk, offset) {
            // Ordering: Acquire pairs with the Release in `travel`: what was done with the node before is
            // over.
            Some(node) if node.travels.swap(0, Ordering::Acquire) == 1 => number,
            _ => NONE,
        }
    }

    /// Gives the node to an element.
    #[inline]
    pub(crate) fn travel(&self, number: u32) -> Carried {
        // Ordering: Release pairs with the Acquire in `redeem`.
        self.node(number).travels.store(1, Ordering::Release);
        Carried(number)
    }

    /// Fences in any case. Then returns `node`, or another one, that no thread reads and no thread will read;
    /// `NONE` if there is none.
    ///
    /// Costs at most one round per node that was left in a pool. Only threads that read the number of a
    /// removed node before announce it, each once.
    #[inline]
    pub(crate) fn acquire(&self, mut node: u32) -> u32 {
        loop {
            // Ordering: SeqCst, the partner of the fence in `announce`. The node left its queue before; a
            // thread that announces it after this fence sees that.
            fence(Ordering::SeqCst);
            let mut exchanged = false;
            for place in &self.0.places {
                if node == NONE {
                    return NONE;
                }
                // Ordering: Acquire pairs with the Release in `announce` and `leave`: a thread that read the
                // node has done so.
                if place.hazard.load(Ordering::Acquire) == node {
                    delay::point("nodes: hazard met");
                    // Ordering: AcqRel; the node's former owner is done with it, and so are we with ours.
                    node = place.pool.swap(node, Ordering::AcqRel);
                    exchanged = true;
                }
            }
            if !exchanged {
                return node;
            }
        }
    }

    /// Returns a node that no thread reads, a released one or else a new one, and true if it is new.
    ///
    /// # Panics
    ///
    /// There are 2^31 of them.
    pub(crate) fn fresh(&self) -> (u32, bool) {
        match self.take_free() {
            NONE => (self.make(), true),
            node => (node, false),
        }
    }

    #[cold]
    fn make(&self) -> u32 {
        // Ordering: Relaxed; the number conveys nothing else.
        let number = self.0.made.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(number < MOST, "there are {MOST} tasks or more in queues");
        let (chunk, _) = position(number);
        self.0.chunks[chunk].get_or_init(|| {
            let node = || Node {
                next: AtomicU32::new(NONE),
                travels: AtomicU32::new(0),
                element: AtomicUsize::new(0),
            };
            iter::repeat_with(node).take((FIRST as usize) << chunk).collect()
        });
        number
    }

    pub(crate) fn put_free(&self, number: u32) {
        let node = self.node(number);
        // Ordering: Relaxed; only the exchange below decides.
        let mut free = self.0.free.load(Ordering::Relaxed);
        loop {
            node.next.store(free as u32, Ordering::Relaxed);
            // Ordering: Release pairs with the Acquire in `take_free`: it sees our `next`, and that we are
            // done.
            match self.0.free.compare_exchange_weak(
                free,
                changed(free, number),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => free = now,
            }
        }
    }

    fn take_free(&self) -> u32 {
        // Ordering: Acquire, here and where the exchange fails: pairs with the Release in `put_free`.
        let mut free = self.0.free.load(Ordering::Acquire);
        loop {
            let top = free as u32;
            if top == NONE {
                return NONE;
            }
            // Another thread may have taken the top and linked it elsewhere; then the count of changes
            // differs.
            let below = self.node(top).next.load(Ordering::Relaxed);
            match self.0.free.compare_exchange_weak(
                free,
                changed(free, below),
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => return top,
                Err(now) => free = now,
            }
        }
    }

    /// Returns the hazard pointer of a slot.
    #[inline]
    pub(crate) fn hazard(&self, place: usize) -> &AtomicU32 {
        &self.0.places[place].hazard
    }

    /// Claims one of the shared hazard slots, at random, for the length of a call.
    pub(crate) fn visit(&self) -> Visit<'_> {
        let Table { places, workers, .. } = &*self.0;
        let place = workers + Rng::thread_below(places.len() - workers);
        Visit {
            place,
            _held: places[place].in_use.lock(),
        }
    }
}

/// A claimed shared hazard slot.
pub(crate) struct Visit<'a> {
    pub(crate) place: usize,
    _held: MutexGuard<'a, ()>,
}

/// Announces that this thread reads the node in `from`. Returns the node, once it was there after the
/// announcement.
#[inline]
pub(crate) fn announce(from: &AtomicU32, hazard: &AtomicU32) -> u32 {
    let seen = from.load(Ordering::Relaxed);
    // Ordering: Release pairs with the Acquire in `acquire`, for the node that was announced before.
    hazard.store(seen, Ordering::Release);
    // Ordering: SeqCst, the partner of the fence in `acquire`: either it finds our hazard, or we see that the
    // node has gone.
    fence(Ordering::SeqCst);
    confirm(from, hazard, seen)
}

/// The rest of [`announce`]: `seen` was announced, and a `SeqCst` fence followed.
#[inline]
pub(crate) fn confirm(from: &AtomicU32, hazard: &AtomicU32, mut seen: u32) -> u32 {
    loop {
        // Ordering: Acquire pairs with the Release of the thread that put the node there: its links are
        // there, too.
        let now = from.load(Ordering::Acquire);
        if now == seen {
            return now;
        }
        seen = now;
        // Ordering: as in `announce`.
        hazard.store(seen, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

/// Withdraws the announcement.
#[inline]
pub(crate) fn leave(hazard: &AtomicU32) {
    // Ordering: Release pairs with the Acquire in `acquire`: our reads are done.
    hazard.store(NONE, Ordering::Release);
}

/// Returns the chunk of a node, and the index in it.
#[inline]
fn position(number: u32) -> (usize, usize) {
    let from_first = u64::from(number.wrapping_sub(1)) + u64::from(FIRST);
    let chunk = from_first.ilog2() - FIRST.ilog2();
    (
        chunk as usize,
        (from_first - (u64::from(FIRST) << chunk)) as usize,
    )
}

/// The free list's word after a change, with this top.
fn changed(free: u64, top: u32) -> u64 {
    ((free >> 32).wrapping_add(1) << 32) | u64::from(top)
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes")
            .field("made", &self.made())
            .field("places", &self.places())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processor")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST, position};

    /// A thread may read the returned node again and again: one node is left with it, and is used again when
    /// the thread reads the next.
    #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
    #[test]
    fn what_was_left_with_somebody_is_taken_for_what_is_left_now() {
        use super::{Carried, NONE, Nodes, Ordering};
        use crate::Linked;
        use std::num::NonZeroUsize;

        let (nodes, processors) = Nodes::new(3, 1);
        let queue = Linked::new(&nodes);
        queue.push(&processors[0], NonZeroUsize::MIN, Carried::NONE);
        for turn in 0..100 {
            let (element, carried) = queue.pop(&processors[0]).expect("it is there");
            let looks = nodes.hazard(1 + turn % 2);
            looks.store(carried.bits(), Ordering::Relaxed);
            let made = queue.push(&processors[0], element, carried);
            assert_eq!(made, turn < 2, "{turn}");
            looks.store(NONE, Ordering::Relaxed);
        }
        // The element's, the queue's, and those that were left in two slots.
        assert_eq!(nodes.made(), 1 + 1 + 2);
    }

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for number in 1..10_000 {
            assert_eq!(position(number), expected, "{number}");
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        // A number that safe code invents is in some chunk, or in none.
        assert!(position(u32::MAX).0 < 31);
    }
}
