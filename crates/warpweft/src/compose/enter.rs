//! The future of a task that goes on in another pool.

use super::error::EnterError;
use super::pool::Pool;
use super::transfer::{Destination, Transfer};
use crate::runtime::stack_context::{self, StackContext};
use crate::sync::Claiming;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use warpweft_task::{TaskId, task_of};

/// The future of [`Pool::enter`] and [`Pool::try_enter`].
#[must_use = "a task goes nowhere unless it awaits this"]
pub struct Enter<'a> {
    pool: &'a Pool,
    may_wait: bool,
    /// It waits for a place.
    claim: Option<Claiming<'a>>,
    /// It has said to a worker that this task wants to go.
    wished: Option<TaskId>,
}

impl<'a> Enter<'a> {
    pub(super) fn new(pool: &'a Pool, may_wait: bool) -> Self {
        Self {
            pool,
            may_wait,
            claim: None,
            wished: None,
        }
    }

    /// What the task needs to get in.
    fn poll_ticket(&mut self, cx: &mut Context<'_>) -> Poll<Result<Destination, EnterError>> {
        let pool = self.pool;
        pool.check().map_err(EnterError::of)?;
        let claim = match &mut self.claim {
            Some(claim) => claim,
            None if self.may_wait => match pool.claim()? {
                Some(claim) => self.claim.insert(claim),
                None => return Poll::Ready(Ok(Destination::new(Arc::clone(pool.any()), false))),
            },
            None => return Poll::Ready(Ok(pool.try_ticket().map_err(EnterError::of)?)),
        };
        let permit = ready!(Pin::new(claim).poll(cx));
        self.claim = None;
        let permit = permit.map_err(|_| EnterError::Closed)?;
        permit.forget();
        Poll::Ready(Ok(Destination::new(Arc::clone(pool.any()), true)))
    }
}

impl Future for Enter<'_> {
    type Output = Result<(), EnterError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.pool.is_here() {
            self.wished = None;
            return Poll::Ready(Ok(()));
        }
        let task = task_of(cx.waker()).ok_or(EnterError::NotATask)?;
        let destination = ready!(self.poll_ticket(cx))?;
        let Some(worker_ref) = stack_context::here().and_then(StackContext::worker_ref) else {
            return Poll::Ready(Err(EnterError::NotATask));
        };
        worker_ref.transfer_request.set(Transfer::new(task, destination));
        self.wished = Some(task);
        // It goes back to a queue at the end of this step: to the other pool's, or, if the wish was lost meanwhile, to be asked again.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Enter<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.wished
            && let Some(worker_ref) = stack_context::here().and_then(StackContext::worker_ref)
        {
            worker_ref.transfer_request.withdraw(task);
        }
    }
}

impl fmt::Debug for Enter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enter")
            .field("pool", &self.pool.name())
            .field("may_wait", &self.may_wait)
            .field("wished", &self.wished.is_some())
            .finish_non_exhaustive()
    }
}
