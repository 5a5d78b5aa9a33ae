//! The record of a latent fork: its link in the list of its stack, and the latch that reports its end. It
//! does not depend on the closure's type.
//!
//! # Invariants
//!
//! - A record stays where it is, and valid, until its owner has it back or its thief has set `done`.
//! - `next` and `claim` belong to the owner. The list knows which records are latent. `shared` is written
//!   before the record becomes visible to another thread.
//! - Publish last: after `done` the thief touches nothing of the frame.

use super::fork_claim::ForkClaim;
use super::stealable::{By, Stealable};
use crate::cancel_tree::node::Node;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::Latch;

/// The part of a fork that does not depend on its closure.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ForkRecord {
    head: Stealable,
    /// The next younger record; written when there is one.
    next: UnsafeCell<MaybeUninit<NonNull<ForkRecord>>>,
    /// Written when other threads learn of the fork. A join that stays latent does not pay for it.
    shared: UnsafeCell<MaybeUninit<ForkShared>>,
}

/// What a fork needs once other threads can see it.
struct ForkShared {
    /// Set when the thread that took the fork is done with it.
    done: Latch,
    /// The owner's share of its claim.
    claim: Cell<Option<Arc<ForkClaim>>>,
    /// The token under which it was made; null if there was none.
    token: *const Node,
}

impl ForkRecord {
    /// The thread that has the fork calls `run`: see [`Stealable`].
    #[inline]
    pub(crate) fn new(run: unsafe fn(NonNull<Stealable>, By)) -> Self {
        Self {
            head: Stealable { run },
            next: UnsafeCell::new(MaybeUninit::uninit()),
            shared: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    #[inline]
    pub(crate) fn set_next(&self, next: NonNull<Self>) {
        // SAFETY: the list is its thread's alone, and no reference to the field is ever kept.
        unsafe { self.next.get().write(MaybeUninit::new(next)) };
    }

    /// # Safety
    ///
    /// The record is not the youngest: `set_next` was called.
    pub(crate) unsafe fn next(&self) -> NonNull<Self> {
        // SAFETY: by contract.
        unsafe { self.next.get().cast::<NonNull<Self>>().read() }
    }

    /// Creates the foot of a list. It is never offered.
    pub(crate) fn foot() -> Self {
        unsafe fn nothing(_: NonNull<Stealable>, _: By) {}
        Self::new(nothing)
    }

    /// Makes the record ready to be seen by other threads. It is not latent any more. `token` is the one
    /// under which it was made, or null.
    #[inline]
    pub(crate) fn share(&self, token: *const Node) {
        let shared = ForkShared {
            done: Latch::new(),
            claim: Cell::new(None),
            token,
        };
        // SAFETY: a latent record belongs to its owner alone.
        unsafe { self.shared.get().cast::<ForkShared>().write(shared) };
    }

    /// # Safety
    ///
    /// `share` was called.
    unsafe fn shared(&self) -> &ForkShared {
        // SAFETY: `share` has written it, and afterwards it is only reached by `&`.
        unsafe { &*self.shared.get().cast::<ForkShared>() }
    }

    /// Returns the latch that is set when the thread that took the fork is done with it.
    ///
    /// # Safety
    ///
    /// The record is not latent any more.
    pub(crate) unsafe fn done(&self) -> &Latch {
        // SAFETY: by contract.
        &unsafe { self.shared() }.done
    }

    /// Returns the token under which the fork was made; null if there was none. A frame of its owner, older
    /// than the fork, keeps it.
    ///
    /// # Safety
    ///
    /// The record is not latent any more.
    pub(crate) unsafe fn token(&self) -> *const Node {
        // SAFETY: by contract.
        unsafe { self.shared() }.token
    }

    /// Makes a claim that other threads may use.
    ///
    /// # Safety
    ///
    /// The record is not latent any more, and belongs to its owner alone.
    pub(crate) unsafe fn claimable(this: NonNull<Self>) -> Arc<ForkClaim> {
        let claim = Arc::new(ForkClaim::new(this.cast()));
        // SAFETY: by the module's first invariant the record is valid.
        let record = unsafe { this.as_ref() };
        // SAFETY: by contract.
        unsafe { record.shared() }.claim.set(Some(Arc::clone(&claim)));
        claim
    }

    /// Takes the owner's share of the claim.
    ///
    /// # Safety
    ///
    /// The record is not latent any more.
    pub(crate) unsafe fn take_claim(&self) -> Option<Arc<ForkClaim>> {
        // SAFETY: by contract.
        unsafe { self.shared() }.claim.take()
    }
}
