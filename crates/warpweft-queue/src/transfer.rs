//! A stealable queue whose owner's end passes between threads at run time.
//!
//! In proactive work stealing (K. Singer, Y. Xu and I-T. A. Lee, 2019) a deque outlives the worker that
//! filled it. It is suspended with its tasks, another thread that wakes one of them pushes it onto the
//! bottom, and a thief may take over the deque as a whole. Only one of them may use the owner's end at a
//! time.
//!
//! ```text
//!            try_claim: CAS, Acquire                      thief(): at any time,
//!   FREE ─────────────────────────────▶ CLAIMED           claimed or not
//!     ◀───────────────────────────────── │ ▲
//!            Claim dropped: store, Release  └─┘ push, pop, grow through the claim
//! ```
//!
//! # Invariants
//!
//! - There is at most one [`Claim`], and only it gives access to the owner's end.
//! - The Release of a claim and the Acquire of the next one hand over all private data of the owner's end.
//! - A claim is given back when it is dropped, in a panic too. One that is forgotten is never given back.
//!
//! *Liveness.* [`claim`](Transfer::claim) waits for the holder to drop its claim, and for nothing else. That
//! is short where claims are held for a push. It has no bound where the holder is preempted, or where a
//! worker keeps a claim as long as it works on the deque. Such users call [`try_claim`](Transfer::try_claim)
//! and push elsewhere if it fails. A thread that waits while it holds a claim of another deque can deadlock.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicU32, Ordering};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::sync::Arc;

use crate::backoff::Backoff;
use crate::{Owner, Word};

const FREE: u32 = 0;
const CLAIMED: u32 = 1;

/// A handle to a stealable queue without a fixed owner. It can be cloned and shared.
///
/// ```
/// use std::num::NonZeroUsize;
/// use warpweft_queue::{Fifo, Owner, Thief, Transfer};
///
/// let deque = Transfer::new(Fifo::with_capacity(8)?);
/// let n = NonZeroUsize::new(7).unwrap();
///
/// let mut claim = deque.try_claim().expect("no other thread has it");
/// assert_eq!(claim.push(n), Ok(()));
/// assert!(deque.try_claim().is_none());
/// drop(claim);
///
/// assert_eq!(deque.claim().pop(), Some(n));
/// # Ok::<(), warpweft_queue::CapacityError>(())
/// ```
pub struct Transfer<T: Word, O: Owner<T>> {
    shared: Arc<TransferShared<O, O::Thief>>,
}

struct TransferShared<O, H> {
    /// On its own line: threads whose attempts fail do not slow down the holder.
    state: CachePadded<AtomicU32>,
    owner: UnsafeCell<O>,
    thief: H,
}

// SAFETY: `owner` is reached through the one `Claim` only, and passing the claim on synchronises. So it is
// sent from thread to thread, never shared. `thief` is shared.
unsafe impl<O: Send, H: Send + Sync> Sync for TransferShared<O, H> {}

impl<T: Word, O: Owner<T>> Transfer<T, O> {
    /// Makes the owner's end of a queue claimable. It is free at first.
    #[must_use]
    pub fn new(owner: O) -> Self {
        let thief = owner.thief();
        let state = CachePadded::new(AtomicU32::new(FREE));
        Self {
            shared: Arc::new(TransferShared {
                state,
                owner: UnsafeCell::new(owner),
                thief,
            }),
        }
    }

    /// Claims the owner's end if it is free. Costs one compare-and-swap; one load if it is not free.
    pub fn try_claim(&self) -> Option<Claim<T, O, &Self>> {
        self.take().then(|| Claim::of(self))
    }

    /// Claims the owner's end for as long as the claim is kept, for a worker that makes the deque its own.
    /// The handle becomes the claim.
    ///
    /// # Errors
    ///
    /// The handle, if another thread has the owner's end.
    pub fn try_claim_owned(self) -> Result<Claim<T, O, Self>, Self> {
        if self.take() {
            Ok(Claim::of(self))
        } else {
            Err(self)
        }
    }

    /// Waits for the owner's end, spinning and then yielding the CPU. See the module for what it waits for.
    pub fn claim(&self) -> Claim<T, O, &Self> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(claim) = self.try_claim() {
                return claim;
            }
            backoff.wait();
        }
    }

    /// Returns the thieves' end, for which no claim is needed.
    #[must_use]
    pub fn thief(&self) -> &O::Thief {
        &self.shared.thief
    }

    fn take(&self) -> bool {
        let state = &self.shared.state;
        // Ordering: Relaxed; it only avoids the compare-and-swap. Acquire pairs with the Release of the claim
        // before.
        state.load(Ordering::Relaxed) == FREE
            && state
                .compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }
}

impl<T: Word, O: Owner<T>> Clone for Transfer<T, O> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Word, O: Owner<T>> fmt::Debug for Transfer<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ordering: Relaxed; a hint.
        let claimed = self.shared.state.load(Ordering::Relaxed) == CLAIMED;
        f.debug_struct("Transfer")
            .field("claimed", &claimed)
            .finish_non_exhaustive()
    }
}

/// The owner's end of a [`Transfer`], until it is dropped.
///
/// `H` is the handle, borrowed or owned. A claim may go to another thread, but threads cannot share it:
///
/// ```compile_fail,E0277
/// use std::num::NonZeroUsize;
/// use warpweft_queue::{Claim, Fifo, Transfer};
/// fn shared<S: Sync>() {}
/// shared::<Claim<NonZeroUsize, Fifo<NonZeroUsize>>>();
/// ```
///
/// It cannot be cloned:
///
/// ```compile_fail,E0277
/// use std::num::NonZeroUsize;
/// use warpweft_queue::{Claim, Fifo, Transfer};
/// fn cloned<C: Clone>() {}
/// cloned::<Claim<NonZeroUsize, Fifo<NonZeroUsize>>>();
/// ```
///
/// It gives access only while it exists:
///
/// ```compile_fail,E0505
/// use std::num::NonZeroUsize;
/// use warpweft_queue::{Fifo, Owner, Transfer};
/// let deque = Transfer::<NonZeroUsize, Fifo<_>>::new(Fifo::with_capacity(8).unwrap());
/// let mut claim = deque.claim();
/// let owner = &mut *claim;
/// drop(claim);
/// owner.pop();
/// ```
#[must_use = "dropping the claim gives the owner's end back at once"]
pub struct Claim<T: Word, O: Owner<T>, H: Borrow<Transfer<T, O>> = Transfer<T, O>> {
    handle: H,
    /// As `Send` and as little `Sync` as the owner's end.
    _owner: PhantomData<O>,
    _elements: PhantomData<fn(T) -> T>,
}

impl<T: Word, O: Owner<T>, H: Borrow<Transfer<T, O>>> Claim<T, O, H> {
    /// Called by the thread that has just turned FREE into CLAIMED.
    fn of(handle: H) -> Self {
        Self {
            handle,
            _owner: PhantomData,
            _elements: PhantomData,
        }
    }
}

impl<T: Word, O: Owner<T>> Claim<T, O> {
    /// Gives the owner's end back and keeps the handle.
    pub fn release(self) -> Transfer<T, O> {
        // The claim is dropped at the end.
        self.handle.clone()
    }
}

impl<T: Word, O: Owner<T>, H: Borrow<Transfer<T, O>>> Deref for Claim<T, O, H> {
    type Target = O;

    fn deref(&self) -> &O {
        self.handle.borrow().shared.owner.with(|owner| {
            // SAFETY: we are the one claim, so the owner's end is ours, and borrowed from us for as long as
            // `self`.
            unsafe { &*owner }
        })
    }
}

impl<T: Word, O: Owner<T>, H: Borrow<Transfer<T, O>>> DerefMut for Claim<T, O, H> {
    fn deref_mut(&mut self) -> &mut O {
        self.handle.borrow().shared.owner.with_mut(|owner| {
            // SAFETY: as in `deref`; `&mut self` makes the access the only one.
            unsafe { &mut *owner }
        })
    }
}

impl<T: Word, O: Owner<T>, H: Borrow<Transfer<T, O>>> Drop for Claim<T, O, H> {
    fn drop(&mut self) {
        // Ordering: Release pairs with the Acquire of the next claim.
        self.handle.borrow().shared.state.store(FREE, Ordering::Release);
    }
}

impl<T: Word, O: Owner<T>, H: Borrow<Transfer<T, O>>> fmt::Debug for Claim<T, O, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
