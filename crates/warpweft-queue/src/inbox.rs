//! An unbounded inbox: any thread pushes, one owner takes.
//!
//! Elements are one word and have no link, so they are in blocks of slots. A new block is linked once per
//! block, not for each element, and the owner gives emptied blocks back. So in a steady state nothing is
//! allocated.
//!
//! ```text
//!             older           older
//!   block A ◀─────── block B ◀─────── block C     tail: C's address, and how many of C's slots are reserved
//!   [ . x x ]        [ x x x ]        [ x x _ ]         in its low bits, in one word
//!       ▲                                  ▲
//!       owner takes here                   next push reserves here
//! ```
//!
//! *Push* reserves a slot by one compare-and-swap of `tail` and fills it by a second, of the slot's state. If
//! the last block has no slot left, the pusher puts a new one behind it: it lets the block point to the
//! `older` one and swaps `tail` to it, slot 0 already reserved. No thread ever waits for a second step of
//! another thread, because the links run backwards; the owner reverses them, once per block.
//!
//! *Pop* looks at the next slot only. If that is reserved and still empty, its pusher is slow, perhaps
//! preempted. The owner waits a moment, then *skips* the slot and continues with the elements behind. The
//! pusher will find its slot skipped and reserve another one. (The dequeuers of Correia and Ramalhete's
//! *FAAArrayQueue*, 2016, do the same.)
//!
//! ```text
//!          pusher: fill                 owner: take
//!   EMPTY ──────────────▶ FULL ─────────────────────▶ EMPTY
//!     └──owner: skip──▶ SKIPPED ──pusher: give up───▶ EMPTY
//! ```
//!
//! # Invariants
//!
//! - One pusher at a time reserves a slot, and only a pusher that has reserved a slot touches its block.
//! - The owner takes or skips every slot once, in the order of their reservation. Hence FIFO, exactly: a push
//!   that ended before another began has the older slot.
//! - When the owner has passed a block and all its slots are EMPTY, every pusher has done its last access of
//!   the block. That access is the fill if the element was taken, and the giving up if the slot was skipped.
//!   Only then is the block used again.
//! - A block that returns does not confuse `tail`: the word is the whole state (which block, how many slots),
//!   even if it had the same value before.
//! - No counter grows without bound, so none can overflow: slots are counted per block.
//!
//! Push and pop are lock-free; a pop that finds its element is wait-free.

use std::array;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::num::NonZeroUsize;
use std::ptr;

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, spin_loop};
use warpweft_platform::delay;
use warpweft_platform::sync::{Arc, Mutex};

use crate::Word;

/// Slots per block: with the two links they make 1 KiB. The model checker gets blocks that are soon full.
const SLOTS: usize = if cfg!(warpweft_loom) { 2 } else { 63 };

/// The bits of an aligned block's address that count its reserved slots, 0 to `SLOTS`.
const COUNT: usize = align_of::<Block>() - 1;
const _: () = assert!(SLOTS <= COUNT);

/// How often the owner looks again before it skips a slot.
const PATIENCE: usize = if cfg!(warpweft_loom) { 0 } else { 64 };

const EMPTY: u32 = 0;
const FULL: u32 = 1;
const SKIPPED: u32 = 2;

#[repr(align(64))]
struct Block {
    /// Written before the block is chained, then read by the owner alone.
    older: AtomicPtr<Block>,
    /// Used by the owner only: the way back, once it has walked it.
    newer: AtomicPtr<Block>,
    slots: [InboxSlot; SLOTS],
}

struct InboxSlot {
    state: AtomicU32,
    element: AtomicUsize,
}

impl Block {
    fn allocate() -> *mut Self {
        let slot = |_| InboxSlot {
            state: AtomicU32::new(EMPTY),
            element: AtomicUsize::new(0),
        };
        let link = || AtomicPtr::new(ptr::null_mut());
        Box::into_raw(Box::new(Self {
            older: link(),
            newer: link(),
            slots: array::from_fn(slot),
        }))
    }

    /// # Safety
    ///
    /// `block` came from [`allocate`](Self::allocate) and is not freed during `'a`.
    unsafe fn at<'a>(block: *mut Self) -> &'a Self {
        // SAFETY: by this function's contract; all fields are atomics, so sharing is allowed.
        unsafe { &*block }
    }

    /// # Safety
    ///
    /// `block` came from [`allocate`](Self::allocate), no other thread has it, and it is not used again.
    unsafe fn free(block: *mut Self) {
        // SAFETY: by this function's contract.
        drop(unsafe { Box::from_raw(block) });
    }
}

/// Splits a value of `tail` into the last block, and how many of its slots are reserved.
fn split(tail: *mut Block) -> (*mut Block, usize) {
    (tail.map_addr(|address| address & !COUNT), tail.addr() & COUNT)
}

fn join(block: *mut Block, reserved: usize) -> *mut Block {
    block.map_addr(|address| address | reserved)
}

struct Core<T: Word> {
    tail: CachePadded<AtomicPtr<Block>>,
    /// One empty block, or null: enough for a steady flow to allocate nothing.
    spare: CachePadded<AtomicPtr<Block>>,
    /// The head that the owner left behind, for the last handle to clear away.
    left: Mutex<Option<Head>>,
    /// Elements pass through by value only.
    _elements: PhantomData<fn(T) -> T>,
}

/// The position of the owner.
struct Head {
    block: *mut Block,
    /// The slot of `block` to look at; `SLOTS` if the next one is in a newer block.
    slot: usize,
    /// Blocks that the owner has passed, in which a skipped pusher may still be at work.
    limbo: Vec<*mut Block>,
}

// SAFETY: pushers reach the blocks of a `Head` through atomics only, and the thread that has the `Head` frees
// them.
unsafe impl Send for Head {}

impl<T: Word> Core<T> {
    fn push(&self, element: NonZeroUsize) {
        loop {
            let slot = self.reserve();
            delay::point("inbox: reserved");
            // Ordering: Relaxed; the state publishes it.
            slot.element.store(element.get(), Ordering::Relaxed);
            // Ordering: Release pairs with the owner's Acquire of FULL. A failure reads nothing that depends
            // on it.
            let filled = slot
                .state
                .compare_exchange(EMPTY, FULL, Ordering::Release, Ordering::Relaxed);
            if filled.is_ok() {
                return;
            }
            // Ordering: Release pairs with the Acquire in `retire`: our store to `element` comes before the
            // block's next life. This is our last access of the block.
            slot.state.store(EMPTY, Ordering::Release);
        }
    }

    fn reserve(&self) -> &InboxSlot {
        // Ordering: Relaxed; a block is touched after the Acquire below only.
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            let (block, reserved) = split(tail);
            let (fresh, mine) = if reserved < SLOTS {
                (None, join(block, reserved + 1))
            } else {
                let fresh = self.fresh(block);
                (Some(fresh), join(fresh, 1))
            };
            // Ordering: Release publishes `older` of a fresh block, to the owner, and its empty slots, to
            // other pushers. Acquire pairs with it. `tail` is changed by read-modify-writes only, so each
            // Release is seen through all later values.
            match self
                .tail
                .compare_exchange(tail, mine, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => {
                    let (block, reserved) = split(mine);
                    // SAFETY: we have just reserved a slot of `block`, which keeps it from being freed until
                    // we have filled the slot or given it up.
                    return &unsafe { Block::at(block) }.slots[reserved - 1];
                }
                Err(now) => tail = now,
            }
            if let Some(fresh) = fresh {
                self.put_by(fresh);
            }
        }
    }

    /// Returns an empty block that no other thread has, to be linked behind `older`.
    fn fresh(&self, older: *mut Block) -> *mut Block {
        // Ordering: Acquire pairs with the Release in `put_by`: the block comes with its slots empty.
        let spare = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
        let fresh = if spare.is_null() { Block::allocate() } else { spare };
        // SAFETY: the block is ours alone. Ordering: Relaxed; chaining publishes it.
        unsafe { Block::at(fresh) }.older.store(older, Ordering::Relaxed);
        fresh
    }

    /// Keeps an empty block that no other thread has for later use, or frees it if one is kept already.
    fn put_by(&self, block: *mut Block) {
        // Ordering: Release pairs with the Acquire in `fresh`.
        let kept = self
            .spare
            .compare_exchange(ptr::null_mut(), block, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        if !kept {
            // SAFETY: only the caller has it, and it was not stored anywhere.
            unsafe { Block::free(block) };
        }
    }

    fn pop(&self, head: &mut Head) -> Option<NonZeroUsize> {
        loop {
            if head.slot == SLOTS && !self.advance(head) {
                return None;
            }
            // SAFETY: only `retire` and the drop free a block, and never the one the head is at.
            let slot = &unsafe { Block::at(head.block) }.slots[head.slot];
            // Ordering: Acquire pairs with the Release of the fill.
            if slot.state.load(Ordering::Acquire) != FULL {
                if self.none_reserved(head) {
                    return None;
                }
                if !wait_or_skip(slot) {
                    head.slot += 1;
                    continue;
                }
            }
            head.slot += 1;
            // Ordering: Relaxed, after the Acquire of FULL.
            let element = slot.element.load(Ordering::Relaxed);
            // Ordering: Relaxed; `put_by` publishes it, together with the whole block.
            slot.state.store(EMPTY, Ordering::Relaxed);
            return NonZeroUsize::new(element);
        }
    }

    /// Returns true if every slot reserved so far was taken or skipped.
    fn none_reserved(&self, head: &Head) -> bool {
        // Ordering: Acquire only for symmetry with `advance`: the value alone decides. A push that happens
        // before, or that a pair of `SeqCst` fences puts before, is in it.
        self.tail.load(Ordering::Acquire) == join(head.block, head.slot)
    }

    /// Moves from a passed block to the next newer one, if there is one.
    fn advance(&self, head: &mut Head) -> bool {
        // Ordering: Acquire pairs with the Release that chained the block, and those that chained the older
        // ones.
        let (last, _) = split(self.tail.load(Ordering::Acquire));
        if last == head.block {
            return false;
        }
        let passed = head.block;
        // SAFETY: only `retire` and the drop free a block, and never the one the head is at.
        let passed_block = unsafe { Block::at(passed) };
        // Ordering: Relaxed for all links: `newer` is the owner's, `older` came with the Acquire of `tail`.
        let mut newer = passed_block.newer.load(Ordering::Relaxed);
        if newer.is_null() {
            // Reverses the links, from the last block to this one. Each block is walked once in its life.
            newer = last;
            loop {
                // SAFETY: only `retire` and the drop free a block, and only one that the head has passed.
                let older = unsafe { Block::at(newer) }.older.load(Ordering::Relaxed);
                if older == passed {
                    break;
                }
                // SAFETY: as above.
                unsafe { Block::at(older) }.newer.store(newer, Ordering::Relaxed);
                newer = older;
            }
        }
        passed_block.newer.store(ptr::null_mut(), Ordering::Relaxed);
        head.block = newer;
        head.slot = 0;
        head.limbo.push(passed);
        head.limbo.retain(|&block| !self.retire(block));
        true
    }

    /// Gives back a block that the head has passed, unless a skipped pusher is still at work in it. Returns
    /// true if it did.
    fn retire(&self, block: *mut Block) -> bool {
        // SAFETY: a block in limbo is freed here only, by the one owner, who then takes it out of the limbo.
        let slots = &unsafe { Block::at(block) }.slots;
        // Ordering: Acquire pairs with the Release of a skipped pusher's giving up.
        let at_rest = slots
            .iter()
            .all(|slot| slot.state.load(Ordering::Acquire) == EMPTY);
        if at_rest {
            self.put_by(block);
        }
        at_rest
    }
}

/// Waits a moment for a reserved slot. Returns true if it is full; otherwise its pusher will never fill it.
#[cold]
fn wait_or_skip(slot: &InboxSlot) -> bool {
    let filled = |_| {
        spin_loop();
        // Ordering: Relaxed; the compare-and-swap decides.
        slot.state.load(Ordering::Relaxed) == FULL
    };
    let _ = (0..PATIENCE).any(filled);
    // Ordering: Acquire on failure pairs with the Release of the fill; success publishes nothing.
    slot.state
        .compare_exchange(EMPTY, SKIPPED, Ordering::Relaxed, Ordering::Acquire)
        .is_err()
}

impl<T: Word> Drop for Core<T> {
    fn drop(&mut self) {
        // The owner leaves its head when it is dropped, and the core is dropped after the owner.
        let Some(mut head) = self.left.lock().take() else {
            return;
        };
        while let Some(word) = self.pop(&mut head) {
            // SAFETY: `pop` gives a word that `push` got from `into_word`, once.
            drop(unsafe { T::from_word(word) });
        }
        // Ordering: Relaxed; no other thread is left.
        let spare = self.spare.load(Ordering::Relaxed);
        for block in head.limbo.into_iter().chain([head.block, spare]) {
            if !block.is_null() {
                // SAFETY: no pusher is left; after the last pop there is no block but these, each in one
                // place.
                unsafe { Block::free(block) };
            }
        }
    }
}

/// The taking end of an inbox. There is one, for one thread at a time.
///
/// After it is dropped, elements may still be pushed; the last handle drops what is left.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_queue::InboxOwner;
///
/// let mut owner = InboxOwner::new();
/// let sender = owner.sender();
/// let push = move || (1..=3).filter_map(NonZeroUsize::new).for_each(|n| sender.push(n));
/// std::thread::spawn(push).join().unwrap();
/// assert_eq!(std::iter::from_fn(|| owner.pop()).map(usize::from).collect::<Vec<_>>(), [1, 2, 3]);
/// ```
///
/// It may move between threads, but is neither shared nor cloned:
///
/// ```compile_fail,E0277
/// fn shared<S: Sync>() {}
/// shared::<warpweft_queue::InboxOwner<std::num::NonZeroUsize>>();
/// ```
///
/// ```compile_fail,E0277
/// fn cloned<C: Clone>() {}
/// cloned::<warpweft_queue::InboxOwner<std::num::NonZeroUsize>>();
/// ```
pub struct InboxOwner<T: Word> {
    head: Head,
    core: Arc<Core<T>>,
}

impl<T: Word> InboxOwner<T> {
    /// Makes an empty inbox. Allocates its first block: 1 KiB.
    #[must_use]
    pub fn new() -> Self {
        let block = Block::allocate();
        let core = Core {
            tail: CachePadded::new(AtomicPtr::new(block)),
            spare: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            left: Mutex::new(None),
            _elements: PhantomData,
        };
        Self {
            head: Head {
                block,
                slot: 0,
                limbo: Vec::new(),
            },
            core: Arc::new(core),
        }
    }

    /// Makes another pushing end.
    #[must_use]
    pub fn sender(&self) -> InboxSender<T> {
        InboxSender {
            core: Arc::clone(&self.core),
        }
    }

    /// Takes the oldest element.
    ///
    /// Costs amortised O(1), without a read-modify-write instruction if the element is there. `None` means
    /// that every push that happens before the call was taken. The same holds for every push that a `SeqCst`
    /// fence on each side puts before the call. A push that is still at work may be overtaken by later ones.
    /// The call waits for no thread longer than some 64 spins.
    pub fn pop(&mut self) -> Option<T> {
        let word = self.core.pop(&mut self.head)?;
        // SAFETY: `Core::pop` returns a word that `push` got from `into_word`, once.
        Some(unsafe { T::from_word(word) })
    }

    /// Returns true if there is no element and no push at work. Costs one load.
    pub fn is_empty(&self) -> bool {
        // After the last slot of a block both mean "all reserved slots were passed", unless there is a newer
        // block.
        self.core.none_reserved(&self.head)
    }
}

impl<T: Word> Default for InboxOwner<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Word> Drop for InboxOwner<T> {
    fn drop(&mut self) {
        let head = Head {
            limbo: mem::take(&mut self.head.limbo),
            ..self.head
        };
        *self.core.left.lock() = Some(head);
    }
}

impl<T: Word> fmt::Debug for InboxOwner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxOwner")
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}

/// A pushing end of an inbox. It can be cloned and shared.
pub struct InboxSender<T: Word> {
    core: Arc<Core<T>>,
}

impl<T: Word> InboxSender<T> {
    /// Adds an element. Costs two compare-and-swaps. It allocates at most 1 KiB per 63 elements, and nothing
    /// while the owner keeps up.
    ///
    /// It waits for no thread, whatever the owner or other pushers do.
    pub fn push(&self, element: T) {
        self.core.push(element.into_word());
    }
}

impl<T: Word> Clone for InboxSender<T> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
        }
    }
}

impl<T: Word> fmt::Debug for InboxSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxSender").finish_non_exhaustive()
    }
}
