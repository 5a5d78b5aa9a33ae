//! A transfer: a running task continues in another pool.
//!
//! ```text
//!   Enter::poll                     worker, after the step                           the other pool
//!   ───────────                     ──────────────────────                           ──────────────
//!   request := (task, destination)  removed from the owned tasks; its place goes back
//!   wakes its own task: NOTIFIED    `completed`: for this policy the task has ended
//!   Pending ──────────────────────▶ pool pointer := the other; policy word := 0
//!                                   entered there, if it has a place there
//!                                   RUNNING → QUEUED, pushed: `Why::Injected` ─▶ injector ─▶ a worker
//! ```
//!
//! # Invariants
//!
//! - From the request to the push the task is RUNNING: a waker leaves NOTIFIED behind and reads no pool
//!   pointer. The task is NOTIFIED already, so it cannot fall asleep on the way.
//! - The task is among the owned tasks of at most one pool, the one to which its pointer leads. A task that
//!   has not slept in the new pool is in none, like a fresh one, unless it has a place to give back.
//! - The `Destination` keeps the pool until the runnable was pushed.
//! - A place always has one owner: the `Destination` until the task is entered, then the entry.
//! - A request is granted to the task that made it, at the end of the same step. A task that gives its worker
//!   away in the middle of the step loses the request, and repeats it.

use super::dyn_pool::DynPool;
use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Pending, Runnable, TaskId};

/// The right of one task to go to a pool; if that pool is bounded, with a place there.
pub(crate) struct Destination {
    pool: Arc<dyn DynPool>,
    place: bool,
}

impl Destination {
    /// Creates a destination. With `place`, the caller has a place, which passes to the destination.
    pub(crate) fn new(pool: Arc<dyn DynPool>, place: bool) -> Self {
        Self { pool, place }
    }

    pub(crate) fn header(&self) -> NonNull<PoolHeader> {
        self.pool.header()
    }

    /// Moves the task, and the destination's place, into the pool. The place is given back when the task
    /// leaves or ends. The pool lives while the returned share does.
    pub(crate) fn settle(mut self, task: &mut Pending) -> Arc<dyn DynPool> {
        if std::mem::take(&mut self.place) {
            self.pool.core().admit(task);
        }
        Arc::clone(&self.pool)
    }

    /// Does the same for a task of that pool that no other code knows of yet.
    ///
    /// # Safety
    ///
    /// The task has never run.
    pub(crate) unsafe fn settle_fresh(self, task: Runnable) -> Runnable {
        // SAFETY: by contract.
        let mut task = unsafe { Pending::fresh(task) };
        self.settle(&mut task);
        task.into_task()
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if self.place {
            self.pool.core().info.give_back();
        }
    }
}

/// A task and its destination.
pub(crate) struct Transfer {
    task: TaskId,
    destination: Destination,
}

impl Transfer {
    pub(crate) fn new(task: TaskId, destination: Destination) -> Self {
        Self { task, destination }
    }

    pub(crate) fn is_of(&self, task: &Pending) -> bool {
        self.task == task.id()
    }

    pub(crate) fn into_destination(self) -> Destination {
        self.destination
    }
}

/// The request of a worker's running task to continue in another pool.
#[derive(Default)]
pub(crate) struct TransferRequest(Cell<Option<Transfer>>);

impl fmt::Debug for TransferRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TransferRequest")
    }
}

impl TransferRequest {
    pub(crate) const fn none() -> Self {
        Self(Cell::new(None))
    }

    pub(crate) fn set(&self, transfer: Transfer) {
        self.0.set(Some(transfer));
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<Transfer> {
        self.0.take()
    }

    pub(crate) fn withdraw(&self, task: TaskId) {
        let others = self.take().filter(|transfer| transfer.task != task);
        self.0.set(others);
    }
}
