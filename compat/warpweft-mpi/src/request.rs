//! A message or a collective on its way, as a future and in direct style.

use crate::error::MpiError;
use crate::op::{Completed, Op};
use crate::progress::MpiProgress;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A message or a collective on its way: a future of its result.
///
/// It has begun when this is made, and does not need to be polled to go on. Dropping it never waits: a
/// receive is cancelled, and a send continues. A message that comes before the cancellation is lost with the
/// receive; what this rank posts later is not affected. Its buffer is freed when MPI is through with it.
#[must_use = "its result says whether the message came"]
pub struct Request<T> {
    progress: Arc<MpiProgress>,
    /// `None` once it has given its result, or the error with which it began.
    op: Result<Option<Arc<Op>>, MpiError>,
    convert: fn(Completed) -> Result<T, MpiError>,
    polled: bool,
}

impl<T> Request<T> {
    pub(crate) fn new(
        progress: &Arc<MpiProgress>,
        op: Result<Arc<Op>, MpiError>,
        convert: fn(Completed) -> Result<T, MpiError>,
    ) -> Self {
        Self {
            progress: Arc::clone(progress),
            op: op.map(Some),
            convert,
            polled: false,
        }
    }

    /// Waits in direct style: a fiber is suspended, and any other thread releases its worker.
    ///
    /// # Errors
    ///
    /// [`MpiError`], as the future.
    pub fn wait(self) -> Result<T, MpiError> {
        warpweft::block_on(self)
    }

    /// Returns true if the result is there.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.op {
            Ok(Some(op)) => op.is_over(),
            _ => true,
        }
    }
}

impl<T> Future for Request<T> {
    type Output = Result<T, MpiError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let op = match &this.op {
            Ok(Some(op)) => op,
            Ok(None) => panic!("a request was polled after it gave its result"),
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        if !this.polled && !op.is_over() {
            this.polled = true;
            if this.progress.linger(op) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let result = ready!(op.poll(cx));
        this.op = Ok(None);
        Poll::Ready(result.and_then(this.convert))
    }
}

impl<T> Drop for Request<T> {
    fn drop(&mut self) {
        if let Ok(Some(op)) = &self.op {
            drop(op.take_waker());
            self.progress.forget(op);
        }
    }
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("is_over", &self.is_over())
            .finish_non_exhaustive()
    }
}
