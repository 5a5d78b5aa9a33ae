//! The record of a latent fork, whatever its closure is: its place in the list of its stack, and what tells
//! that it is done.
//!
//! # Invariants
//!
//! - A record stays where it is, and valid, until its owner has it back or its thief has set `done`.
//! - `next` and `claim` are the owner's; whether a record is latent, its list knows. `told` is written before
//!   the record becomes visible to anybody else.
//! - Publish last: after `done` the thief touches nothing of the frame.

use super::fork_claim::ForkClaim;
use super::stealable_job::{By, StealableJob};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::Latch;

/// What is the same for all forks.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Record {
    head: StealableJob,
    /// The next younger one; written when there is one.
    next: UnsafeCell<MaybeUninit<NonNull<Record>>>,
    /// Written when others are told. A join that nobody hears of does not pay for it.
    told: UnsafeCell<MaybeUninit<Told>>,
}

/// What a fork needs when its owner is not alone with it.
struct Told {
    /// Set when whoever took it is done with it.
    done: Latch,
    /// The owner's share of its claim.
    claim: Cell<Option<Arc<ForkClaim>>>,
}

impl Record {
    /// `run` is called by who has it: see [`StealableJob`].
    #[inline]
    pub(crate) fn new(run: unsafe fn(NonNull<StealableJob>, By)) -> Self {
        Self {
            head: StealableJob { run },
            next: UnsafeCell::new(MaybeUninit::uninit()),
            told: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    #[inline]
    pub(crate) fn set_next(&self, next: NonNull<Self>) {
        // SAFETY: the list is its thread's alone, and no reference to the field is ever kept.
        unsafe { self.next.get().write(MaybeUninit::new(next)) };
    }

    /// # Safety
    ///
    /// It is not the youngest: `set_next` was called.
    pub(crate) unsafe fn next(&self) -> NonNull<Self> {
        // SAFETY: by contract.
        unsafe { self.next.get().cast::<NonNull<Self>>().read() }
    }

    /// The foot of a list; it is never offered.
    pub(crate) fn foot() -> Self {
        unsafe fn nothing(_: NonNull<StealableJob>, _: By) {}
        Self::new(nothing)
    }

    /// It is latent no more.
    #[inline]
    pub(crate) fn tell(&self) {
        let told = Told {
            done: Latch::new(),
            claim: Cell::new(None),
        };
        // SAFETY: a latent record is its owner's alone.
        unsafe { self.told.get().cast::<Told>().write(told) };
    }

    /// # Safety
    ///
    /// `tell` was called.
    unsafe fn told(&self) -> &Told {
        // SAFETY: written by `tell`, and afterwards only reached by `&`.
        unsafe { &*self.told.get().cast::<Told>() }
    }

    /// Set when whoever took it is done with it.
    ///
    /// # Safety
    ///
    /// It is latent no more.
    pub(crate) unsafe fn done(&self) -> &Latch {
        // SAFETY: by contract.
        &unsafe { self.told() }.done
    }

    /// Makes a claim that others may use.
    ///
    /// # Safety
    ///
    /// It is latent no more, and its owner's alone.
    pub(crate) unsafe fn claimable(this: NonNull<Self>) -> Arc<ForkClaim> {
        let claim = Arc::new(ForkClaim::new(this.cast()));
        // SAFETY: by the module's first invariant the record is valid.
        let record = unsafe { this.as_ref() };
        // SAFETY: by contract.
        unsafe { record.told() }.claim.set(Some(Arc::clone(&claim)));
        claim
    }

    /// The owner's share of the claim.
    ///
    /// # Safety
    ///
    /// It is latent no more.
    pub(crate) unsafe fn take_claim(&self) -> Option<Arc<ForkClaim>> {
        // SAFETY: by contract.
        unsafe { self.told() }.claim.take()
    }
}
