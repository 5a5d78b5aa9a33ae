//! The jobs of a scope, as the list of the stack that opened it sees them.
//!
//! # Invariants
//!
//! - `latent` and `tickets` are touched by the owner's thread alone.
//! - `given` counts the jobs that others may have, and one for the owner until it has run all of its own. The
//!   one that brings it to zero sets `done`, and touches nothing of the scope afterwards.

use super::fork_claim::ForkClaim;
use super::record::Record;
use super::stealable_job::StealableJob;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::Mutex;
use warpweft_task::Latch;

/// What a job panicked with.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Where a scope keeps the first panic that nobody has asked for.
pub(crate) type FirstPanic = Mutex<Option<Panic>>;

/// Notes a panic, unless there was one before.
pub(crate) fn note(place: &FirstPanic, panic: Panic) {
    let second = {
        let mut first = place.lock();
        if first.is_none() {
            *first = Some(panic);
            None
        } else {
            Some(panic)
        }
    };
    // Unwind: what a panic was thrown with may panic in its own `Drop`.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(second)));
}

/// What a scope has to do, for the stack that opened it.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// Those that nobody was told of, oldest first; younger than those with tickets. Touched by the owner's
    /// thread alone.
    pub(crate) latent: RefCell<VecDeque<NonNull<StealableJob>>>,
    /// Those whose ticket is in a queue, oldest first. Touched by the owner's thread alone.
    pub(crate) tickets: RefCell<Vec<Arc<ForkClaim>>>,
    /// The youngest fork of the stack when the scope was opened: older than its jobs.
    pub(crate) found: *const Record,
    pub(crate) given: AtomicUsize,
    pub(crate) done: Latch,
    /// The first panic.
    pub(crate) panic: FirstPanic,
}

impl Jobs {
    pub(crate) fn found(&self) -> *const Record {
        self.found
    }

    pub(crate) fn give(&self) {
        // Ordering: Relaxed; the job becomes visible later, by an offer or a queue.
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives the oldest latent job away.
    pub(crate) fn give_oldest(&self) -> Option<NonNull<StealableJob>> {
        let job = self.latent.borrow_mut().pop_front()?;
        self.give();
        Some(job)
    }

    /// Makes a claim of each latent job.
    pub(crate) fn promote(&self, ticket: &mut impl FnMut(Arc<ForkClaim>)) {
        for job in self.latent.take() {
            let claim = Arc::new(ForkClaim::new(job));
            self.give();
            self.tickets.borrow_mut().push(Arc::clone(&claim));
            ticket(claim);
        }
    }

    /// Makes a claim of a job that was on offer and that nobody has taken. It was counted when it was
    /// offered.
    ///
    /// The owner keeps the claim, too: a pool that closes drops the ticket, and then the owner runs the job.
    pub(crate) fn claim_offered(&self, job: NonNull<StealableJob>) -> Arc<ForkClaim> {
        let claim = Arc::new(ForkClaim::new(job));
        self.tickets.borrow_mut().push(Arc::clone(&claim));
        claim
    }

    /// One of those that were given away has ended, or the owner is through with its own.
    pub(crate) fn end_one(&self) -> bool {
        // Ordering: Release gives what the job did to the owner; Acquire takes it there.
        self.given.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn note(&self, panic: Panic) {
        note(&self.panic, panic);
    }
}
