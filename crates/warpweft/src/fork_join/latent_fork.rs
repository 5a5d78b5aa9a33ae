//! A latent fork: the second half of a join, in the frame that runs the first half.
//!
//! # Invariants
//!
//! - A fork stays where it is, and valid, until its owner has it back or its thief has set `done`.
//! - Publish last: after `done` the thief touches nothing of the frame.

use crate::execution::current_task::as_part_of;
use crate::execution::fork_cx::{ForkCx, with_forks};
use crate::execution::run_part::resume_after;
use crate::execution::token::{drop_unstarted, never_starts, with_raw_token};
use crate::fork::record::ForkRecord;
use crate::fork::stealable::{By, Stealable};
use crate::observe::spans::SpawnSpan;
use crate::pool::panics::Outcome;
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A fork of one kind. `repr(C)`: a pointer to the record is a pointer to the fork.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LatentFork<B, R> {
    pub(crate) record: ForkRecord,
    body: UnsafeCell<ManuallyDrop<B>>,
    /// In which a thief runs it. The owner is there.
    span: SpawnSpan,
    result: UnsafeCell<MaybeUninit<Outcome<R>>>,
}

impl<R: Send, B: FnOnce(ForkCx<'_>) -> R + Send> LatentFork<B, R> {
    #[inline]
    pub(crate) fn new(body: B) -> Self {
        Self {
            record: ForkRecord::new(Self::run),
            body: UnsafeCell::new(ManuallyDrop::new(body)),
            span: SpawnSpan::current(),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Returns a pointer that is valid for the whole fork.
    #[inline]
    pub(crate) fn as_record(&self) -> NonNull<ForkRecord> {
        NonNull::from(self).cast()
    }

    /// # Safety
    ///
    /// The contract of [`Stealable::run`] holds, the caller has taken the fork, and the record is the head
    /// of a fork of this type.
    unsafe fn run(record: NonNull<Stealable>, _by: By) {
        // SAFETY: by contract the fork is alive until `done` is set below.
        let fork = unsafe { record.cast::<Self>().as_ref() };
        // SAFETY: by contract the body was taken by this call alone.
        let body = unsafe { fork.take() };
        // Unwind: the panic continues in the owner's frame.
        // SAFETY: the fork was taken by the thread that runs this.
        let done = unsafe { fork.record.done() };
        // SAFETY: as above.
        let token = unsafe { fork.record.token() };
        // SAFETY: an older frame of the owner, which waits for the fork, keeps the token.
        let outcome = if unsafe { never_starts(token) } {
            drop_unstarted(body)
        } else {
            let body = || fork.span.run(|| with_forks(body));
            // SAFETY: as above.
            let body = || unsafe { with_raw_token(token, body) };
            as_part_of(done, || catch_unwind(AssertUnwindSafe(body)))
        };
        // SAFETY: only the thief writes the result until `done` is set.
        unsafe { (*fork.result.get()).write(outcome) };
        // SAFETY: the fork was taken by the thief that runs this.
        let waiter = unsafe { fork.record.done() }.set_and_take();
        // The frame may be gone from here on. Its thread continues with this worker at once.
        waiter
            .into_iter()
            .for_each(|waiter| resume_after(record.as_ptr(), waiter));
    }

    /// Moves the body out.
    ///
    /// # Safety
    ///
    /// The caller has the fork, as its owner or its thief, and the body was not moved out before.
    #[inline]
    pub(crate) unsafe fn take(&self) -> B {
        // SAFETY: by contract no other thread has the fork, and the body is still there.
        unsafe { self.body.get().cast::<B>().read() }
    }

    /// Moves the result out.
    ///
    /// # Safety
    ///
    /// A thief has set `done`, and the result was not moved out before.
    pub(crate) unsafe fn result(&self) -> Outcome<R> {
        // SAFETY: the thief wrote it before `done`.
        unsafe { self.result.get().cast::<Outcome<R>>().read() }
    }
}
