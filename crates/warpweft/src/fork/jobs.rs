//! The jobs of a scope, as the list of the stack that opened it sees them.
//!
//! # Invariants
//!
//! - `latent` and `claims` are touched by the owner's thread alone.
//! - `given` counts the jobs that other threads may have, plus one for the owner until it has run all its own
//!   jobs. The decrement that reaches zero sets `done`, and touches nothing of the scope afterwards.

use super::fork_claim::ForkClaim;
use super::record::ForkRecord;
use super::stealable::Stealable;
use crate::cancel_tree::node::Node;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::sync::Mutex;
use warpweft_task::Latch;

/// The payload of a job's panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// The first panic of a scope that has not been collected yet.
pub(crate) type FirstPanic = Mutex<Option<Panic>>;

/// Keeps a panic, or returns it if there is one already.
#[must_use = "a panic that has no place is reported"]
pub(crate) fn note(place: &FirstPanic, panic: Panic) -> Option<Panic> {
    let mut first = place.lock();
    if first.is_none() {
        *first = Some(panic);
        None
    } else {
        Some(panic)
    }
}

/// The jobs of an open scope, for the stack that opened it.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// The jobs that no other thread knows of, oldest first. They are younger than those with claims. Only
    /// the owner's thread touches this.
    pub(crate) latent: RefCell<VecDeque<NonNull<Stealable>>>,
    /// The claims of the jobs that are in a queue, oldest first. Only the owner's thread touches this.
    pub(crate) claims: RefCell<Vec<Arc<ForkClaim>>>,
    /// The youngest fork of the stack when the scope was opened: older than its jobs.
    pub(crate) found: *const ForkRecord,
    pub(crate) given: AtomicUsize,
    pub(crate) done: Latch,
    /// The first panic.
    pub(crate) panic: FirstPanic,
    /// The token under which the scope was opened, which its jobs have, too; null if there was none. A frame
    /// older than the scope keeps it.
    pub(crate) token: *const Node,
}

impl Jobs {
    pub(crate) fn found(&self) -> *const ForkRecord {
        self.found
    }

    pub(crate) fn give(&self) {
        // Ordering: Relaxed; the job becomes visible later, by an offer or a queue.
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if there is a job that no other thread knows of.
    pub(crate) fn has_latent(&self) -> bool {
        !self.latent.borrow().is_empty()
    }

    /// Hands the oldest latent job out.
    pub(crate) fn give_oldest(&self) -> Option<NonNull<Stealable>> {
        let job = self.latent.borrow_mut().pop_front()?;
        self.give();
        Some(job)
    }

    /// Makes a claim of each latent job, the oldest first, but of `most` at most.
    pub(crate) fn promote(&self, most: usize, push_job: &mut impl FnMut(Arc<ForkClaim>)) {
        for _ in 0..most {
            // The borrow ends here: a push calls the policy.
            let Some(job) = self.latent.borrow_mut().pop_front() else {
                return;
            };
            let claim = Arc::new(ForkClaim::new(job));
            self.give();
            self.claims.borrow_mut().push(Arc::clone(&claim));
            push_job(claim);
        }
    }

    /// Makes a claim of a job that was on offer and that no thief took. It was counted when it was offered.
    ///
    /// The owner keeps the claim, too: if a closing pool drops the job's task, the owner runs the job.
    pub(crate) fn claim_offered(&self, job: NonNull<Stealable>) -> Arc<ForkClaim> {
        let claim = Arc::new(ForkClaim::new(job));
        self.claims.borrow_mut().push(Arc::clone(&claim));
        claim
    }

    /// Counts the end of one job that was given away, or of the owner's own jobs. Returns true if it was the
    /// last.
    pub(crate) fn end_one(&self) -> bool {
        // Ordering: Release gives the job's writes to the owner; Acquire takes them there.
        self.given.fetch_sub(1, Ordering::AcqRel) == 1
    }

    #[must_use = "a panic that has no place is reported"]
    pub(crate) fn note(&self, panic: Panic) -> Option<Panic> {
        note(&self.panic, panic)
    }
}
