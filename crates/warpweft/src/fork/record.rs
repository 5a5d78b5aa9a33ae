//! A latent fork: the second half of a join, in the frame that runs the first half.
//!
//! # Invariants
//!
//! - A record stays where it is, and valid, until its owner has it back or its thief has set `done`.
//! - `next` and `claim` are the owner's; whether a record is latent, its list knows. `told` is written before the record becomes visible to anybody else.
//! - Publish last: after `done` the thief touches nothing of the frame.

use super::fork_claim::ForkClaim;
use super::join::ForkCx;
use super::stealable_job::{By, StealableJob};
use crate::runtime::{stack_context, wait};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::Signal;

/// What a half came to: its value, or what it panicked with.
pub(super) type Outcome<R> = Result<R, Box<dyn Any + Send>>;

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
    done: Signal,
    /// The owner's share of its claim.
    claim: Cell<Option<Arc<ForkClaim>>>,
}

impl Record {
    #[inline]
    fn new(run: unsafe fn(NonNull<StealableJob>, By)) -> Self {
        Self {
            head: StealableJob { run },
            next: UnsafeCell::new(MaybeUninit::uninit()),
            told: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    #[inline]
    pub(super) fn set_next(&self, next: NonNull<Self>) {
        // SAFETY: the list is its thread's alone, and no reference to the field is ever kept.
        unsafe { self.next.get().write(MaybeUninit::new(next)) };
    }

    /// # Safety
    ///
    /// It is not the youngest: `set_next` was called.
    pub(super) unsafe fn next(&self) -> NonNull<Self> {
        // SAFETY: by contract.
        unsafe { self.next.get().cast::<NonNull<Self>>().read() }
    }

    /// The foot of a list; it is never offered.
    pub(super) fn foot() -> Self {
        unsafe fn nothing(_: NonNull<StealableJob>, _: By) {}
        Self::new(nothing)
    }

    /// It is latent no more.
    #[inline]
    pub(super) fn tell(&self) {
        let told = Told {
            done: Signal::new(),
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
    pub(super) unsafe fn done(&self) -> &Signal {
        // SAFETY: by contract.
        &unsafe { self.told() }.done
    }

    /// Makes a claim that others may use.
    ///
    /// # Safety
    ///
    /// It is latent no more, and its owner's alone.
    pub(super) unsafe fn claimable(this: NonNull<Self>) -> Arc<ForkClaim> {
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
    pub(super) unsafe fn take_claim(&self) -> Option<Arc<ForkClaim>> {
        // SAFETY: by contract.
        unsafe { self.told() }.claim.take()
    }
}

/// A fork of one kind. `repr(C)`: a pointer to the record is a pointer to the fork.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Fork<B, R> {
    pub(super) record: Record,
    body: UnsafeCell<ManuallyDrop<B>>,
    result: UnsafeCell<MaybeUninit<Outcome<R>>>,
}

impl<R: Send, B: FnOnce(ForkCx<'_>) -> R + Send> Fork<B, R> {
    #[inline]
    pub(super) fn new(body: B) -> Self {
        Self {
            record: Record::new(Self::run),
            body: UnsafeCell::new(ManuallyDrop::new(body)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// A pointer that is good for the whole fork.
    #[inline]
    pub(super) fn as_record(&self) -> NonNull<Record> {
        NonNull::from(self).cast()
    }

    /// # Safety
    ///
    /// As for [`StealableJob::run`], by a taker; the record is the head of a fork of this kind.
    unsafe fn run(record: NonNull<StealableJob>, _by: By) {
        // SAFETY: by contract the fork is alive until `done` is set below.
        let fork = unsafe { record.cast::<Self>().as_ref() };
        // SAFETY: by contract the body was taken by this call alone.
        let body = unsafe { fork.take() };
        // Unwind: it goes on in the owner's frame.
        let outcome = catch_unwind(AssertUnwindSafe(|| stack_context::with_forks(body)));
        // SAFETY: the result is the thief's to write until `done`.
        unsafe { (*fork.result.get()).write(outcome) };
        // SAFETY: it was taken.
        let waiter = unsafe { fork.record.done() }.set_and_take();
        // The frame may be gone. Its thread goes on with this worker, at once.
        waiter.into_iter().for_each(wait::resume);
    }

    /// Moves the body out.
    ///
    /// # Safety
    ///
    /// The caller has the fork, as its owner or its thief, and nobody has moved the body out before.
    #[inline]
    pub(super) unsafe fn take(&self) -> B {
        // SAFETY: by contract.
        unsafe { self.body.get().cast::<B>().read() }
    }

    /// Moves the result out.
    ///
    /// # Safety
    ///
    /// A thief has set `done`, and nobody has moved the result out before.
    pub(super) unsafe fn result(&self) -> Outcome<R> {
        // SAFETY: the thief wrote it before `done`.
        unsafe { self.result.get().cast::<Outcome<R>>().read() }
    }
}
