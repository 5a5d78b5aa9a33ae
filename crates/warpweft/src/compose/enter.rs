//! The future by which a task moves to another pool.

use crate::execution::stack_context::{self, StackContext};
use crate::pool::transfer_request::{Destination, Transfer};
use crate::runtime::pool::Pool;
use crate::runtime::pool_error::EnterError;
use crate::sync::Claiming;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use warpweft_task::{TaskId, task_of};

impl Pool {
    /// Moves the task that awaits this to this pool, where it continues on one of its workers, behind earlier
    /// tasks from outside. It returns at once if the task is there already.
    ///
    /// If the pool is [bounded](crate::Builder::capacity), the task first waits for a permit, in order of
    /// arrival, and keeps its permit of the other pool meanwhile. If this is dropped before it is ready, the
    /// task stays where it is, unless it has moved since the last poll: [`is_here`](Pool::is_here) says so.
    ///
    /// For the policy of the pool that it leaves, the task has ended. What that policy had noted about it,
    /// such as a [priority](crate::Priority), is lost. Costs a push from outside.
    ///
    /// # Errors
    ///
    /// [`EnterError`], and the task continues where it is:
    ///
    /// - the pool is shutting down;
    /// - waiting for a permit there could last for ever;
    /// - no task of a pool awaits this.
    ///
    /// A task that waits for a permit when the pool closes gets the error. A task that arrives just then,
    /// with a permit or without need of one, ends with the pool as its own tasks do:
    /// [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    ///
    /// ```
    /// use warpweft::{Pool, Runtime};
    /// let second = Runtime::builder().workers(1);
    /// let runtime = Runtime::builder().name("parse").workers(1).then("index", second).build()?;
    /// let index = runtime.pool("index")?.clone();
    /// let task = runtime.spawn(async move {
    ///     let parse = Pool::current().expect("a task has a pool");
    ///     index.enter().await?;
    ///     let there = Pool::current().map(|pool| pool.name().to_owned());
    ///     parse.enter().await?;
    ///     Ok::<_, warpweft::EnterError>(there)
    /// });
    /// assert_eq!(task.wait()??.as_deref(), Some("index"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter(&self) -> Enter<'_> {
        Enter::new(self, true)
    }

    /// As [`enter`](Pool::enter), but fails instead of waiting for a permit.
    ///
    /// # Errors
    ///
    /// As `enter`, and [`EnterError::Full`] if there is no permit. Never [`EnterError::OutOfOrder`], since it
    /// does not wait.
    pub fn try_enter(&self) -> Enter<'_> {
        Enter::new(self, false)
    }
}

/// The future of [`Pool::enter`] and [`Pool::try_enter`].
#[must_use = "a task goes nowhere unless it awaits this"]
pub struct Enter<'a> {
    pool: &'a Pool,
    may_wait: bool,
    /// It waits for a permit.
    claim: Option<Claiming<'a>>,
    /// It has left a transfer request for this task with a worker.
    wished: Option<TaskId>,
}

impl<'a> Enter<'a> {
    pub(crate) fn new(pool: &'a Pool, may_wait: bool) -> Self {
        Self {
            pool,
            may_wait,
            claim: None,
            wished: None,
        }
    }

    /// Takes what the task needs to enter.
    fn poll_permit(&mut self, cx: &mut Context<'_>) -> Poll<Result<Destination, EnterError>> {
        let pool = self.pool;
        pool.check().map_err(EnterError::of)?;
        let claim = match &mut self.claim {
            Some(claim) => claim,
            None if self.may_wait => match pool.claim()? {
                Some(claim) => self.claim.insert(claim),
                None => return Poll::Ready(Ok(Destination::new(Arc::clone(pool.any()), false))),
            },
            None => return Poll::Ready(Ok(pool.try_permit().map_err(EnterError::of)?)),
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
        let destination = ready!(self.poll_permit(cx))?;
        let Some(worker_ref) = stack_context::here().and_then(StackContext::worker_ref) else {
            return Poll::Ready(Err(EnterError::NotATask));
        };
        worker_ref.transfer_request.set(Transfer::new(task, destination));
        self.wished = Some(task);
        // The task goes back to a queue at the end of this step: to the other pool's, or, if the transfer
        // request was lost meanwhile, to be polled again.
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
