//! The future of a task that goes on in another pool.

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
    /// The task that awaits this goes on in this pool: behind what came to it from outside before, on one of
    /// its workers. At once if it is there already.
    ///
    /// If the pool is [bounded](crate::Builder::capacity), it waits for a place first, in the order of those
    /// who ask, and keeps the place that it has where it is meanwhile. Dropped before it is ready, it stays
    /// where it is.
    ///
    /// For the policy of the pool that it leaves the task has ended; what that policy had noted of it, such
    /// as a [priority](crate::Priority), does not come along. Costs a push from outside.
    ///
    /// # Errors
    ///
    /// [`EnterError`], and the task goes on where it is: the pool is shutting down; waiting for a place there
    /// could go on for ever; or it is not a task that awaits this. Who waits for a place when the pool closes
    /// hears of it; a task that needs none, or has got one, and comes just then ends with the pool, as one of
    /// its own: [`JoinError::Shutdown`](crate::JoinError::Shutdown).
    ///
    /// ```
    /// use warpweft::{Pool, Runtime};
    /// let runtime = Runtime::builder().name("parse").workers(1).then("index", Runtime::builder().workers(1)).build()?;
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

    /// As [`enter`](Pool::enter), but without waiting for a place.
    ///
    /// # Errors
    ///
    /// As `enter`, and [`EnterError::Full`]: there is no place. Never [`EnterError::OutOfOrder`], since it
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
    /// It waits for a place.
    claim: Option<Claiming<'a>>,
    /// It has said to a worker that this task wants to go.
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
        // It goes back to a queue at the end of this step: to the other pool's, or, if the wish was lost
        // meanwhile, to be asked again.
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
